package plans

import (
	"slices"

	"github.com/isobit-ml/isobit/tensor"
)

// Description is what a plan tells about itself.
type Description struct {
	Problem       string        `json:"problem"`
	Category      Category      `json:"category"`
	Row           string        `json:"row"`  // SKU.Row
	Arch          string        `json:"arch"` // SKU.Arch
	WorkspaceSize int64         `json:"workspace_size"`
	Args          []ArgInfo     `json:"args"`
	Guarantee     GuaranteeInfo `json:"precision_guarantee"`
}

// ArgInfo describes one argument of a plan.
type ArgInfo struct {
	Name      string  `json:"name"`
	DType     string  `json:"dtype"`     // "none" where the problem has none
	Shape     []int64 `json:"shape"`     // as the tensor is passed: in bytes where codes are packed, whose View is U8
	Direction string  `json:"direction"` // "in", "out", or "inout" of an output that is read first
	Optional  bool    `json:"optional"`
	Present   bool    `json:"present"`
}

// GuaranteeInfo is a PrecisionGuarantee in words.
type GuaranteeInfo struct {
	Math           string `json:"math"`
	Accumulator    string `json:"accumulator"`
	Deterministic  bool   `json:"deterministic"`
	BitStable      bool   `json:"bit_stable"`
	SameEverywhere bool   `json:"same_everywhere"`
}

// Describe returns a plan's identity, arguments, row and workspace. It panics if
// p is nil, as its methods do.
func Describe(p Plan) Description {
	problem, sku, g := p.Problem(), p.SKU(), p.PrecisionGuarantee()
	d := Description{
		Problem: problem.String(), Category: sku.Category, Row: sku.Row, Arch: sku.Arch, WorkspaceSize: p.WorkspaceSize(),
		Guarantee: GuaranteeInfo{g.Math.String(), g.Accumulator.String(), g.Deterministic, g.BitStable, g.SameEverywhere},
	}
	for i := range problem.op.args {
		a := &problem.op.args[i]
		info := ArgInfo{Name: a.name, DType: problem.types[i].String(), Shape: problem.shapes[i], Direction: direction(a), Optional: a.optional}
		if a.out && problem.accumulates() {
			info.Direction = "inout"
		}
		info.Present = problem.types[i] != tensor.None
		switch {
		case !info.Present:
			info.Shape = nil
		case problem.types[i].Packed():
			info.Shape = packedShape(info.Shape)
		default:
			info.Shape = slices.Clone(info.Shape)
		}
		d.Args = append(d.Args, info)
	}
	return d
}

func direction(a *arg) string {
	switch {
	case a.inout:
		return "inout"
	case a.out:
		return "out"
	}
	return "in"
}

// accumulates reports whether results are added to what outputs hold.
func (p *Problem) accumulates() bool { return p.op.hasAttr("accumulate") && p.bool("accumulate") }

// SupportOp is one op of the support matrix.
type SupportOp struct {
	Op         string        `json:"op"`
	Doc        string        `json:"doc"`
	Formulas   []string      `json:"formulas"` // of each output, in the order of args
	Numerics   []int         `json:"numerics"` // the sections of NUMERICS.md that say which bits
	Category   Category      `json:"category"`
	Args       []SupportArg  `json:"args"`
	Attributes []SupportAttr `json:"attributes"`
	Devices    []string      `json:"devices"`
	Rows       []string      `json:"rows"`             // best first
	Groups     string        `json:"groups,omitempty"` // of an op over grouped elements: which elements share a scale
}

// SupportArg is one argument of an op and the types that it takes.
type SupportArg struct {
	Name      string   `json:"name"`
	Direction string   `json:"direction"` // "in", "out" or "inout"; with accumulate=true an "out" is a plan's "inout"
	Optional  bool     `json:"optional"`
	DTypes    []string `json:"dtypes"`
	Default   string   `json:"default"`            // the type where the problem's text leaves the key out; "": it is required
	Shape     string   `json:"shape"`              // in words or as a formula, in elements
	InText    bool     `json:"shape_in_text"`      // whether the problem's text gives the shape, or it follows from others
	InPlace   []string `json:"in_place,omitempty"` // of an output: the inputs that may be the very same tensor
	Doc       string   `json:"doc"`
}

// SupportAttr is one attribute of an op; those without a default are required.
type SupportAttr struct {
	Name    string   `json:"name"`
	Type    string   `json:"type"` // "int", "float", "bool", "word" or "list"
	Default any      `json:"default"`
	Words   []string `json:"words,omitempty"`
	Doc     string   `json:"doc"`
}

// Support lists every op with its formulas and the types, devices and rows that
// it has. It is read off the tables that plans are selected from.
func Support() (table []SupportOp) {
	for i := range ops {
		o := &ops[i]
		row := SupportOp{
			Op: o.name, Doc: o.doc, Formulas: slices.Clone(o.formulas), Numerics: slices.Clone(o.sections),
			Groups: o.groups, Category: o.category, Attributes: []SupportAttr{}, Devices: devicesOf(o), Rows: o.rows(),
		}
		for k := range o.args {
			of := &o.args[k]
			a := SupportArg{
				Name: of.name, Direction: direction(of), Optional: of.optional,
				Default: of.defaultType.says, Shape: of.form, InText: of.shaped, Doc: of.doc,
			}
			for _, d := range of.allow {
				a.DTypes = append(a.DTypes, d.String())
			}
			for _, pair := range o.inPlace {
				if pair[0] == k {
					a.InPlace = append(a.InPlace, o.args[pair[1]].name)
				}
			}
			row.Args = append(row.Args, a)
		}
		for _, a := range o.attrs {
			row.Attributes = append(row.Attributes, SupportAttr{a.name, attrKinds[a.kind].name, a.def, slices.Clone(a.words), a.doc})
		}
		table = append(table, row)
	}
	return table
}
