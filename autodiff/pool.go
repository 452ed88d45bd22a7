package autodiff

import "slices"

// Pooling of other tensors than images, and to a given size.

// MaxPool1d takes the largest element of every window along the last dimension; see MaxPool2d.
func (x Float[B]) MaxPool1d(w Window1d) Float[B] {
	return x.pooledLines("max_pool1d", func(x Float[B]) Float[B] { return x.MaxPool2d(w.plane()) })
}

// AvgPool1d takes the mean of every window along the last dimension.
func (x Float[B]) AvgPool1d(w Window1d) Float[B] {
	return x.pooledLines("avg_pool1d", func(x Float[B]) Float[B] { return x.AvgPool2d(w.plane()) })
}

func (x Float[B]) pooledLines(name string, of func(Float[B]) Float[B]) Float[B] {
	switch {
	case x.Err() != nil:
		return x
	case x.Rank() < 1:
		return Float[B]{failed(x.be, "%s: x is %v; want [..., l]", name, x)}
	}
	return x.asLines(name, x, func(x, _ Float[B]) Float[B] { return of(x) })
}

// MaxPool3d takes the largest element of every window over the last three dimensions; see MaxPool2d.
func (x Float[B]) MaxPool3d(w Window3d) Float[B] {
	return x.pooledVolumes("max_pool3d", w, Float[B].MaxPool2d)
}

// AvgPool3d takes the mean of every window over the last three dimensions: that of the means in its planes.
func (x Float[B]) AvgPool3d(w Window3d) Float[B] {
	return x.inFloat32(Float[B]{}, Float[B]{}, func(x, _, _ Float[B]) Float[B] { // to round once
		return x.pooledVolumes("avg_pool3d", w, Float[B].AvgPool2d)
	})
}

// pooledVolumes pools planes, then lines across them.
func (x Float[B]) pooledVolumes(name string, w Window3d, pool func(Float[B], Window) Float[B]) Float[B] {
	switch {
	case x.Err() != nil:
		return x
	case x.Rank() < 3:
		return Float[B]{failed(x.be, "%s: x is %v; want [..., d, h, w]", name, x)}
	}
	var made temporaries[B]
	defer made.release()
	planes := made.add(pool(x, w.plane()))
	if planes.Err() != nil {
		return Float[B]{failed(x.be, "%s: in planes: %w", name, planes.Err())}
	}
	shape := planes.Shape()
	r := len(shape)
	y := made.add(pool(made.add(planes.Reshape(append(slices.Clone(shape[:r-2]), shape[r-2]*shape[r-1])...)), w.depth()))
	if y.Err() != nil {
		return Float[B]{failed(x.be, "%s: across planes: %w", name, y.Err())}
	}
	shape[r-3] = y.extent(-2)
	return y.Reshape(shape...)
}

// AdaptiveAvgPool takes means over windows of the last dimensions, as many as there are sizes, so that these have the sizes: of
// images [n, c, h, w] with the sizes 1, 1 all of each channel. Windows are PyTorch's, from floor(i*from/to) to ceil((i+1)*from/to).
func (x Float[B]) AdaptiveAvgPool(sizes ...int) Float[B] {
	return x.adaptive("adaptive_avg_pool", sizes, func(x Float[B], axis int, starts, lengths []int64) Float[B] {
		windows, beyond := x.windows(axis, starts, lengths)
		defer windows.Release()
		defer beyond.Release()
		var made temporaries[B]
		defer made.release()
		keep := made.add
		counts := make([]float64, len(lengths))
		for i, n := range lengths {
			counts[i] = float64(n)
		}
		shape := slices.Repeat([]int{1}, x.Rank()-axis)
		shape[0] = len(counts)
		count := keep(keep(Floats(x.be, counts, shape...)).Cast(x.DType()))
		return keep(keep(windows.MaskFill(beyond, 0)).Sum(axis + 1)).Div(count)
	})
}

// AdaptiveMaxPool is AdaptiveAvgPool that takes the largest elements; see MaxPool2d.
func (x Float[B]) AdaptiveMaxPool(sizes ...int) Float[B] {
	return x.adaptive("adaptive_max_pool", sizes, func(x Float[B], axis int, starts, lengths []int64) Float[B] {
		windows, beyond := x.windows(axis, starts, lengths)
		defer windows.Release()
		defer beyond.Release()
		y, at := windows.Max(axis + 1)
		at.Release()
		return y
	})
}

// windows makes an axis two, of windows and of what is in each, with the last element again where one is shorter.
func (x Float[B]) windows(axis int, starts, lengths []int64) (windows Float[B], beyond Bool[B]) {
	longest := slices.Max(lengths)
	at, again := make([]int64, 0, len(starts)*int(longest)), make([]bool, 0, len(starts)*int(longest))
	for i, from := range starts {
		for j := range longest {
			at, again = append(at, from+min(j, lengths[i]-1)), append(again, j >= lengths[i])
		}
	}
	picked := x.rows(axis, at)
	defer picked.Release()
	shape := x.Shape()
	mask := slices.Repeat([]int{1}, len(shape)+1-axis)
	mask[0], mask[1] = len(starts), int(longest)
	return picked.Reshape(slices.Concat(shape[:axis], mask[:2], shape[axis+1:])...), Bools(x.be, again, mask...)
}

// adaptive pools one of the last axes after the other to sizes.
func (x Float[B]) adaptive(name string, sizes []int, along func(x Float[B], axis int, starts, lengths []int64) Float[B]) Float[B] {
	if x.Err() != nil {
		return x
	}
	first := x.Rank() - len(sizes)
	if len(sizes) == 0 || first < 0 {
		return Float[B]{failed(x.be, "%s: %d sizes of x, which is %v; want one for each of its last dimensions, and one at least", name, len(sizes), x)}
	}
	for i, to := range sizes {
		if from := x.extent(first + i); to < 1 || to > maxParts || from < 1 || from > maxParts {
			return Float[B]{failed(x.be, "%s: size %d of axis %d of %v; want 1 to %d, of an axis with as many elements", name, to, first+i, x, maxParts)}
		}
	}
	return x.inFloat32(Float[B]{}, Float[B]{}, func(x, _, _ Float[B]) Float[B] { // to round once
		var made temporaries[B]
		defer made.release()
		y := x.Reshape(x.Shape()...)
		for i, to := range sizes {
			from := y.extent(first + i)
			if from == to {
				continue
			}
			starts, lengths := make([]int64, to), make([]int64, to)
			for j := range starts {
				starts[j] = int64(j * from / to)
				lengths[j] = int64(((j+1)*from+to-1)/to) - starts[j]
			}
			y = along(made.add(y), first+i, starts, lengths)
		}
		return y
	})
}
