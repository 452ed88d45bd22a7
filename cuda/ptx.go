package cuda

import (
	"archive/zip"
	"bytes"
	_ "embed" // for the kernels
	"fmt"
	"io"
	"sync"
)

//go:generate bash ptx.sh

// kernels.zip holds NAME.ptx for every kernel, written by ptx.sh; kernels.sum
// is the digest of what it was made from.
//
//go:embed kernels.zip
var archive []byte

//go:embed kernels.sum
var archiveSum string

var openArchive = sync.OnceValues(func() (*zip.Reader, error) {
	return zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
})

// ptxOf returns the module of one kernel.
func ptxOf(kernel string) (string, error) {
	z, err := openArchive()
	if err != nil {
		return "", err
	}
	f, err := z.Open(kernel + ".ptx")
	if err != nil {
		return "", fmt.Errorf("there is no kernel %s", kernel)
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	return string(text), err
}
