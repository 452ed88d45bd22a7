package main

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"
	"math"
	"math/rand/v2"

	"github.com/isobit-ml/isobit/autodiff"
)

const (
	levels  = 17 // pixel intensities 0 to 16
	side    = 8  // a digit has 8x8 pixels
	canvas  = 16 // and comes, distorted, on a canvas of 16x16
	heldOut = 360
)

//go:embed digits.bin.gz
var packed []byte

// digits are images, upright ones of side x side or distorted ones of
// canvas x canvas, one behind the other, and their labels.
type digits struct {
	images []float32
	labels []int64
}

// load returns the training digits, and digits that training never sees in
// any distortion: see make_digits.py.
func load() (train, test digits, err error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return train, test, err
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return train, test, err
	}
	const record = side*side + 1
	if len(data)%record != 0 {
		return train, test, fmt.Errorf("digits.bin.gz holds %d bytes, not a number of records", len(data))
	}
	for i := 0; i < len(data); i += record {
		d := &train
		if i/record < heldOut {
			d = &test
		}
		for _, v := range data[i : i+record-1] {
			d.images = append(d.images, float32(v))
		}
		d.labels = append(d.labels, int64(data[i+record-1]))
	}
	return train, test, nil
}

// rotation returns the cosine and the sine of an angle by their series. Those of
// package math, and sums of products that are not converted, as below, may end in
// other bits on another machine.
func rotation(angle float64) (cos, sin float64) {
	square := float64(angle * angle)
	cos, sin = 1, 1
	for n := 20.0; n > 0; n -= 2 {
		cos = 1 - float64(cos*square)/(n*(n-1))
		sin = 1 - float64(sin*square)/(n*(n+1))
	}
	return cos, float64(sin * angle)
}

// distort rotates, scales, shears and moves each digit, and rounds back to
// whole intensities: i32 indices of the shape [n, canvas, canvas].
func distort(be *autodiff.CPU, d digits, random *rand.Rand) ([]int32, error) {
	n := len(d.labels)
	theta := make([]float32, 0, n*6)
	within := func(lo, hi float64) float64 { return lo + float64((hi-lo)*random.Float64()) }
	for range n {
		angle := within(-45, 45) * math.Pi / 180
		zoom := canvas / float64(side) / within(0.75, 1.3)
		shear := within(-0.25, 0.25)
		x, y := within(-3.5, 3.5)*2/canvas, within(-3.5, 3.5)*2/canvas
		cos, sin := rotation(angle)
		cos, sin = float64(cos*zoom), float64(sin*zoom)
		// The map takes a point of the canvas to the point of the digit that
		// is seen there: rotation times shear, and the shift undone.
		a, b, c, e := cos, float64(cos*shear)-sin, sin, float64(sin*shear)+cos
		for _, v := range []float64{a, b, -(float64(a*x) + float64(b*y)), c, e, -(float64(c*x) + float64(e*y))} {
			theta = append(theta, float32(v))
		}
	}
	grid := autodiff.Floats(be, theta, n, 2, 3).AffineGrid(false, n, 1, canvas, canvas)
	images := autodiff.Floats(be, d.images, n, 1, side, side)
	values, err := images.GridSample(grid, autodiff.SampleMode{}).Round().Clamp(0, levels-1).Float32s()
	if err != nil {
		return nil, err
	}
	out := make([]int32, len(values))
	for i, v := range values {
		out[i] = int32(v)
	}
	return out, nil
}
