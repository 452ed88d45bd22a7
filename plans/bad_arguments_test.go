package plans_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// spoil makes an argument one that must be refused. It returns false where it
// does not apply.
type spoil struct {
	name  string
	out   bool // outputs only
	apply func(v *tensor.View) bool
	want  string // a pattern of the message
}

var spoils = []spoil{
	{"absent", false, func(v *tensor.View) bool { *v = tensor.View{}; return true }, `^is missing; want \w+\[.*\]$`},
	{"another type", false, func(v *tensor.View) bool { v.DType = tensor.Bool; return true }, `^is bool\[.*\]; want \w+\[.*\]$`},
	{"an unknown type", false, func(v *tensor.View) bool { v.DType = 250; return true }, `^is dtype\(250\)\[.*\]; want \w+\[.*\]$`},
	{"another rank", false, func(v *tensor.View) bool {
		v.Shape, v.Strides = append([]int64{1, 1}, v.Shape...), nil
		return true
	}, `^has shape \[1, 1.*\]; want \[.*\]$`},
	{"an extent too large", false, func(v *tensor.View) bool {
		v.Shape = slices.Clone(v.Shape)
		return change(v.Shape, func(d int64) int64 { return d + 1 })
	}, `^has shape \[.*\]; want \[.*\]$`},
	{"an extent below zero", false, func(v *tensor.View) bool {
		v.Shape = slices.Clone(v.Shape)
		return change(v.Shape, func(int64) int64 { return -1 })
	}, `^has shape \[.*-1.*\]; want \[.*\]$`},
	{"too many strides", false, func(v *tensor.View) bool { v.Strides = append(strides(v), 1); return true }, `^has \d+ strides for \d+ dimensions$`},
	{"another device", false, func(v *tensor.View) bool {
		v.Device = tensor.Device{Kind: tensor.CUDA, Index: 1}
		return true
	}, `^is on cuda:1; want cpu$`},
	{"a device unheard of", false, func(v *tensor.View) bool {
		v.Device = tensor.Device{Kind: 77}
		return true
	}, `^is on device\(77\):0; want cpu$`},
	{"null", false, func(v *tensor.View) bool { v.Data = nil; return true }, `^has a null data pointer for \w+\[.*\]$`},
	{"unaligned", false, func(v *tensor.View) bool {
		if v.DType.Size() == 1 {
			return false
		}
		v.Data, v.Low, v.High = unsafe.Add(v.Data, 1), 0, 0
		return true
	}, `^is at an address that is not a multiple of its element size, \d$`},
	{"memory that ends early", false, func(v *tensor.View) bool { v.High--; return v.High != 0 || v.Low != 0 }, `^spans bytes \[.*\) of its memory, which has \[.*\)$`},
	{"memory that begins late", false, func(v *tensor.View) bool { v.Low++; return v.High != 0 || v.Low != 0 }, `^spans bytes \[.*\) of its memory, which has \[.*\)$`},
	{"strides beyond 64 bits", false, func(v *tensor.View) bool {
		v.Strides = strides(v)
		for i, d := range v.Shape {
			if d > 1 {
				v.Strides[i] = 1 << 62
				return true
			}
		}
		return false
	}, `^has strides \[.*\], which reach beyond all memory$`},
	{"read-only", true, func(v *tensor.View) bool { v.ReadOnly = true; return true }, `^is read-only; it is an output$`},
	{"expanded", true, func(v *tensor.View) bool {
		v.Strides, v.Low, v.High = strides(v), 0, 0
		for i, d := range v.Shape[:max(0, len(v.Shape)-1)] { // packed codes are compact along the last
			if d > 1 {
				v.Strides[i] = 0
				return true
			}
		}
		return false
	}, `^has strides \[.*\] with which elements may overlap; it is an output$`},
	{"overlapping windows", true, func(v *tensor.View) bool {
		v.Strides, v.Low, v.High = strides(v), 0, 0
		last := len(v.Shape) - 1
		if last < 1 || v.Shape[last] < 2 || v.Shape[last-1] < 2 {
			return false
		}
		v.Strides[last-1], v.Strides[last] = 1, 1
		return true
	}, `^has strides \[.*\] with which elements may overlap; it is an output$`},
}

// change changes the first extent above 1.
func change(shape []int64, f func(int64) int64) bool {
	for i, d := range shape {
		if d > 1 {
			shape[i] = f(d)
			return true
		}
	}
	return false
}

func strides(v *tensor.View) []int64 {
	s := make([]int64, len(v.Shape))
	for i := range s {
		s[i] = v.Stride(i)
	}
	return s
}

// refusal is a placed case whose runs must fail.
type refusal struct {
	t         *testing.T
	c         *testcase.Case
	plan      plans.Plan
	workspace []byte
	memory    [][]byte // of the tensors
	before    [][]byte // what it held
}

func newRefusal(t *testing.T, c *testcase.Case, placed testcase.Placement, plan plans.Plan, workspace []byte) *refusal {
	r := &refusal{t: t, c: c, plan: plan, workspace: workspace}
	for _, p := range placed {
		r.memory = append(r.memory, p.Memory)
		r.before = append(r.before, bytes.Clone(p.Memory))
	}
	return r
}

// expect asks for an error about one argument, and for untouched memory.
func (r *refusal) expect(args []tensor.View, kind plans.Kind, arg, want, how string) {
	r.t.Helper()
	about := fmt.Sprintf("%s\n%s: %s", r.c.Text, arg, how)
	err := r.plan.Run(0, r.workspace, args)
	require.Error(r.t, err, about)
	e := requireKind(r.t, err, kind)
	require.Equal(r.t, r.c.Op.Name, e.Op, about)
	require.Equal(r.t, arg, e.Arg, about)
	require.Regexp(r.t, want, e.Msg, about)
	require.Equal(r.t, e.Op+": "+e.Arg+" "+e.Msg, err.Error(), about)
	for i := range r.memory {
		require.True(r.t, bytes.Equal(r.before[i], r.memory[i]), "%s\n%s was written", about, r.c.Args[i].Name)
	}
	if arg != "workspace" {
		require.Equal(r.t, err, r.plan.CanImplement(args), about)
	}
}

func refusals(t *testing.T, c *testcase.Case, layout testcase.Layout, test func(r *refusal, args func() []tensor.View)) {
	plan, err := plans.Select(0, c.Problem, plans.Preference{Threads: 1})
	require.NoError(t, err)
	placed, workspace, free := c.Place(plan, testcase.Options{Layout: layout})
	defer free()
	test(newRefusal(t, c, placed, plan, workspace), placed.Views)
	require.NoError(t, plan.Run(0, workspace, placed.Views()), "as it was: %s", c.Text)
}

// Each way in which an argument can be wrong gives its error, for every
// argument of every op, and nothing is written.
func TestBadArguments(t *testing.T) {
	applied := map[string]int{}
	forEachOp(t, testcase.Small, 4, func(t *testing.T, c *testcase.Case, rng *rand.Rand) {
		for _, layout := range []testcase.Layout{nil, testcase.Mixed(rng)} {
			refusals(t, c, layout, func(r *refusal, args func() []tensor.View) {
				for i := range c.Args {
					for _, s := range spoils {
						views := args()
						if a := &c.Args[i]; a.Present && (a.Out() || !s.out) && s.apply(&views[i]) {
							r.expect(views, plans.InvalidArgument, a.Name, s.want, s.name)
							applied[s.name]++
						}
					}
				}
			})
		}
	})
	for _, s := range spoils {
		require.Greater(t, applied[s.name], 20, s.name)
	}
}

// The number of arguments, and tensors where the problem has none.
func TestWrongArguments(t *testing.T) {
	forEachOp(t, testcase.Small, 4, func(t *testing.T, c *testcase.Case, _ *rand.Rand) {
		refusals(t, c, nil, func(r *refusal, args func() []tensor.View) {
			want := fmt.Sprintf(`^has \d+ tensors; want %d: %s, .*%s$`, len(c.Args), c.Args[0].Name, c.Args[len(c.Args)-1].Name)
			r.expect(args()[1:], plans.InvalidArgument, "args", want, "one less")
			r.expect(append(args(), tensor.View{}), plans.InvalidArgument, "args", want, "one more")
			r.expect(nil, plans.InvalidArgument, "args", want, "none")
			for i, a := range c.Args {
				if !a.Present {
					views := args()
					views[i] = tensor.Of([]float32{1})
					r.expect(views, plans.InvalidArgument, a.Name, `^is f32\[1\]; the problem says none$`, "present")
				}
			}
		})
	})
}

// An output may overlap nothing, but for the inputs that it may take the
// place of, and those only as a whole.
func TestOverlap(t *testing.T) {
	forEachOp(t, testcase.Small, 4, func(t *testing.T, c *testcase.Case, _ *rand.Rand) {
		refusals(t, c, nil, func(r *refusal, args func() []tensor.View) {
			for i := range c.Args {
				for j := range c.Args {
					out, other := &c.Args[i], &c.Args[j]
					if !out.Out() || !other.Present || i == j || other.Out() && j < i {
						continue
					}
					views := args()
					shared := tensor.New(tensor.F64, views[i].NumElements()+views[j].NumElements()+1)
					for _, k := range []int{i, j} {
						views[k].Data, views[k].Low, views[k].High = shared.Data, 0, 0
					}
					if slices.Contains(c.Op.InPlace, [2]string{out.Name, other.Name}) && out.DType == other.DType {
						if views[i].NumElements() < 2 {
							continue
						}
						views[i].Data = unsafe.Add(views[i].Data, out.DType.Size())
					}
					r.expect(views, plans.InvalidArgument, out.Name, "^overlaps "+other.Name+" in memory$", "overlap")
				}
			}
		})
	})
}

// The workspace's size and address.
func TestBadWorkspace(t *testing.T) {
	tried, shared := 0, 0
	forEachOp(t, testcase.Large, 2, func(t *testing.T, c *testcase.Case, _ *rand.Rand) {
		refusals(t, c, nil, func(r *refusal, args func() []tensor.View) {
			n := r.plan.WorkspaceSize()
			if n == 0 {
				return
			}
			tried++
			good := r.workspace
			defer func() { r.workspace = good }()
			for _, r.workspace = range [][]byte{nil, good[:0], good[:n-1]} {
				r.expect(args(), plans.WorkspaceTooSmall, "workspace", fmt.Sprintf(`^has %d bytes; want %d$`, len(r.workspace), n), "too small")
			}
			r.workspace = tensor.Bytes(tensor.New(tensor.I64, n/8+2))[1:][:n]
			r.expect(args(), plans.InvalidArgument, "workspace", `^is at an address that is not a multiple of 8$`, "unaligned")
			for i := range c.Args {
				views := args()
				v := &views[i]
				if !v.Present() || !v.IsContiguous() || v.NumElements() == 0 {
					continue
				}
				memory := tensor.New(tensor.F64, n/8+1+v.NumElements())
				v.Data, v.Low, v.High = memory.Data, 0, 0
				r.workspace = tensor.Bytes(memory)[:n]
				r.expect(views, plans.InvalidArgument, "workspace", "^overlaps "+c.Args[i].Name+" in memory$", "shared with "+c.Args[i].Name)
				shared++
			}
			limited, err := plans.Select(0, c.Problem, plans.Preference{MaxWorkspace: n - 1, Threads: 1, Row: r.plan.SKU().Row})
			if err == nil { // what needs none for its results is not made then
				require.Contains(t, []string{"quantized_linear", "weight_only_embedding_bag"}, c.Problem.Op())
				require.Less(t, limited.WorkspaceSize(), n)
			} else {
				require.Contains(t, requireKind(t, err, plans.Unsupported).Msg, fmt.Sprintf("allows %d bytes of workspace", n-1))
			}
			_, err = plans.Select(0, c.Problem, plans.Preference{MaxWorkspace: n, Threads: 1})
			require.NoError(t, err)
		})
	})
	require.Greater(t, tried, 10)
	require.Greater(t, shared, tried)
}
