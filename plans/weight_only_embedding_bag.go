package plans

import (
	"slices"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// weightOnlyEmbeddingBag is embedding_bag of a table that is stored as codes, in
// groups along its rows: only rows that are named are dequantized.
//
// Workspace: embedding_bag's, then what readyParameters and decodedTable make.
var weightOnlyEmbeddingBag = op{
	name: "weight_only_embedding_bag", category: Embedding,
	doc: "Sums, means or maxima of the rows of a table of codes that the indices of each bag name.",
	formulas: []string{
		"y[b] = sum(w[indices[i]] * per_sample_weights[i]) over positions i of bag b, w = (weight - weight_zero_point) * weight_scale of the column's group, in y's type; mean: divided by how many; max: the largest",
	},
	sections: []int{5, 3, 4},
	args: slices.Concat([]arg{
		{name: "weight", shaped: true, compact: always, allow: codes, form: "[V, D]", doc: "the codes of the table"},
		bagIndicesArg,
		offsetsArg,
		codeFactorsArg(),
	}, weightParameterArgs("[V, ceil(D / group_size)]", learnedZero), []arg{
		{name: "y", out: true, allow: floats, defaultType: fixed(tensor.F32), form: "[B, D]", doc: "a row for each bag"},
	}),
	attrs: append([]attr{{name: "group_size", doc: "codes along a row that share a scale, at least 1"}, modeAttr, boundsAttr}, bagAttrs...),
	infer: func(p *Problem) error {
		if err := checkTable(p, "weight"); err != nil {
			return err
		}
		count, err := inferBags(p, "weight", "per_sample_weights", "y")
		if err != nil {
			return err
		}
		w := p.Shape("weight")
		p.setShape("y", []int64{count, w[1]})
		return all(inferMode, inferWeightGroups(w))(p)
	},
	build: func(pl *plan) error {
		e, err := newBagForward(pl, cpu.CodeBags, cpu.CodeBagMax)
		if err != nil {
			return err
		}
		codes, group := pl.problem.DType("weight"), weightGroup(&pl.problem)
		ready := newReadyParameters(pl)
		e.decoded = newDecodedTable(pl, e.mode == "max")
		e.codes = func(c *call) cpu.WeightRows {
			w := weightRowsOf(&c.args[bagRows], &c.args[bagFurther], &c.args[bagFurther+1], codes, group)
			if ready != nil {
				ready.run(c, &w)
			}
			return w
		}
		return nil
	},
	rows: namesOf(cpu.CodeBags),
}

// codeFactorsArg is what indices into codes are multiplied by.
func codeFactorsArg() arg {
	a := factorsArg
	a.doc = "what each index's row is multiplied by, in y's type; with mode=sum alone"
	return a
}
