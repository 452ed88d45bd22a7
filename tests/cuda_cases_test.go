package tests

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/isobit-ml/isobit/cuda"
	"github.com/isobit-ml/isobit/internal/testcase"
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

// haveMany are ops of which each kernel has many cases, and which take their time.
var haveMany = regexp.MustCompile("^(quantized_linear|quantized_linear_per_group|weight_only_linear) ")

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
		texts := slices.DeleteFunc(expand(line), func(text string) bool {
			_, err := plans.Parse(text)
			return err != nil
		})
		if len(texts) == 0 {
			t.Errorf("no choice is a valid problem: %s", line)
		}
		for i, text := range texts {
			kinds := []string{"mixed", "plain", "hot"}
			if strings.HasPrefix(text, "grid_sample") {
				kinds = append(kinds, "inner", "calm")
			}
			c := deviceCase{text: text, data: kinds[(i+1)%len(kinds)]}
			switch {
			case strings.Contains(text, "bounds=error"):
				c.data = "valid"
			case strings.Contains(text, "140004"): // more than 32 bits hold
				c.data = "extreme"
			}
			if problem := plans.MustParse(text); problem.Op() == "matmul" { // as a linear layer's weight and, in its gradient, what comes from above
				sides := []string{"other", "input", "other input"}
				if tensor.NumElements(problem.Shape("y")) >= 3<<19 { // smaller ones run the same kernels all ways
					sides = sides[(i+1)%3:][:1]
				}
				for _, c.transposed = range sides {
					list = append(list, c)
				}
				c.transposed = ""
			}
			apart, off := c, c
			apart.layout, off.shift = testcase.Scattered, 8
			ways := []deviceCase{c, apart, off}
			if len(texts) < 16 || !haveMany.MatchString(text) {
				list = append(list, c, ways[1+i%2])
			} else { // as 7 is no number of choices, every choice meets every way
				list = append(list, ways[(i+2)%7%3])
			}
		}
	}
	return list
}

// TestCUDAMixedDevices passes tensors of two devices: an error that names the
// argument, and nothing launched.
func TestCUDAMixedDevices(t *testing.T) {
	s := startShim(t, buildShim(t))
	defer cuda.ReplaceDriver(s)()
	for _, text := range []string{
		"fake_quantize_per_channel_backward grad_output=f32[3,16] zero_point=f32 grad_scale=f32 axis=0 qmin=-8 qmax=7",
		"embedding weight=f32[4,8] indices=i64[3]",
		"grid_sample_backward grad_output=f32[1,3,4,6] input=f32[1,3,5,7] grid=f32[1,4,6,2]",
	} {
		plan, err := plans.Select(0, plans.MustParse(text+" device=cuda:0"), plans.Preference{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := deviceCase{text: text, data: "plain"}.draw()
		if err != nil {
			t.Fatal(err)
		}
		placed, _, free := c.Place(plan, testcase.Options{})
		defer free()
		for i, a := range c.Args {
			for _, other := range []tensor.Device{{}, {Kind: tensor.CUDA, Index: 1}} {
				if !a.Present {
					continue
				}
				_, views, workspace := placedOnDevice(placed, plan.WorkspaceSize(), 0)
				views[i].Device = other
				err := plan.Run(0, workspace, views)
				var e *plans.Error
				want := fmt.Sprintf(": %s is on %s; want cuda:0", a.Name, other)
				if !errors.As(err, &e) || e.Kind != plans.InvalidArgument || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: error %v, want one with %q", text, err, want)
				}
			}
		}
	}
	if s.count > 0 {
		t.Errorf("%d kernels were launched", s.count)
	}
}

// loads is a cuda.Driver that notes the kernels that the last plan loads; a function is its place among them, from 1.
type loads struct {
	cuda.Driver
	kernels []string
}

func (l *loads) Available() error { return nil }

func (l *loads) Load(_ int, kernels []string) ([]cuda.Function, error) {
	l.kernels = kernels
	functions := make([]cuda.Function, len(kernels))
	for i, name := range kernels {
		if name != "" { // else a kernel that never runs
			functions[i] = cuda.Function(i + 1)
		}
	}
	return functions, nil
}

// TestCUDALoads holds what plans load: kernels that some layout of the tensors takes,
// and no others.
func TestCUDALoads(t *testing.T) {
	l := &loads{}
	defer cuda.ReplaceDriver(l)()
	for _, c := range []struct{ text, want string }{
		{"choose_qparams_per_channel x=f32[70,264] axis=1 qmin=-8 qmax=7", "choose_qparams_f32 choose_qparams_f32_column choose_qparams_f32_lanes choose_qparams_f32_columns choose_qparams_f32_columns_fold"},
		{"choose_qparams_per_tensor x=f32[140000] qmin=-8 qmax=7", "choose_qparams_f32 choose_qparams_f32_fold choose_qparams_f32_packs choose_qparams_f32_pieces choose_qparams_f32_fold"},
		{"dynamic_quantize_per_token x=f32[9,64] q=s8 qmin=-128 qmax=127", "choose_qparams_f32 choose_qparams_f32_packs choose_qparams_f32_short quantize_f32_s8 quantize_dynamic_short_f32_8"},
		{"fake_quantize_per_group_backward grad_output=f32[64,128] grad_scale=f32 group_size=128 qmin=-8 qmax=7", "fake_quantize_sums_f32 fake_quantize_sums_f32_packs fake_quantize_sums_f32_short"},
		{"dequantize_per_tensor_backward grad_output=f32[140000] q=s8 grad_scale=f32 qmin=-8 qmax=7", "dequantize_sums_f32 dequantize_sums_f32_fold dequantize_sums_f32_packs dequantize_sums_f32_few"},
		{"embedding weight=f32[4,8] indices=i64[3] bounds=skip", "embedding_f32"},
		{"embedding_bag_per_sample_weights_backward grad_output=f32[7,5] weight=f32[11,5] indices=i64[7,3]", "embedding_bag_weights_f32"},
		{"quantized_linear_per_group x=s8[3,64] weight=u4[5,64] group_size=32", "quantized_linear_per_group_f32 group_linear_four"},
		{"quantized_linear_per_group x=s8[3,64] weight=u4[5,64] group_size=16", "quantized_linear_per_group_f32"},
		{"quantized_linear_per_group x=s8[17,64] weight=u4[5,64] group_size=32", "quantized_linear_per_group_f32 group_linear_small_sm80"},
		{"grid_sample_backward grad_output=f32[1,1,2,2,2] input=f32[1,1,3,3,3] grid=f32[1,2,2,2,3] grad_grid=none", "input_keys_3d_f32 fill sort_pass_4 sort_runs sort_count input_gradient_3d_f32_store"},
	} {
		if _, err := plans.Select(0, plans.MustParse(c.text+" device=cuda:0"), plans.Preference{}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(strings.Fields(strings.Join(l.kernels, " ")), " "); got != c.want {
			t.Errorf("%s\nloads %s\nwant  %s", c.text, got, c.want)
		}
	}
}
