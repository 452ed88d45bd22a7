package autodiff

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// planCache holds the plans that a backend has selected, by their problem's
// text, and texts and arguments to build the next ones in.
type planCache struct {
	mu    sync.RWMutex
	plans map[string]plans.Plan
	jobs  sync.Pool
}

// mostPlans bounds the plans that are kept: shapes may differ from step to step.
const mostPlans = 1024

// job is one run of a plan: its problem's text as it is written, and its
// arguments.
type job struct {
	k    *call
	text []byte
	args []tensor.View
	err  error // of what no text can say
}

// plan begins a problem's text.
func (k *call) plan(name string) *job {
	j, _ := k.c.plans.jobs.Get().(*job)
	if j == nil {
		j = new(job)
	}
	j.k, j.err = k, nil
	j.text, j.args = append(j.text[:0], name...), j.args[:0]
	return j
}

// scheme begins the text of a quantization's problem.
func (k *call) scheme(name, suffix string) *job {
	j := k.plan(name)
	j.text = append(append(append(j.text, '_'), k.at.Scheme.Granularity...), suffix...)
	return j
}

func (j *job) key(name string) {
	j.text = append(append(append(j.text, ' '), name...), '=')
}

// typed adds an argument of which the text has the type.
func (j *job) typed(name string, t *cpuTensor) *job {
	j.key(name)
	if t == nil {
		j.text = append(j.text, "none"...)
	} else {
		j.text = append(j.text, t.dtype.String()...)
	}
	return j.hidden(t)
}

// shaped adds an argument of which the text has the type and shape.
func (j *job) shaped(name string, t *cpuTensor) *job {
	j.typed(name, t)
	j.list(t.shape)
	return j
}

// hidden adds an argument that the text leaves out.
func (j *job) hidden(t *cpuTensor) *job {
	j.args = append(j.args, t.view())
	return j
}

func (j *job) list(x []int64) {
	sep := byte('[')
	if len(x) == 0 {
		j.text = append(j.text, sep)
	}
	for _, n := range x {
		j.text = strconv.AppendInt(append(j.text, sep), n, 10)
		sep = ','
	}
	j.text = append(j.text, ']')
}

func (j *job) word(name, v string) *job {
	if strings.Contains(v, " ") { // would be further keys
		j.err = fmt.Errorf("%s is %q; want one word", name, v)
	}
	if v != "" {
		j.key(name)
		j.text = append(j.text, v...)
	}
	return j
}

func (j *job) number(name string, v int64) *job {
	j.key(name)
	j.text = strconv.AppendInt(j.text, v, 10)
	return j
}

func (j *job) truth(name string, v bool) *job { return j.word(name, strconv.FormatBool(v)) }

// codes adds the attributes of a scheme.
func (j *job) codes() *job {
	s := j.k.at.Scheme
	switch s.Granularity {
	case "per_channel":
		j.number("axis", int64(s.Axis))
	case "per_group":
		j.number("group_size", int64(s.GroupSize))
	case "per_block":
		j.key("block_size")
		j.list(s.BlockSize)
	}
	return j.number("qmin", s.QMin).number("qmax", s.QMax)
}

// rounding adds how a scheme rounds.
func (j *job) rounding() *job {
	if j.k.at.Scheme.Reciprocal {
		j.word("rounding", "reciprocal")
	}
	return j
}

// float8 adds that codes which are not stored are 8-bit floats.
func (j *job) float8() *job {
	if d := j.k.at.Scheme.storage(); d.IsFloat8() {
		j.word("code", d.String())
	}
	return j
}

// plan finds the plan of a text, or selects it.
func (p *planCache) plan(text []byte, threads int) (plans.Plan, error) {
	p.mu.RLock()
	plan := p.plans[string(text)]
	p.mu.RUnlock()
	if plan != nil {
		return plan, nil
	}
	problem, err := plans.Parse(string(text))
	if err != nil {
		return nil, err
	}
	if plan, err = plans.Select(0, problem, plans.Preference{Threads: threads}); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.plans) >= mostPlans {
		p.plans = nil
	}
	if p.plans == nil {
		p.plans = map[string]plans.Plan{}
	}
	p.plans[string(text)] = plan
	return plan, nil
}

// run runs the plan of the text.
func (j *job) run() error {
	c := j.k.c
	defer c.plans.jobs.Put(j)
	defer clear(j.args)
	if j.err != nil {
		return j.err
	}
	p, err := c.plans.plan(j.text, c.threads)
	if err != nil {
		return err
	}
	var workspace []byte
	if n := p.WorkspaceSize(); n > 0 {
		b := c.pool.get(int(n))
		defer b.release()
		workspace = b.mem[:n]
	}
	return p.Run(0, workspace, j.args)
}

func (j *job) sampling() *job {
	return j.word("mode", j.k.at.Mode).word("padding_mode", j.k.at.Padding).truth("align_corners", j.k.at.AlignCorners)
}

func planGridSample(k *call) error {
	return k.plan("grid_sample").shaped("input", k.in[0]).shaped("grid", k.in[1]).hidden(k.out[0]).sampling().run()
}

func planGridSampleBackward(k *call) error { return k.sampleGradients(k.out[0], k.out[1]) }
func planGridSampleDX(k *call) error       { return k.sampleGradients(k.out[0], nil) }
func planGridSampleDGrid(k *call) error    { return k.sampleGradients(nil, k.out[0]) }

func (k *call) sampleGradients(dx, dgrid *cpuTensor) error {
	return k.plan("grid_sample_backward").shaped("grad_output", k.in[0]).shaped("input", k.in[1]).shaped("grid", k.in[2]).
		typed("grad_input", dx).typed("grad_grid", dgrid).sampling().run()
}

func planGridSampleTwice(k *call) error {
	return k.plan("grid_sample_double_backward").shaped("grad_output", k.in[0]).shaped("input", k.in[1]).shaped("grid", k.in[2]).
		typed("grad_grad_input", nil).typed("grad_grad_grid", k.in[3]).
		typed("grad_grad_output", k.out[0]).typed("grad_input", k.out[1]).typed("grad_grid", k.out[2]).sampling().run()
}

func planAffineGrid(k *call) error {
	return k.plan("affine_grid").shaped("theta", k.in[0]).shaped("grid", k.out[0]).truth("align_corners", k.at.AlignCorners).run()
}

func planAffineGridBackward(k *call) error {
	return k.plan("affine_grid_backward").shaped("grad_grid", k.in[0]).hidden(k.out[0]).truth("align_corners", k.at.AlignCorners).run()
}

func planQuantize(k *call) error {
	return k.scheme("quantize", "").shaped("x", k.in[0]).typed("scale", k.in[1]).typed("zero_point", k.in[2]).
		typed("q", k.out[0]).codes().rounding().run()
}

func planQuantizeBackward(k *call) error {
	return k.scheme("quantize", "_backward").shaped("grad_output", k.in[0]).typed("x", k.in[1]).typed("scale", k.in[2]).
		typed("zero_point", k.in[3]).hidden(k.out[0]).codes().rounding().float8().run()
}

func planDequantize(k *call) error {
	return k.scheme("dequantize", "").shaped("q", k.in[0]).typed("scale", k.in[1]).typed("zero_point", k.in[2]).
		typed("y", k.out[0]).codes().run()
}

func planDequantizeBackward(k *call) error {
	return k.scheme("dequantize", "_backward").shaped("grad_output", k.in[0]).typed("q", k.in[1]).typed("scale", k.in[2]).
		typed("zero_point", k.in[3]).typed("grad_input", k.out[0]).typed("grad_scale", k.out[1]).typed("grad_zero_point", k.out[2]).codes().run()
}

func planFakeQuantize(k *call) error {
	return k.scheme("fake_quantize", "").shaped("x", k.in[0]).typed("scale", k.in[1]).typed("zero_point", k.in[2]).
		typed("y", k.out[0]).codes().rounding().float8().run()
}

func planFakeQuantizeBackward(k *call) error {
	j := k.scheme("fake_quantize", "_backward").shaped("grad_output", k.in[0]).typed("x", k.in[1]).typed("scale", k.in[2]).
		typed("zero_point", k.in[3]).typed("grad_input", k.out[0]).typed("grad_scale", k.out[1]).typed("grad_zero_point", k.out[2]).codes().rounding().float8()
	if f := k.at.Scheme.GradFactor; f != 0 {
		j.key("grad_factor")
		j.text = strconv.AppendFloat(j.text, f, 'g', -1, 64)
	}
	return j.run()
}

func planChooseQParams(k *call) error {
	return k.scheme("choose_qparams", "").shaped("x", k.in[0]).hidden(k.out[0]).typed("zero_point", k.out[1]).
		codes().truth("symmetric", !k.at.Scheme.Asymmetric).run()
}

// planQuantizedLinear quantizes the rows of x and of the weight, then
// multiplies the codes.
func planQuantizedLinear(k *call) error {
	x, w, bias, y := k.in[0], k.in[1], k.in[2], k.out[0]
	if y.n == 0 {
		return nil // rows without columns would still have a scale each
	}
	rows := func(t *cpuTensor) (codes, scale *cpuTensor, err error) {
		last := len(t.shape) - 1
		n, m := t.shape[last], tensor.NumElements(t.shape[:last])
		flat := t.alias([]int64{m, n})
		defer flat.Release()
		codes, scale = k.c.new(Info{tensor.S8, flat.shape}), k.c.new(Info{x.dtype.Compute(), []int64{m}})
		j := k.plan("dynamic_quantize_per_token").shaped("x", flat).typed("q", codes).typed("scale", scale).hidden(nil)
		return codes, scale, j.number("qmin", -127).number("qmax", 127).run()
	}
	xq, xs, err := rows(x)
	defer xq.Release()
	defer xs.Release()
	if err != nil {
		return err
	}
	wq, ws, err := rows(w)
	defer wq.Release()
	defer ws.Release()
	if err != nil {
		return err
	}
	flat := y.alias([]int64{xq.shape[0], w.shape[0]})
	defer flat.Release()
	return k.plan("quantized_linear").shaped("x", xq).typed("x_scale", xs).shaped("weight", wq).typed("weight_scale", ws).
		typed("bias", bias).typed("y", flat).run()
}
