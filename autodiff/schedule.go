package autodiff

import (
	"math"

	"github.com/isobit-ml/isobit/autodiff/internal/detmath"
)

// Schedules of rates: what a program gives an optimizer for Rate before a step. What PyTorch calls a last epoch is a step here,
// whatever it counts. They are products of others where wanted: a warm-up is LinearLR in the first steps.

// OneCycle is a schedule of rates for steps 0 to steps-1: from rate/25 up to rate
// in the first part of the steps, a share of warm of them, then down to nearly
// 0, both along half a cosine. A step before or after those is the first or
// the last of them.
func OneCycle(step, steps int, rate, warm float64) float64 {
	low, end := rate/25, rate/25e4
	steps = max(steps, 1)
	up := float64(float64(steps)*min(max(warm, 0), 1)) - 1
	at := float64(min(max(step, 0), steps-1))
	if up > 0 && at <= up { // where up is 0 the first step is the highest
		return between(low, rate, at/up)
	}
	if down := float64(steps-1) - up; down > 0 {
		return between(rate, end, (at-up)/down)
	}
	return rate
}

func between(a, b, t float64) float64 {
	half := float64((a - b) / 2 * (1 + detmath.CosPi(t)))
	return b + half
}

// CosineAnnealingLR goes from rate in step 0 to low in step steps, along half a cosine, and stays there. (PyTorch's goes up
// again; a step modulo steps begins anew.)
func CosineAnnealingLR(step, steps int, rate, low float64) float64 {
	return between(rate, low, part(step, steps))
}

// LinearLR goes from one rate in step 0 to another in step steps, and stays there.
func LinearLR(step, steps int, from, to float64) float64 {
	return from + float64((to-from)*part(step, steps))
}

// PolynomialLR is rate times the power of the part of the steps that is left, and 0 after them.
func PolynomialLR(step, steps int, rate, power float64) float64 {
	return rate * detmath.Pow(1-part(step, steps), power)
}

// StepLR multiplies the rate by gamma after every so many steps.
func StepLR(step, every int, rate, gamma float64) float64 {
	return decayed(rate, gamma, max(step, 0)/max(every, 1))
}

// MultiStepLR multiplies the rate by gamma in each of the steps that are listed.
func MultiStepLR(step int, at []int, rate, gamma float64) float64 {
	n := 0
	for _, s := range at {
		if s <= step {
			n++
		}
	}
	return decayed(rate, gamma, n)
}

// part is the part of the steps that a step comes after.
func part(step, steps int) float64 {
	steps = max(steps, 1)
	return float64(min(max(step, 0), steps)) / float64(steps)
}

// decayed multiplies n times.
func decayed(rate, gamma float64, n int) float64 {
	return rate * detmath.Pow(gamma, float64(n))
}

// ReduceLROnPlateau lowers a rate where a number, such as the loss of an epoch on data of its own, gets no better. Zero values
// are PyTorch's defaults.
type ReduceLROnPlateau struct {
	Max       bool    // more is better
	Factor    float64 // that a rate is multiplied by; 0: 0.1
	Patience  int     // how many numbers in turn may be no better; 0: 10, negative: none
	Threshold float64 // the share of the best that a better one differs by at least; 0: 1e-4
	Low       float64 // the lowest rate
	// What it remembers: how many numbers it has seen, the best one, and how many came after that or after
	// the rate was lowered.
	Seen int
	Best float64
	Bad  int
}

// Step takes a number and the rate so far, and returns the rate from now on.
func (p *ReduceLROnPlateau) Step(metric, rate float64) float64 {
	threshold, patience := orDefault(p.Threshold, 1e-4), p.Patience
	switch {
	case patience == 0:
		patience = 10
	case patience < 0:
		patience = 0
	}
	if p.Seen++; p.Seen == 1 {
		p.Best = math.Inf(1) // so that a first NaN is not the best for ever
		if p.Max {
			p.Best = math.Inf(-1)
		}
	}
	better := metric < float64(p.Best*(1-threshold))
	if p.Max {
		better = metric > float64(p.Best*(1+threshold))
	}
	if better {
		p.Best, p.Bad = metric, 0
	} else {
		p.Bad++
	}
	if p.Bad <= patience {
		return rate
	}
	p.Bad = 0
	return max(float64(rate*orDefault(p.Factor, 0.1)), min(p.Low, rate))
}
