package autodiff

import (
	"slices"

	"github.com/isobit-ml/isobit/autodiff/internal/kernel"
)

// The CPU's loops along and over dimensions.

// along describes an axis for the kernels.
func (t *cpuTensor) along(axis int) kernel.Axis {
	a := kernel.Axis{Outer: 1, N: int(t.shape[axis]), Inner: 1}
	for _, d := range t.shape[:axis] {
		a.Outer *= int(d)
	}
	for _, d := range t.shape[axis+1:] {
		a.Inner *= int(d)
	}
	return a
}

// along1 and along2 make loops along an axis, of one input and of two.
func along1[T any](f func(t kernel.Threads, z, x []T, a kernel.Axis)) loop {
	return func(k *call) error {
		f(k.t, elements[T](k.out[0]), elements[T](k.in[0]), k.in[0].along(k.at.Axis))
		return nil
	}
}

func along2[T any](f func(t kernel.Threads, z, x, y []T, a kernel.Axis)) loop {
	return func(k *call) error {
		f(k.t, elements[T](k.out[0]), elements[T](k.in[0]), elements[T](k.in[1]), k.in[1].along(k.at.Axis))
		return nil
	}
}

func bestOf[T kernel.Number](smallest bool) loop {
	return func(k *call) error {
		kernel.Best(k.t, elements[T](k.out[0]), elements[int64](k.out[1]), elements[T](k.in[0]), k.in[0].along(k.at.Axis), smallest)
		return nil
	}
}

func bestAt[T kernel.Number](smallest bool) loop {
	return func(k *call) error {
		kernel.Best(k.t, nil, elements[int64](k.out[0]), elements[T](k.in[0]), k.in[0].along(k.at.Axis), smallest)
		return nil
	}
}

func cumSum[T kernel.Number](k *call) error {
	kernel.CumSum(k.t, elements[T](k.out[0]), elements[T](k.in[0]), k.in[0].along(k.at.Axis), k.at.FromEnd)
	return nil
}

func sortOf[T kernel.Number](k *call) error {
	kernel.Sort(k.t, elements[T](k.out[0]), elements[int64](k.out[1]), elements[T](k.in[0]), k.in[0].along(k.at.Axis), k.at.Descending)
	return nil
}

// runs describes a reduction as alternating groups of neighbouring
// dimensions, the first of which is kept (and may have extent 1).
func runs(shape []int64, axes []int) (n []int) {
	reduced := false
	n = []int{1}
	for i, d := range shape {
		if d == 1 {
			continue
		}
		if slices.Contains(axes, i) != reduced {
			reduced = !reduced
			n = append(n, 1)
		}
		n[len(n)-1] *= int(d)
	}
	return n
}

func sumOf[T kernel.Float](k *call) error {
	x, z := elements[T](k.in[0]), elements[T](k.out[0])
	n := runs(k.in[0].shape, k.at.Axes)
	switch {
	case len(z) == 0:
	case len(x) == 0:
		clear(z)
	case len(n) == 1: // nothing to add up but +0
		kernel.SumRows(k.t, z, x, n[0], 1)
	case len(n) == 2:
		kernel.SumRows(k.t, z, x, n[0], n[1])
	case len(n) == 3:
		kernel.SumColumns(k.t, z, x, kernel.Axis{Outer: n[0], N: n[1], Inner: n[2]})
	case len(n) == 4 && n[0] == 1:
		kernel.SumSegments(k.t, z, x, n[1], n[2], n[3])
	default:
		sumPermuted[T](k)
	}
	return nil
}

// sumPermuted brings the dimensions that are summed to the end first.
func sumPermuted[T kernel.Float](k *call) {
	var axes []int
	rows := 1
	shape := k.in[0].shape
	for i, d := range shape {
		if !slices.Contains(k.at.Axes, i) {
			axes = append(axes, i)
			rows *= int(d)
		}
	}
	axes = append(axes, k.at.Axes...)
	tmp := k.c.new(Info{k.in[0].dtype, shape})
	defer tmp.Release()
	if tmp.dtype.Size() == 4 {
		kernel.Permute(k.t, elements[uint32](tmp), elements[uint32](k.in[0]), shape, axes)
	} else {
		kernel.Permute(k.t, elements[uint64](tmp), elements[uint64](k.in[0]), shape, axes)
	}
	kernel.SumRows(k.t, elements[T](k.out[0]), elements[T](tmp), rows, tmp.n/rows)
}

func meanOf[T kernel.Float](k *call) error {
	if err := sumOf[T](k); err != nil {
		return err
	}
	count := 1
	for _, a := range k.at.Axes {
		count *= int(k.in[0].shape[a])
	}
	z := elements[T](k.out[0])
	div := kernel.Div[T]()
	div.VS(z, z, T(count))
	return nil
}

// sumInts sums one group of dimensions after the other, the last first.
func sumInts[T kernel.Integer](k *call) error {
	n := runs(k.in[0].shape, k.at.Axes)
	x := elements[T](k.in[0])
	if len(x) == 0 {
		clear(elements[T](k.out[0]))
		return nil
	}
	inner := 1
	for i := len(n) - 1; i >= 0; i-- {
		if i%2 == 0 {
			inner *= n[i]
			continue
		}
		outer := len(x) / (n[i] * inner)
		z := make([]T, outer*inner)
		kernel.SumInts(k.t, z, x, kernel.Axis{Outer: outer, N: n[i], Inner: inner})
		x = z
	}
	copy(elements[T](k.out[0]), x)
	return nil
}

func normalizeOf[T kernel.Float](k *call) error {
	n := int(k.in[0].shape[len(k.in[0].shape)-1])
	kernel.Normalize(k.t, scratch[T](k.c), elements[T](k.out[0]), elements[T](k.in[0]), n, k.at.Floats[0], k.at.AroundZero)
	return nil
}

func normalizeGradOf[T kernel.Float](k *call) error {
	n := int(k.in[0].shape[len(k.in[0].shape)-1])
	kernel.NormalizeGrad(k.t, scratch[T](k.c), elements[T](k.out[0]), elements[T](k.in[0]), elements[T](k.in[1]), n, k.at.Floats[0], k.at.AroundZero)
	return nil
}

func crossEntropyOf[T kernel.Float](k *call) error {
	x, labels, smoothing := k.in[0], k.in[1], T(k.at.Floats[0])
	rows, classes := int(x.shape[0]), int(x.shape[1])
	if err := checkIndices(labels, classes); err != nil {
		return err
	}
	at := reader(labels)
	logp, done := scratch[T](k.c)(x.n)
	defer done()
	loss, doneLoss := scratch[T](k.c)(rows)
	defer doneLoss()
	kernel.LogSoftmax(k.t, logp, elements[T](x), kernel.Axis{Outer: rows, N: classes, Inner: 1})
	for r := range rows {
		row := logp[r*classes:][:classes]
		loss[r] = -row[at(r)]
		if smoothing != 0 {
			var s kernel.Stripe[T]
			s.Add(row)
			loss[r] = T((1-smoothing)*loss[r]) - T(smoothing*(s.Sum()/T(classes)))
		}
	}
	z := elements[T](k.out[0])
	kernel.SumRows(1, z, loss, 1, rows)
	z[0] /= T(rows)
	return nil
}

// crossEntropyGradOf is (softmax - smoothed one-hot) * (g / rows).
func crossEntropyGradOf[T kernel.Float](k *call) error {
	x, smoothing := k.in[0], k.at.Floats[0]
	rows, classes := int(x.shape[0]), int(x.shape[1])
	if err := checkIndices(k.in[1], classes); err != nil {
		return err
	}
	at := reader(k.in[1])
	z := elements[T](k.out[0])
	kernel.Softmax(k.t, z, elements[T](x), kernel.Axis{Outer: rows, N: classes, Inner: 1})
	scale := elements[T](k.in[2])[0] / T(rows)
	label, others := T(smoothing-1), T(smoothing/float64(classes))
	sub, mul := kernel.Sub[T](), kernel.Mul[T]()
	k.t.For(rows, 2*classes, 1, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			row := z[r*classes:][:classes]
			row[at(r)] += label
			sub.VS(row, row, others)
			mul.VS(row, row, scale)
		}
	})
	return nil
}
