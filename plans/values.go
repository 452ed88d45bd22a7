package plans

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// parse returns the attribute's value. A number that its type does not hold is
// strconv.ErrRange.
func (a *attr) parse(s string) (any, error) {
	switch a.kind {
	case intAttr:
		return strconv.ParseInt(s, 10, 64)
	case floatAttr:
		return strconv.ParseFloat(s, 64)
	case listAttr:
		return parseList(s)
	case boolAttr:
		if s == "true" || s == "false" {
			return s == "true", nil
		}
	case wordAttr:
		if slices.Contains(a.words, s) {
			return s, nil
		}
	}
	return nil, strconv.ErrSyntax
}

func parseList(s string) ([]int64, error) {
	inner, opened := strings.CutPrefix(s, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	if !opened || !closed {
		return nil, strconv.ErrSyntax
	}
	list := []int64{}
	if inner == "" {
		return list, nil
	}
	var beyond error // told only if all else is right
	for _, f := range strings.Split(inner, ",") {
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

func (a *attr) wants() string {
	switch a.kind {
	case wordAttr:
		return strings.Join(a.words, " or ")
	case boolAttr:
		return "true or false"
	case listAttr:
		return "a list such as [1,32]"
	case floatAttr:
		return "a number"
	}
	return "a whole number"
}

// rangeWanted goes on from wants where a number is beyond its type.
func (a *attr) rangeWanted(err error) string {
	switch {
	case !errors.Is(err, strconv.ErrRange):
		return ""
	case a.kind == floatAttr:
		return " that f64 holds, up to 1.797693134862315e308, or inf"
	case a.kind == listAttr:
		return " of whole numbers within -2^63 to 2^63 - 1"
	}
	return " within -2^63 to 2^63 - 1"
}
