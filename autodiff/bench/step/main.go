// Step times training steps of small models, part by part, and prints a
// line of JSON per model. The script beside it compares them with PyTorch.
package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/isobit-ml/isobit/autodiff"
)

// timed is a Backend that adds up the time of each operation.
type timed struct {
	*autodiff.CPU
	ops map[autodiff.Op]time.Duration
}

func (t *timed) Run(op autodiff.Op, at *autodiff.Attr, in ...autodiff.Value) (autodiff.Outputs, error) {
	start := time.Now()
	out, err := t.CPU.Run(op, at, in...)
	t.ops[op] += time.Since(start)
	return out, err
}

// products is the time in matrix products and convolutions so far.
func (t *timed) products() (sum time.Duration) {
	for _, op := range []autodiff.Op{autodiff.OpMatMul, autodiff.OpLinear, autodiff.OpConv2d, autodiff.OpConv2dDX, autodiff.OpConv2dDW} {
		sum += t.ops[op]
	}
	return sum
}

type (
	ad[C autodiff.Strategy]     = *autodiff.Autodiff[*timed, C]
	tensor[C autodiff.Strategy] = autodiff.Float[ad[C]]
	params[C autodiff.Strategy] = *autodiff.Params[ad[C]]
)

// model makes parameters and returns the loss of a batch.
type model[C autodiff.Strategy] struct {
	name string
	make func(be ad[C], p params[C]) func() tensor[C]
}

func labels[C autodiff.Strategy](be ad[C], n int) autodiff.Int[ad[C]] {
	y := make([]int64, n)
	for i := range y {
		y[i] = int64(i*7) % 10
	}
	return autodiff.Ints(be, y)
}

func models[C autodiff.Strategy]() []model[C] {
	return []model[C]{
		{"mlp", func(be ad[C], p params[C]) func() tensor[C] {
			x, y := autodiff.Normal(be, 1, 0, 1, 128, 784), labels(be, 128)
			w1, b1 := p.Linear("hidden", 784, 512)
			w2, b2 := p.Linear("out", 512, 10)
			return func() tensor[C] { return x.Linear(w1, b1).Relu().Linear(w2, b2).CrossEntropy(y, 0) }
		}},
		{"cnn", func(be ad[C], p params[C]) func() tensor[C] {
			x, y := autodiff.Normal(be, 1, 0, 1, 64, 1, 28, 28), labels(be, 64)
			w1, b1 := p.Conv2d("conv1", 1, 16, 3)
			w2, b2 := p.Conv2d("conv2", 16, 32, 3)
			w3, b3 := p.Linear("out", 1568, 10)
			same := autodiff.Window{Pad: [2]int{1, 1}}
			pool := autodiff.Window{Kernel: [2]int{2, 2}}
			return func() tensor[C] {
				h := x.Conv2d(w1, b1, same).Relu().MaxPool2d(pool)
				h = h.Conv2d(w2, b2, same).Relu().MaxPool2d(pool)
				return h.Flatten(1).Linear(w3, b3).CrossEntropy(y, 0)
			}
		}},
		{"depthwise", func(be ad[C], p params[C]) func() tensor[C] {
			x, y := autodiff.Normal(be, 1, 0, 1, 32, 32, 28, 28), labels(be, 32)
			w1, b1 := p.Conv2d("depthwise1", 1, 32, 3)
			w2, b2 := p.Conv2d("pointwise1", 32, 64, 1)
			w3, b3 := p.Conv2d("depthwise2", 1, 64, 3)
			w4, b4 := p.Conv2d("pointwise2", 64, 64, 1)
			w5, b5 := p.Linear("out", 3136, 10)
			same := func(groups int) autodiff.Window { return autodiff.Window{Pad: [2]int{1, 1}, Groups: groups} }
			pool := autodiff.Window{Kernel: [2]int{2, 2}}
			return func() tensor[C] {
				h := x.Conv2d(w1, b1, same(32)).Relu().Conv2d(w2, b2, autodiff.Window{}).Relu().MaxPool2d(pool)
				h = h.Conv2d(w3, b3, same(64)).Relu().Conv2d(w4, b4, autodiff.Window{}).Relu().MaxPool2d(pool)
				return h.Flatten(1).Linear(w5, b5).CrossEntropy(y, 0)
			}
		}},
		{"embedding", func(be ad[C], p params[C]) func() tensor[C] {
			index := make([]int64, 256*32)
			for i := range index {
				index[i] = int64(i) * 7919 % 10000
			}
			x, y := autodiff.Ints(be, index, 256, 32), labels(be, 256)
			table := p.Normal("table", 1, 10000, 64)
			w, b := p.Linear("out", 64, 10)
			return func() tensor[C] { return table.Embedding(x).Mean(1).Linear(w, b).CrossEntropy(y, 0) }
		}},
		{"deep gelu", func(be ad[C], p params[C]) func() tensor[C] {
			x, y := autodiff.Normal(be, 1, 0, 1, 1024, 64), labels(be, 1024)
			type layer struct{ w, b tensor[C] }
			var layers []layer
			for i := range 16 {
				w, b := p.Linear(fmt.Sprint(i), 64, 64)
				layers = append(layers, layer{w, b})
			}
			w, b := p.Linear("out", 64, 10)
			return func() tensor[C] {
				h := x
				for _, l := range layers {
					h = h.Linear(l.w, l.b).Gelu()
				}
				return h.Linear(w, b).CrossEntropy(y, 0)
			}
		}},
	}
}

// result is what one model's steps took, in milliseconds; ops are means.
type result struct {
	Model     string             `json:"model"`
	Strategy  string             `json:"strategy"`
	Threads   int                `json:"threads"`
	Step      float64            `json:"step"`
	Forward   float64            `json:"forward"`
	Backward  float64            `json:"backward"`
	Update    float64            `json:"update"`
	Products  float64            `json:"products"` // matrix products and convolutions
	Ops       map[string]float64 `json:"ops"`
	Allocs    float64            `json:"allocs"`       // per step after the first ones
	Bytes     float64            `json:"bytes"`        // allocated per step
	Buffers   int64              `json:"buffer_bytes"` // made in all
	FirstLoss float64            `json:"first_loss"`
}

// low is what a tenth of the times stay under: other programs disturb the rest.
func low(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/10]
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func bench[C autodiff.Strategy](m model[C], s C, threads int, seconds float64) (r result) {
	inner := &timed{autodiff.NewCPUThreads(threads), map[autodiff.Op]time.Duration{}}
	be := autodiff.New(inner, s)
	p := autodiff.NewParams(be, 1)
	loss := m.make(be, p)
	opt := &autodiff.SGD{Rate: 0.01}
	var forward, backward, update, step, products []float64
	ms := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
	one := func() {
		before := inner.products()
		start := time.Now()
		l := loss()
		f := time.Now()
		g, err := be.Backward(l)
		check(err)
		b := time.Now()
		check(opt.Step(p, g))
		g.Release()
		l.Release()
		end := time.Now()
		forward = append(forward, ms(f.Sub(start)))
		backward = append(backward, ms(b.Sub(f)))
		update = append(update, ms(end.Sub(b)))
		step = append(step, ms(end.Sub(start)))
		products = append(products, ms(inner.products()-before))
	}
	r = result{Model: m.name, Strategy: s.String(), Threads: threads, Ops: map[string]float64{}}
	first := loss()
	r.FirstLoss, _ = first.Item()
	for range 3 {
		one()
	}
	forward, backward, update, step, products = nil, nil, nil, nil, nil
	clear(inner.ops)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for start := time.Now(); time.Since(start).Seconds() < seconds || len(step) < 5; {
		one()
	}
	runtime.ReadMemStats(&after)
	n := float64(len(step))
	r.Allocs = float64(after.Mallocs-before.Mallocs) / n
	r.Bytes = float64(after.TotalAlloc-before.TotalAlloc) / n
	r.Buffers, _ = inner.MemoryStats()
	for op, d := range inner.ops {
		r.Ops[op.String()] = ms(d) / n
	}
	r.Products = low(products)
	r.Step, r.Forward, r.Backward, r.Update = low(step), low(forward), low(backward), low(update)
	return r
}

func run[C autodiff.Strategy](s C, only string, threads int, seconds float64, text bool) {
	for _, m := range models[C]() {
		if only != "" && only != m.name {
			continue
		}
		r := bench(m, s, threads, seconds)
		if !text {
			check(json.NewEncoder(os.Stdout).Encode(r))
			continue
		}
		fmt.Printf("%-10s %-24s threads=%d step=%.3f forward=%.3f backward=%.3f update=%.3f products=%.3f allocs=%.0f bytes=%.0f buffers=%d\n",
			r.Model, r.Strategy, threads, r.Step, r.Forward, r.Backward, r.Update, r.Products, r.Allocs, r.Bytes, r.Buffers)
		names := slices.SortedFunc(maps.Keys(r.Ops), func(a, b string) int { return cmp.Compare(r.Ops[b], r.Ops[a]) })
		for _, name := range names {
			fmt.Printf("    %-22s %.4f\n", name, r.Ops[name])
		}
	}
}

func main() {
	threads := flag.Int("threads", 1, "threads of the CPU backend")
	seconds := flag.Float64("seconds", 1, "how long to measure each model")
	strategy := flag.String("strategy", "none", "none, balanced or budget")
	budget := flag.Int64("budget", 1<<20, "bytes of the budget")
	only := flag.String("model", "", "only this model")
	text := flag.Bool("text", false, "print text instead of JSON")
	flag.Parse()
	log.SetFlags(0)
	runtime.GOMAXPROCS(*threads)
	switch *strategy {
	case "none":
		run(autodiff.None{}, *only, *threads, *seconds, *text)
	case "balanced":
		run(autodiff.Balanced{}, *only, *threads, *seconds, *text)
	case "budget":
		run(autodiff.Budget{Bytes: *budget}, *only, *threads, *seconds, *text)
	default:
		log.Fatalf("no strategy %q", *strategy)
	}
}
