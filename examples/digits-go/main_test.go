package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/autodiff"
)

// TestSameBits trains for a moment under every strategy and number of
// threads: the trained network computes the same bits.
func TestSameBits(t *testing.T) {
	want := ""
	check := func(r result, err error) {
		t.Helper()
		require.NoError(t, err)
		if want == "" {
			want = r.digest
		}
		require.Equal(t, want, r.digest)
	}
	for _, threads := range []int{1, 2, 8} {
		o := options{epochs: 1, threads: threads, quick: true}
		check(train(autodiff.None{}, o, nil))
		check(train(autodiff.Balanced{}, o, nil))
		check(train(autodiff.Budget{Bytes: 1 << 20}, o, nil))
	}
}

// TestServing classifies with the exported network, in the Go program of
// examples/digits: the digest of the logits is that of training.
func TestServing(t *testing.T) {
	dir := t.TempDir()
	r, err := train(autodiff.None{}, options{epochs: 1, quick: true, out: dir}, nil)
	require.NoError(t, err)
	serve := exec.Command("go", "run", "../digits/serve", filepath.Join(dir, "model.safetensors"), filepath.Join(dir, "held_out.safetensors"))
	out, err := serve.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, strings.Split(string(out), "\n"), "sha256 "+r.digest)
}
