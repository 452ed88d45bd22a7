package tests

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
)

const opsHead = `# Operations

<!-- made by go test ./tests -run TestSupportReference -update -->
What plans take, for C, C++ and Go, and for ` + "`isobit.Plan`" + ` in Python. ` + "`isobit_support` and `plans.Support`" + ` have the same as JSON. [NUMERICS.md](NUMERICS.md) says which bits come out, [README.md](README.md) what runs where.

A problem is a line of text: the op, then keys with values in any order, separated by single spaces. The examples below are such lines, as the tests draw them.
- **Arguments** are passed to a run in the order of their table. *in the text* says what the problem's text has of one: its type T, and its shape where that does not follow from other arguments. *or* ` + "`none`" + ` stands for an absent argument, and what comes after *else* is taken where the key is left out. An absent argument is passed as NULL (C), ` + "`{}`" + ` (C++) or a zero View (Go).
- *floats* are f32, f64, f16 and bf16. Where a type has to be another argument's, the last column says so.
- **Shapes** count elements. Letters mean the same in all shapes of an op. Codes of 4 bits (s4, u4) are passed in pairs, as u8 with ceil(D / 2) bytes along the last dimension, the lower half first.
- An *inout* is read and written; with accumulate=true outputs are, too.
- **Attributes** without a default are required.
- Every op also takes ` + "`device=cuda:N`" + `; without it tensors lie in the memory of the CPU.
- **Formulas** are for reading: one for each output, ` + "`rint`" + ` rounding to the nearest whole number, ties to even. An absent argument has no term. The sections of NUMERICS.md that an op links to say how each step rounds, in which order sums are added up, and what becomes of infinities and NaN.

## Groups
Which elements share a scale and a zero point, by the op's name. These attributes come with the name, and are required.

`

// TestSupportReference holds OPS.md against the plans' own tables.
func TestSupportReference(t *testing.T) {
	want := opsReference(t)
	if *update {
		require.NoError(t, os.WriteFile("../OPS.md", []byte(want), 0o644))
		return
	}
	sameText(t, want, readRoot(t, "OPS.md"), "OPS.md", "go test ./tests -run TestSupportReference -update")
}

// Every op has its section with an example, which is a problem's text as it is
// logged.
func TestSupportReferenceExamples(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z_]+) .*$`).FindAllStringSubmatch(readRoot(t, "OPS.md"), -1) {
		if slices.Contains(plans.OpNames(), m[1]) {
			p, err := plans.Parse(m[0])
			require.NoError(t, err)
			require.Equal(t, m[0], p.String())
			seen[m[1]] = true
		}
	}
	for _, name := range plans.OpNames() {
		require.True(t, seen[name], "OPS.md has no example of %s: go test ./tests -run TestSupportReference -update", name)
	}
}

// Every op, argument and attribute says in a line what it is, every output has
// its formula, and what the formula leaves open is a section of NUMERICS.md, which
// names the op, or what it is the gradient of.
func TestSupportSaysWhatThingsAre(t *testing.T) {
	sections := numericsSections(t)
	for _, o := range plans.Support() {
		require.Regexp(t, `^[A-Za-z].*\.$`, o.Doc, o.Op)
		require.NotEmpty(t, o.Numerics, o.Op)
		rules := ""
		for _, number := range o.Numerics {
			require.Contains(t, sections, number, o.Op)
			rules += sections[number].text
		}
		named := companion.ReplaceAllString(granularityName.ReplaceAllString(o.Op, "$2"), "")
		require.True(t, regexp.MustCompile(`\b`+named+`\b`).MatchString(rules), "NUMERICS.md does not name %s in sections %v, which plans gives %s", named, o.Numerics, o.Op)
		formulas := o.Formulas
		for _, a := range o.Args {
			if a.Direction != "in" {
				require.NotEmpty(t, formulas, o.Op+" "+a.Name)
				require.Regexp(t, `^`+a.Name+`(\[[\w, ]+\])? = [^`+"`"+`]*[^.`+"`"+`]$`, formulas[0], o.Op+" "+a.Name)
				formulas = formulas[1:]
			}
			require.Regexp(t, `^[\w ].*[^.]$`, a.Doc, o.Op+" "+a.Name)
			require.NotEmpty(t, a.Shape, o.Op+" "+a.Name)
		}
		require.Empty(t, formulas, o.Op)
		for _, a := range o.Attributes {
			require.Regexp(t, `^[\w\[].*[^.]$`, a.Doc, o.Op+" "+a.Name)
			require.NotEmpty(t, a.Type, o.Op+" "+a.Name)
		}
	}
}

// companion is the end of the name of an op that goes with another.
var companion = regexp.MustCompile(`_(double_backward|per_sample_weights_backward|backward|renorm)$`)

type section struct{ title, text string } // of which the title is the first line

// numericsSections returns NUMERICS.md's sections by number.
func numericsSections(t *testing.T) map[int]section {
	t.Helper()
	sections := map[int]section{}
	for _, text := range strings.Split(readRoot(t, "NUMERICS.md"), "\n## ")[1:] {
		title, _, _ := strings.Cut(text, "\n")
		before, _, _ := strings.Cut(title, ".")
		number, err := strconv.Atoi(before)
		require.NoError(t, err)
		sections[number] = section{title, text}
	}
	return sections
}

// anchorOf returns the anchor that GitHub makes of a title.
func anchorOf(title string) string {
	kept := regexp.MustCompile(`[^\w -]`).ReplaceAllString(strings.ToLower(title), "")
	return strings.ReplaceAll(kept, " ", "-")
}

var granularityName = regexp.MustCompile(`_per_(tensor|channel|token|group|block)(_|$)`)

// opsReference writes one section per op; those that differ only in granularity
// share one.
func opsReference(t *testing.T) string {
	var order []string
	families := map[string][]plans.SupportOp{}
	for _, o := range plans.Support() {
		name := o.Op
		if o.Groups != "" {
			name = granularityName.ReplaceAllString(o.Op, "_per_*$2")
		}
		if families[name] == nil {
			order = append(order, name)
		}
		families[name] = append(families[name], o)
	}
	var b strings.Builder
	b.WriteString(opsHead)
	b.WriteString("| op | elements of a group | attribute | shape of scale, zero_point and their gradients |\n|---|---|---|---|\n")
	category := plans.Category("")
	for i, name := range order {
		family := families[name]
		if i == 0 {
			for _, o := range family {
				b.WriteString(groupLine(o))
			}
			b.WriteString("\nd0, ..., dn are the extents of the first argument. All others have its shape.\n")
		}
		if family[0].Category != category {
			category = family[0].Category
			fmt.Fprintf(&b, "\n## %s%s\n", strings.ToUpper(string(category[:1])), category[1:])
		}
		writeOp(t, &b, name, family)
	}
	return b.String()
}

// groupLine says what is particular of a granularity.
func groupLine(o plans.SupportOp) string {
	var attributes []string
	for _, a := range o.Attributes {
		if a.Default == nil && a.Name != "qmin" && a.Name != "qmax" {
			attributes = append(attributes, fmt.Sprintf("`%s=%s`: %s", a.Name, valueOf(a), a.Doc))
		}
	}
	shape := ""
	for _, a := range o.Args {
		if a.Name == "scale" {
			shape = a.Shape
		}
	}
	return fmt.Sprintf("| ..._per_%s... | %s | %s | %s |\n", granularityName.FindStringSubmatch(o.Op)[1], o.Groups, strings.Join(attributes, "; "), shape)
}

// writeOp writes the section of an op, or of one in every granularity.
func writeOp(t *testing.T, b *strings.Builder, name string, family []plans.SupportOp) {
	kinds := make([]string, len(family))
	for i, o := range family {
		kinds[i] = append(granularityName.FindStringSubmatch(o.Op), "", "")[1]
	}
	o := family[0] // per tensor, which has no attributes of its own
	fmt.Fprintf(b, "\n### %s\n%s\n", strings.Replace(name, "*", "{"+strings.Join(kinds, ",")+"}", 1), o.Doc)
	for _, formula := range o.Formulas {
		fmt.Fprintf(b, "- `%s`\n", formula)
	}
	sections, links := numericsSections(t), make([]string, len(o.Numerics))
	for i, number := range o.Numerics {
		links[i] = fmt.Sprintf("[%s](NUMERICS.md#%s)", sections[number].title, anchorOf(sections[number].title))
	}
	fmt.Fprintf(b, "\nIts bits: %s\n```\n", strings.Join(links, ", "))
	for _, member := range family {
		fmt.Fprintln(b, example(t, member.Op))
	}
	b.WriteString("```\n| argument | direction | in the text | types T | shape | what it is |\n|---|---|---|---|---|---|\n")
	for i, a := range o.Args {
		shape := a.Shape
		switch last := family[len(family)-1].Args[i].Shape; {
		case o.Groups != "" && i == 0:
			shape = "any; see [groups](#groups)"
		case shape != last:
			shape = "by [group](#groups)"
		}
		doc := a.Doc
		if len(a.InPlace) > 0 {
			doc += "; may be the same tensor as " + strings.Join(a.InPlace, " or ")
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s |\n", a.Name, a.Direction, inText(a), typesOf(a), shape, doc)
	}
	if len(o.Attributes) > 0 {
		b.WriteString("\n| attribute | default | what it says |\n|---|---|---|\n")
	}
	for _, a := range o.Attributes {
		def := ""
		if a.Default != nil {
			def = fmt.Sprint(a.Default)
		}
		fmt.Fprintf(b, "| `%s=%s` | %s | %s |\n", a.Name, valueOf(a), def, a.Doc)
	}
}

func inText(a plans.SupportArg) string {
	s := "`" + a.Name + "=T`"
	if a.InText {
		s = "`" + a.Name + "=T[shape]`"
	}
	switch {
	case a.Optional && !strings.HasPrefix(a.Default, "none"):
		return s + " or `none`, else " + a.Default
	case a.Default != "":
		return s + ", else " + a.Default
	}
	return s
}

func valueOf(a plans.SupportAttr) string {
	switch a.Type {
	case "word":
		return strings.Join(a.Words, "\\|")
	case "bool":
		return "true\\|false"
	case "list":
		return "[b0,...,bn]"
	}
	return a.Type
}

func typesOf(a plans.SupportArg) string {
	return strings.Replace(strings.Join(a.DTypes, " "), "f32 f64 f16 bf16", "floats", 1)
}

var (
	several     = regexp.MustCompile(`^\w+ \w+=\w+\[\d+,`)
	tellsLittle = regexp.MustCompile(`[\[,]1[\],]|=\w+\[\]|qmin=0 qmax=[01]\b|f64`)
	long        = regexp.MustCompile(`16\[|[\[,]\d\d+`)
	shown       = regexp.MustCompile(` offsets=| grad_scale=`)
)

// example is the shortest of some drawn problems of an op that tell something:
// tensors of several dimensions, none of them 1, and many codes. Those with
// offsets, or a gradient of scales, come first; wide ones last.
func example(t *testing.T, op string) (best string) {
	least := 0
	drawn := slices.ContainsFunc(testcase.Table, func(o testcase.Op) bool { return o.Name == op })
	require.True(t, drawn, "internal/testcase has no line for %s, so that no problem of it is drawn", op)
	for seed := range uint64(300) {
		c, err := testcase.Find(op).New(testcase.NewSource(seed, testcase.Small))
		require.NoError(t, err)
		text := c.Problem.String()
		cost := len(text) + 9*len(long.FindAllString(text, -1)) - 99*len(shown.FindAllString(text, -1))
		if several.MatchString(text) && !tellsLittle.MatchString(text) && (best == "" || cost < least) {
			best, least = text, cost
		}
	}
	require.NotEmpty(t, best, "no problem that is drawn of %s makes an example", op)
	return best
}
