package tests

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// expand replaces each word {a|b} of a text by every choice.
func expand(text string) (all []string) {
	head, rest, found := strings.Cut(text, "{")
	if !found {
		return []string{text}
	}
	choices, tail, _ := strings.Cut(rest, "}")
	for _, choice := range strings.Split(choices, "|") {
		for _, end := range expand(tail) {
			all = append(all, head+choice+end)
		}
	}
	return all
}

// deviceCases lists every choice that is a valid problem (choices of several
// tensors need not fit), with several kinds of data and layouts.
func deviceCases(t *testing.T) (list []deviceCase) {
	file, err := os.ReadFile("../cuda/cases.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(file)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "#") {
			continue
		}
		valid := 0
		for _, text := range expand(line) {
			if _, err := plans.Parse(text); err != nil {
				continue
			}
			valid++
			c := deviceCase{text: text, data: [...]string{"mixed", "plain", "hot"}[valid%3], layout: compact}
			switch {
			case strings.Contains(text, "bounds=error"):
				c.data = "valid"
			case strings.Contains(text, "140004"): // more than 32 bits hold
				c.data = "extreme"
			}
			list = append(list, c)
			if valid%2 == 0 {
				c.shift = 8
			} else {
				c.layout = strided
			}
			list = append(list, c)
		}
		if valid == 0 {
			t.Errorf("no choice is a valid problem: %s", line)
		}
	}
	return list
}

// rowsApart places packed codes, whose last dimension must be compact, with
// three bytes between rows.
func rowsApart(dtype tensor.DType, shape []int64) placed {
	strides := make([]int64, len(shape))
	step := int64(1)
	for i, extent := range slices.Backward(shape) {
		strides[i] = step
		if step *= max(extent, 1); i == len(shape)-1 {
			step += 3
		}
	}
	p := place(dtype, shape, strides, step, 0)
	columns := shape[len(shape)-1]
	for i := range tensor.NumElements(shape) {
		p.at = append(p.at, i/columns*(columns+3)+i%columns)
	}
	return p
}
