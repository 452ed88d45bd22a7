package autodiff

import (
	"github.com/isobit-ml/isobit/autodiff/internal/kernel"
	"github.com/isobit-ml/isobit/tensor"
)

// The CPU's loops for networks.

// matmulOf multiplies every pair of matrices of the batch.
func matmulOf[T kernel.Float](k *call) error {
	a, b, c := k.in[0], k.in[1], k.out[0]
	m64, n64, k64, batch, _ := matrices(k.at, a.shape, b.shape)
	m, n, depth := int(m64), int(n64), int(k64)
	x, y, z := elements[T](a), elements[T](b), elements[T](c)
	left := func(at int) kernel.Matrix[T] {
		if k.at.TransA {
			return kernel.Transposed(x[at:], m)
		}
		return kernel.RowMajor(x[at:], depth)
	}
	right := func(at int) kernel.Matrix[T] {
		if k.at.TransB {
			return kernel.Transposed(y[at:], depth)
		}
		return kernel.RowMajor(y[at:], n)
	}
	if len(z) == 0 {
		return nil
	}
	// One product where b is a single matrix and a's lie below each other.
	count := int(tensor.NumElements(batch))
	if !k.at.TransA && b.n == n*depth && a.n == count*m*depth {
		kernel.Gemm(k.t, kernel.Product[T]{M: count * m, N: n, K: depth, A: left(0), B: right(0), C: kernel.RowMajor(z, n)})
		return nil
	}
	l := kernel.NewLoop(batch, a.shape[:len(a.shape)-2], b.shape[:len(b.shape)-2])
	each, inner := k.t, kernel.Threads(1)
	if count < 2*k.c.Threads() || l.Rows == 1 {
		each, inner = 1, k.t
	}
	l.Do(each, m*n*depth/4, func(o, rows int, in [3]int) {
		for i := range rows {
			ai, bi := (in[0]+i*l.Step[0])*m*depth, (in[1]+i*l.Step[1])*depth*n
			kernel.Gemm(inner, kernel.Product[T]{M: m, N: n, K: depth, A: left(ai), B: right(bi), C: kernel.RowMajor(z[(o+i)*m*n:], n)})
		}
	})
	return nil
}

func linearOf[T kernel.Float](k *call) error {
	x, w, bias, y := k.in[0], k.in[1], k.in[2], elements[T](k.out[0])
	n, depth := int(w.shape[0]), int(w.shape[1])
	if len(y) == 0 {
		return nil
	}
	rows := len(y) / n
	kernel.Gemm(k.t, kernel.Product[T]{
		M: rows, N: n, K: depth,
		A: kernel.RowMajor(elements[T](x), depth), B: kernel.Transposed(elements[T](w), depth), C: kernel.RowMajor(y, n),
	})
	if bias != nil {
		add := kernel.Add[T]()
		matrix := kernel.Array[T]{Data: y, Shape: []int64{int64(rows), int64(n)}}
		add.Run(k.t, matrix, matrix, arrayOf[T](bias))
	}
	return nil
}

func convOf[T kernel.Float](k *call) error {
	d := k.at.Window.conv(k.in[0].shape, k.in[1].shape, k.out[0].shape)
	kernel.Forward(k.t, d, scratch[T](k.c), elements[T](k.out[0]), elements[T](k.in[0]), elements[T](k.in[1]), elements[T](k.in[2]))
	return nil
}

func convDX[T kernel.Float](k *call) error {
	d := k.at.Window.conv(k.out[0].shape, k.in[1].shape, k.in[0].shape)
	kernel.GradInput(k.t, d, scratch[T](k.c), elements[T](k.out[0]), elements[T](k.in[0]), elements[T](k.in[1]))
	return nil
}

func convDW[T kernel.Float](k *call) error {
	d := k.at.Window.conv(k.in[1].shape, k.out[0].shape, k.in[0].shape)
	kernel.GradWeight(k.t, d, scratch[T](k.c), elements[T](k.out[0]), elements[T](k.in[0]), elements[T](k.in[1]))
	return nil
}

func maxPool[T kernel.Float](k *call) error {
	p := k.at.Window.pool(k.in[0].shape, k.out[0].shape)
	kernel.MaxPool(k.t, p, elements[T](k.out[0]), elements[int32](k.out[1]), elements[T](k.in[0]))
	return nil
}

func poolTakeOf[T kernel.Float](k *call) error {
	return pooled(k, k.in[0].shape, k.out[0].shape, kernel.PoolTake[T])
}

func poolPut[T kernel.Float](k *call) error {
	return pooled(k, k.out[0].shape, k.in[0].shape, kernel.PoolPut[T])
}

// pooled runs a loop over planes and the positions that pooling found in them.
func pooled[T any](k *call, x, y []int64, f func(t kernel.Threads, z, x []T, at []int32, planes, in, out int)) error {
	r := len(x)
	n, in, out := int(tensor.NumElements(x[:r-2])), int(x[r-2]*x[r-1]), int(y[r-2]*y[r-1])
	if err := checkIndices(k.in[1], in); err != nil {
		return err
	}
	f(k.t, elements[T](k.out[0]), elements[T](k.in[0]), elements[int32](k.in[1]), n, in, out)
	return nil
}

func avgPool[T kernel.Float](k *call) error {
	p := k.at.Window.pool(k.in[0].shape, k.out[0].shape)
	kernel.AvgPool(k.t, p, elements[T](k.out[0]), elements[T](k.in[0]))
	return nil
}

func avgPoolPut[T kernel.Float](k *call) error {
	p := k.at.Window.pool(k.out[0].shape, k.in[0].shape)
	kernel.AvgPoolGrad(k.t, p, elements[T](k.out[0]), elements[T](k.in[0]))
	return nil
}
