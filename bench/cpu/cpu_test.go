// Package bench measures plans in Go, beside what the machine's memory does in
// the same run:
//
//	go test ./bench/cpu -bench . -benchtime 1x
//
// Times are minima: other programs on the machine only add to them.
package bench

import (
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

var (
	rounds = flag.Int("rounds", 15, "times that each plan and the roofline run, in turns")
	large  = flag.Int64("elements", 1<<24, "elements of the large tensors")
)

// shapes of n elements by where the channels are.
func shapes(n int64) []string {
	return []string{
		fmt.Sprintf("[%d,%d] axis=0", n/4096, 4096),
		fmt.Sprintf("[%d,%d] axis=1", n/4096, 4096),
		fmt.Sprintf("[%d,64,64] axis=1", n/4096),
		fmt.Sprintf("[%d,64,28,28] axis=1", n/64/784),
		fmt.Sprintf("[%d,128,3,3] axis=1", n/128/9),
		fmt.Sprintf("[%d,3,3] axis=0", n/9),
	}
}

var families = []string{
	"quantize_per_channel x=%s%s qmin=-128 qmax=127 zero_point=i32 q=s8",
	"quantize_per_channel_backward grad_output=%s%s qmin=-128 qmax=127 zero_point=none",
	"dequantize_per_channel q=s8%[2]s qmin=-128 qmax=127 zero_point=none y=%[1]s",
	"dequantize_per_channel_backward grad_output=%s%s qmin=-128 qmax=127 zero_point=none q=none",
	"dequantize_per_channel_backward grad_output=%s%s qmin=-128 qmax=127 zero_point=f32 grad_scale=f32 grad_zero_point=f32",
	"fake_quantize_per_channel x=%s%s qmin=-128 qmax=127 zero_point=none",
	"fake_quantize_per_channel_backward grad_output=%s%s qmin=-128 qmax=127 zero_point=none",
	"fake_quantize_per_channel_backward grad_output=%s%s qmin=-128 qmax=127 zero_point=f32 grad_scale=f32 grad_zero_point=f32",
	"choose_qparams_per_channel x=%s%s qmin=-128 qmax=127",
}

func BenchmarkFamily(b *testing.B) {
	roof := newRoofline(int(*large))
	for _, family := range families {
		for _, dtype := range []string{"f32", "bf16", "f16"} {
			for _, shape := range shapes(*large) {
				benchmark(b, fmt.Sprintf(family, dtype, shape), roof)
			}
		}
	}
	for _, dtype := range []string{"f32", "bf16"} {
		shape := fmt.Sprintf("[%d,%d]", *large/4096, 4096)
		benchmark(b, "quantize_per_tensor x="+dtype+shape+" qmin=-128 qmax=127 q=s8", roof)
		benchmark(b, "quantize_per_group x="+dtype+shape+" group_size=32 qmin=-128 qmax=127 q=s8 zero_point=none", roof)
		benchmark(b, "dequantize_per_token_backward grad_output="+dtype+shape+" qmin=-128 qmax=127 q=none zero_point=none", roof)
		benchmark(b, "dynamic_quantize_per_token x="+dtype+shape+" qmin=-128 qmax=127 q=s8", roof)
	}
}

// benchmark runs one problem on one and on two threads.
func benchmark(b *testing.B, text string, roof *roofline) {
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprintf("%s/%d", text, threads), func(b *testing.B) {
			run, bytes := prepare(b, text, plans.Preference{Threads: threads})
			run()
			best, memory := time.Hour, time.Hour
			for range *rounds {
				best = min(best, timed(run))
				memory = min(memory, roof.pass(threads))
			}
			speed := float64(bytes) / best.Seconds() / 1e9
			b.ReportMetric(speed, "GB/s")
			b.ReportMetric(speed/(float64(roof.bytes)/memory.Seconds()/1e9), "roofline")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func timed(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

// prepare selects a plan and makes its tensors. It returns the bytes that a
// run reads and writes: each tensor once.
func prepare(b *testing.B, text string, pref plans.Preference) (run func(), bytes int64) {
	p, err := plans.Parse(text)
	if err != nil {
		b.Fatal(err)
	}
	plan, err := plans.Select(0, p, pref)
	if err != nil {
		b.Fatal(err)
	}
	var args []tensor.View
	for _, info := range plans.Describe(plan).Args {
		if !info.Present {
			args = append(args, tensor.View{})
			continue
		}
		d, _ := tensor.ParseDType(info.DType)
		v := tensor.New(d, info.Shape...)
		fill(v, info.Name)
		args = append(args, v)
		bytes += v.NumElements() * d.Size()
	}
	workspace := make([]byte, plan.WorkspaceSize())
	return func() {
		if err := plan.Run(0, workspace, args); err != nil {
			b.Fatal(err)
		}
	}, bytes
}

// fill gives a tensor values between -1 and 1, and scales of 1/64.
func fill(v tensor.View, name string) {
	block := make([]float64, 4096)
	state := uint64(1)
	for at := int64(0); at < v.NumElements(); at += int64(len(block)) {
		m := min(int64(len(block)), v.NumElements()-at)
		for i := range block[:m] {
			state = state*6364136223846793005 + 1442695040888963407
			block[i] = float64(int64(state)>>40) / (1 << 23)
			switch {
			case name == "scale":
				block[i] = 1.0 / 64
			case !v.DType.IsFloat():
				block[i] = float64(int64(block[i] * 100))
			}
		}
		cpu.Store(cpu.Span{P: v.Data, Stride: v.DType.Size(), DType: v.DType}.At(at), block[:m])
	}
}

// roofline is the most that the memory of the machine does: the best of
// copying, reading and filling as many bytes as a tensor of f32.
type roofline struct {
	from, to []byte
	bytes    int64 // that a pass moves, as one number: see pass
}

func newRoofline(elements int) *roofline {
	r := &roofline{make([]byte, 4*elements), make([]byte, 4*elements), int64(8 * elements)}
	for i := range r.from {
		r.from[i], r.to[i] = 1, 2
	}
	return r
}

// pass returns the best time for moving r.bytes.
func (r *roofline) pass(threads int) time.Duration {
	copying := timed(func() { r.split(threads, func(from, to []byte) { copy(to, from) }) })
	filling := timed(func() { r.split(threads, func(_, to []byte) { clear(to) }) })
	reading := timed(func() { r.split(threads, func(from, _ []byte) { read(from) }) })
	return min(copying, 2*filling, 2*reading)
}

func (r *roofline) split(threads int, f func(from, to []byte)) {
	var wg sync.WaitGroup
	n := len(r.from) / threads
	for i := range threads {
		wg.Go(func() { f(r.from[i*n:][:n], r.to[i*n:][:n]) })
	}
	wg.Wait()
}
