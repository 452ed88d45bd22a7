package plans

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/isobit-ml/isobit/tensor"
)

// attr is one attribute. Where def is nil it is required.
type attr struct {
	name  string
	doc   string // what it says, in a line
	kind  attrKind
	def   any      // int64, float64, bool, string or []int64
	words []string // of a wordAttr
}

type attrKind int

const (
	intAttr attrKind = iota
	floatAttr
	boolAttr
	wordAttr
	listAttr
)

var attrKinds = [...]struct {
	name  string                               // in the support matrix
	wants string                               // in errors; "": the attribute's words
	holds string                               // ... that go on so, where a number is beyond its type
	parse func(a *attr, s string) (any, error) // such a number is strconv.ErrRange
}{
	intAttr: {"int", "a whole number", " within -2^63 to 2^63 - 1", func(_ *attr, s string) (any, error) {
		return strconv.ParseInt(s, 10, 64)
	}},
	floatAttr: {"float", "a number", " that f64 holds, up to 1.797693134862315e308, or inf", func(_ *attr, s string) (any, error) {
		if strings.Contains(s, "_") { // Go's digit separators are no part of the text
			return nil, strconv.ErrSyntax
		}
		return strconv.ParseFloat(s, 64)
	}},
	boolAttr: {"bool", "true or false", "", func(_ *attr, s string) (any, error) {
		if s == "true" || s == "false" {
			return s == "true", nil
		}
		return nil, strconv.ErrSyntax
	}},
	wordAttr: {"word", "", "", func(a *attr, s string) (any, error) {
		if slices.Contains(a.words, s) {
			return s, nil
		}
		return nil, strconv.ErrSyntax
	}},
	listAttr: {"list", "a list such as [1,32]", " of whole numbers within -2^63 to 2^63 - 1", func(_ *attr, s string) (any, error) {
		return parseList(s)
	}},
}

func (a *attr) parse(s string) (any, error) { return attrKinds[a.kind].parse(a, s) }

// wants says in an error which values there are.
func (a *attr) wants() string {
	if wants := attrKinds[a.kind].wants; wants != "" {
		return wants
	}
	return "one of " + strings.Join(a.words, ", ")
}

// wanted is wants where a text does not parse.
func (a *attr) wanted(err error) string {
	if errors.Is(err, strconv.ErrRange) {
		return a.wants() + attrKinds[a.kind].holds
	}
	return a.wants()
}

// parseList reads whole numbers between commas, in brackets; none are an empty list.
func parseList(s string) ([]int64, error) {
	inner, opened := strings.CutPrefix(s, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	if !opened || !closed {
		return nil, strconv.ErrSyntax
	}
	if inner == "" {
		return []int64{}, nil
	}
	list := make([]int64, 0, strings.Count(inner, ",")+1)
	var beyond error // told only if all else is right
	for more := true; more; {
		var f string
		f, inner, more = strings.Cut(inner, ",")
		n, err := strconv.ParseInt(f, 10, 64)
		switch {
		case errors.Is(err, strconv.ErrRange):
			beyond = err
		case err != nil:
			return nil, err
		}
		list = append(list, n)
	}
	return list, beyond
}

func formatAttr(v any) string {
	switch v := v.(type) {
	case []int64:
		return tensor.ShapeString(v)
	case float64:
		return strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(v, 'g', -1, 64), "+"))
	}
	return fmt.Sprint(v)
}

// attr returns the number of an attribute, or -1.
func (o *op) attr(name string) int {
	for i := range o.attrs {
		if o.attrs[i].name == name {
			return i
		}
	}
	return -1
}

func (o *op) hasAttr(name string) bool { return o.attr(name) >= 0 }

// The value of an attribute, which the op has.
func (p *Problem) attr(name string) any      { return p.attrs[p.op.attr(name)] }
func (p *Problem) int(name string) int64     { return p.attr(name).(int64) }
func (p *Problem) float(name string) float64 { return p.attr(name).(float64) }
func (p *Problem) bool(name string) bool     { return p.attr(name).(bool) }
func (p *Problem) word(name string) string   { return p.attr(name).(string) }
