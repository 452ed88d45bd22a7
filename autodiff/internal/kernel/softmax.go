package kernel

// Softmax writes exp(x - max) / sum(exp(x - max)) along an axis.
func Softmax[T Float](t Threads, z, x []T, a Axis) {
	overSequences(t, 16, z, [2][]T{x}, a, func(s *sequences[T], z, x, _ []T) {
		s.expSum(z, x)
		s.by(s.div, z, z, s.total)
	})
}

// LogSoftmax writes (x - max) - log(sum(exp(x - max))) along an axis.
func LogSoftmax[T Float](t Threads, z, x []T, a Axis) {
	overSequences(t, 16, z, [2][]T{x}, a, func(s *sequences[T], z, x, _ []T) {
		s.expSum(z, x)
		Log(s.total, s.total, nil)
		s.by(s.sub, z, x, s.most)
		s.by(s.sub, z, z, s.total)
	})
}

// SoftmaxGrad writes y * (g - sum(g * y)) along an axis.
func SoftmaxGrad[T Float](t Threads, z, g, y []T, a Axis) {
	overSequences(t, 4, z, [2][]T{g, y}, a, func(s *sequences[T], z, g, y []T) {
		s.each(s.mul.VV, z, g, y)
		s.sum(z)
		s.by(s.sub, z, g, s.total)
		s.each(s.mul.VV, z, y, z)
	})
}

// LogSoftmaxGrad writes g - exp(y) * sum(g) along an axis.
func LogSoftmaxGrad[T Float](t Threads, z, g, y []T, a Axis) {
	overSequences(t, 16, z, [2][]T{g, y}, a, func(s *sequences[T], z, g, y []T) {
		s.sum(g)
		s.each(Exp[T], z, y, y)
		s.by(s.mul, z, z, s.total)
		s.each(s.sub.VV, z, g, z)
	})
}
