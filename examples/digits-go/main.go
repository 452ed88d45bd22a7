// Digits-go is examples/digits trained in pure Go: no Python, no cgo. It
// writes the files that the serving programs of examples/digits read, and the
// digest of its own logits, which theirs must equal.
//
//	go run ./examples/digits-go -out /tmp/digits
package main

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/isobit-ml/isobit/autodiff"
	"github.com/isobit-ml/isobit/tensor"
)

const (
	batch  = 64
	rate   = 4e-3
	copies = 5 // distortions of each held-out digit
)

type options struct {
	epochs, threads int
	out             string
	quick           bool
}

// result is what a training came to.
type result struct {
	accuracy float64
	digest   string // of the logits of the held-out digits
	loss     float64
	seconds  float64
}

// train trains the network over a backend with the given strategy.
func train[C autodiff.Strategy](strategy C, o options, progress func(line string)) (r result, err error) {
	start := time.Now()
	cpu := autodiff.NewCPUThreads(o.threads)
	ad := autodiff.New(cpu, strategy)
	digits, test, err := load()
	if err != nil {
		return r, err
	}
	if o.quick {
		digits.images, digits.labels = digits.images[:256*side*side], digits.labels[:256]
	}
	params := autodiff.NewParams(ad, 1)
	net := newNet(params)
	serving := newNet(autodiff.InnerParams(params)) // the same elements
	held, heldLabels, err := distortedCopies(cpu, test)
	if err != nil {
		return r, err
	}

	n := len(digits.labels)
	perEpoch := (n + batch - 1) / batch
	optimizer := &autodiff.AdamW{WeightDecay: 1e-4}
	random := rand.New(rand.NewPCG(1, 2))
	for epoch := range o.epochs {
		canvases, err := distort(cpu, digits, random)
		if err != nil {
			return r, err
		}
		order := random.Perm(n)
		sum := 0.0
		for i := range perEpoch {
			rows := order[i*batch : min((i+1)*batch, n)]
			x, y := pick(canvases, digits.labels, rows)
			optimizer.Rate = autodiff.OneCycle(epoch*perEpoch+i, o.epochs*perEpoch, rate, 0.15)
			loss, err := step(ad, net, params, optimizer, x, y)
			if err != nil {
				return r, err
			}
			sum += float64(loss * float64(len(rows))) // not fused: the same bits on every machine
		}
		r.loss = sum / float64(n)
		if progress != nil {
			if r.accuracy, _, err = classify(serving, cpu, held, heldLabels); err != nil {
				return r, err
			}
			done := 30 * (epoch + 1) / o.epochs
			progress(fmt.Sprintf("[%-30s] epoch %d of %d, loss %.3f, held out %.1f%%, %.0f s",
				strings.Repeat("#", done), epoch+1, o.epochs, r.loss, 100*r.accuracy, time.Since(start).Seconds()))
		}
	}
	if r.accuracy, r.digest, err = classify(serving, cpu, held, heldLabels); err != nil {
		return r, err
	}
	r.seconds = time.Since(start).Seconds()
	if o.out == "" {
		return r, nil
	}
	return r, save(o.out, serving, held, heldLabels)
}

// step changes the parameters once, by a batch's gradients, and returns the loss.
func step[C autodiff.Strategy](ad *autodiff.Autodiff[*autodiff.CPU, C], net digitNet[*autodiff.Autodiff[*autodiff.CPU, C]],
	params autodiff.Parameters, optimizer autodiff.Optimizer, x []int32, y []int64) (float64, error) {
	loss := net.forward(autodiff.Ints(ad, x, len(y), canvas, canvas)).CrossEntropy(autodiff.Ints(ad, y), 0)
	grads, err := ad.Backward(loss)
	if err != nil {
		return 0, err
	}
	defer grads.Release()
	if err := optimizer.Step(params, grads); err != nil {
		return 0, err
	}
	return loss.Item()
}

// save writes the network and the held-out digits for the servers.
func save(folder string, net digitNet[*autodiff.CPU], canvases []int32, labels []int64) error {
	model, err := net.export()
	if err != nil {
		return err
	}
	metadata := map[string]string{"model": "isobit digits"}
	if err := autodiff.SaveSafetensors(filepath.Join(folder, "model.safetensors"), model, metadata); err != nil {
		return err
	}
	return autodiff.SaveSafetensors(filepath.Join(folder, "held_out.safetensors"), heldOutFile(canvases, labels), nil)
}

// distortedCopies returns every held-out digit in several distortions, the
// same in each run.
func distortedCopies(cpu *autodiff.CPU, d digits) (canvases []int32, labels []int64, err error) {
	for i := range copies {
		c, err := distort(cpu, d, rand.New(rand.NewPCG(1000, uint64(i))))
		if err != nil {
			return nil, nil, err
		}
		canvases, labels = append(canvases, c...), append(labels, d.labels...)
	}
	return canvases, labels, nil
}

// pick gathers the rows of a batch.
func pick(canvases []int32, labels []int64, rows []int) (x []int32, y []int64) {
	const size = canvas * canvas
	for _, r := range rows {
		x = append(x, canvases[r*size:(r+1)*size]...)
		y = append(y, labels[r])
	}
	return x, y
}

// classify returns the accuracy on canvases and the SHA-256 of the logits.
func classify(net digitNet[*autodiff.CPU], cpu *autodiff.CPU, canvases []int32, labels []int64) (float64, string, error) {
	logits := net.forward(autodiff.Ints(cpu, canvases, len(labels), canvas, canvas))
	right, err := logits.ArgMax(1).Equal(autodiff.Ints(cpu, labels)).Count()
	if err != nil {
		return 0, "", err
	}
	v, err := logits.View()
	if err != nil {
		return 0, "", err
	}
	return float64(right) / float64(len(labels)), fmt.Sprintf("%x", sha256.Sum256(tensor.LittleEndian(v))), nil
}

func main() {
	var o options
	strategy := flag.String("strategy", "none", "what the graph keeps: none, balanced, or budget (1 MiB)")
	flag.IntVar(&o.epochs, "epochs", 100, "passes over the training digits")
	flag.IntVar(&o.threads, "threads", 0, "threads; 0 means one per CPU. The result does not depend on it")
	flag.StringVar(&o.out, "out", "", "folder for model.safetensors and held_out.safetensors")
	flag.BoolVar(&o.quick, "quick", false, "train on 256 digits for 2 epochs, whatever the accuracy")
	flag.Parse()
	log.SetFlags(0)
	if o.quick {
		o.epochs = 2
	}
	if o.out != "" {
		if err := os.MkdirAll(o.out, 0o755); err != nil {
			log.Fatal(err)
		}
	}
	progress := func(line string) { fmt.Fprintf(os.Stderr, "\r%s  ", line) }
	var r result
	var err error
	switch *strategy {
	case "none":
		r, err = train(autodiff.None{}, o, progress)
	case "balanced":
		r, err = train(autodiff.Balanced{}, o, progress)
	case "budget":
		r, err = train(autodiff.Budget{Bytes: 1 << 20}, o, progress)
	default:
		log.Fatalf("there is no strategy %q", *strategy)
	}
	fmt.Fprintln(os.Stderr)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("accuracy %.4f\nsha256 %s\nseconds %.1f\n", r.accuracy, r.digest, r.seconds)
}
