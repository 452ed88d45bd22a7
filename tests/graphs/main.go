// Command graphs prints random programs over package autodiff as JSON, one a
// line, with the results and the gradients that they gave, of the first order
// and of the second. tests/python/test_go_gradients.py runs them in PyTorch.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"

	ad "github.com/isobit-ml/isobit/autodiff"
)

// once has first derivatives, twice has second ones.
type (
	once  = ad.Autodiff[*ad.CPU, ad.Strategy]
	twice = ad.Autodiff[*once, ad.Strategy]
	value = ad.Float[*twice]
)

// array is a tensor of f64.
type array struct {
	Shape []int     `json:"shape"`
	X     []float64 `json:"x"`
}

// step is an operation on values that are there, which makes the next.
type step struct {
	Op   string `json:"op"`
	In   []int  `json:"in"`
	Args []any  `json:"args"`
}

// graph is a program: its values are leaves, then results of steps. The loss is the sum of
// sigmoid(y) + y * y / 10 over the last values y.
type graph struct {
	Seed   uint64   `json:"seed"`
	Leaves []array  `json:"leaves"`
	Steps  []step   `json:"steps"`
	Ends   int      `json:"ends"` // how many last values are part of the loss
	Loss   float64  `json:"loss"`
	First  []*array `json:"first"`  // its gradients, null for a leaf without
	Second []*array `json:"second"` // those of the sum of the squares of the first ones

	r      *rand.Rand
	be     *twice
	values []value
}

func newGraph(seed uint64, s ad.Strategy) *graph {
	below := ad.New(ad.NewCPUThreads(2), s)
	g := &graph{Seed: seed, r: rand.New(rand.NewPCG(seed, 5)), be: ad.New(below, s)}
	for range 3 + g.r.IntN(4) {
		shape := leafShapes[g.r.IntN(len(leafShapes))]
		x := make([]float64, size(shape))
		for i := range x {
			x[i] = 3*g.r.Float64() - 1.5
		}
		g.Leaves = append(g.Leaves, array{shape, x})
		g.values = append(g.values, g.be.Track(g.be.FromInner(below.Track(ad.Floats(below, x, shape...)))))
	}
	for tries := 0; len(g.Steps) < 6+int(seed%24) && tries < 2000; tries++ {
		g.draw()
	}
	g.Ends = min(4, len(g.Steps))
	return g
}

// loss computes what is differentiated.
func (g *graph) loss() value {
	loss := ad.Floats(g.be, []float64{0}).Sum()
	for _, y := range g.values[len(g.values)-g.Ends:] {
		loss = loss.Add(y.Mul(y).DivScalar(10).Add(y.Sigmoid()).Sum())
	}
	return loss
}

// differentiate fills in the loss and the gradients.
func (g *graph) differentiate() (err error) {
	loss, below := g.loss(), g.be.InnerBackend()
	if g.Loss, err = loss.Item(); err != nil || !g.be.IsTracked(loss) {
		return err
	}
	first, err := g.be.Backward(loss)
	if err != nil {
		return err
	}
	squares := ad.Floats(below, []float64{0}).Sum()
	g.First, err = g.gradients(func(x value) (ad.Float[*ad.CPU], bool) {
		d, ok := g.be.Grad(x, first)
		if ok {
			squares = squares.Add(d.Mul(d).Sum())
		}
		return below.Inner(d), ok
	})
	once := slices.ContainsFunc(g.Steps, func(s step) bool { return s.Op == "fake_quantize" })
	if err != nil || once || !below.IsTracked(squares) {
		return err
	}
	again, err := below.Backward(squares)
	if err != nil {
		return err
	}
	g.Second, err = g.gradients(func(x value) (ad.Float[*ad.CPU], bool) { return below.Grad(g.be.Inner(x), again) })
	return err
}

// gradients lists what of returns for the leaves.
func (g *graph) gradients(of func(x value) (ad.Float[*ad.CPU], bool)) ([]*array, error) {
	all := make([]*array, len(g.Leaves))
	for i, x := range g.values[:len(g.Leaves)] {
		d, ok := of(x)
		if !ok {
			continue
		}
		elements, err := d.Float64s()
		if err != nil {
			return nil, err
		}
		all[i] = &array{d.Shape(), elements}
	}
	return all, nil
}

func main() {
	seed := flag.Uint64("seed", 0, "of the first graph")
	count := flag.Uint64("count", 100, "of graphs")
	flag.Parse()
	out := json.NewEncoder(os.Stdout)
	strategies := []ad.Strategy{ad.None{}, ad.Balanced{}, ad.Budget{Bytes: 400}}
	for i := range *count {
		g := newGraph(*seed+i, strategies[i%3])
		err := g.differentiate()
		if err == nil {
			err = out.Encode(g)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "graph %d: %v\n", g.Seed, err)
			os.Exit(1)
		}
	}
}
