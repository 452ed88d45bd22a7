package plans

import (
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
	name  string                      // in the support matrix
	wants string                      // in errors; "": the attribute's words
	parse func(a *attr, s string) any // the value, or nil
}{
	intAttr: {"int", "a whole number", func(_ *attr, s string) any {
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			return n
		}
		return nil
	}},
	floatAttr: {"float", "a number", func(_ *attr, s string) any {
		if f, err := strconv.ParseFloat(s, 64); err == nil {
			return f
		}
		return nil
	}},
	boolAttr: {"bool", "true or false", func(_ *attr, s string) any {
		if s == "true" || s == "false" {
			return s == "true"
		}
		return nil
	}},
	wordAttr: {"word", "", func(a *attr, s string) any {
		if slices.Contains(a.words, s) {
			return s
		}
		return nil
	}},
	listAttr: {"list", "a list such as [1,32]", func(_ *attr, s string) any {
		inner, opened := strings.CutPrefix(s, "[")
		inner, closed := strings.CutSuffix(inner, "]")
		if list, ok := parseList(inner); ok && opened && closed {
			return list
		}
		return nil
	}},
}

func (a *attr) parse(s string) any { return attrKinds[a.kind].parse(a, s) }

// wants says in an error which values there are.
func (a *attr) wants() string {
	if wants := attrKinds[a.kind].wants; wants != "" {
		return wants
	}
	return strings.Join(a.words, " or ")
}

// parseList reads whole numbers between commas; none are an empty list.
func parseList(s string) ([]int64, bool) {
	list := []int64{}
	if s == "" {
		return list, true
	}
	for _, f := range strings.Split(s, ",") {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return nil, false
		}
		list = append(list, n)
	}
	return list, true
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
