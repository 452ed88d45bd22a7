package cuda

import (
	"archive/zip"
	"bytes"
	_ "embed" // for the kernels
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
)

//go:generate bash ptx.sh

// kernels.zip holds every kernel's PTX, renumbered, written by ptx.sh; kernels.sum
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
	f, err := z.Open(kernel)
	if err != nil {
		return "", fmt.Errorf("there is no kernel %s", kernel)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	text := make([]byte, info.Size())
	_, err = io.ReadFull(f, text)
	return numbered(text), err
}

// numbered is the way back of renumbered (ptx.py): numbers of registers and labels
// are differences from that of the last line before that begins with one of its kind.
func numbered(text []byte) string {
	var out strings.Builder
	out.Grow(len(text) + len(text)/4)
	var digits [20]byte
	before := map[string]*int{}
	var first *int // the kind that the line begins with, if it has any
	var number int // of the first of that kind
	written := 0   // how much of text is in out
	for i := 0; i < len(text); i++ {
		if text[i] == '\n' && first != nil {
			*first, first = number, nil
		}
		if text[i] != '%' && text[i] != '_' {
			continue
		}
		begin := i
		for i++; i < len(text) && 'a' <= text[i] && text[i] <= 'z'; i++ {
		}
		end, n, sign := i, 0, 1
		if i < len(text) && text[i] == '-' {
			i, sign = i+1, -1
		}
		from := i
		for ; i < len(text) && '0' <= text[i] && text[i] <= '9'; i++ {
			n = 10*n + int(text[i]-'0')
		}
		if i > from {
			kind := before[string(text[begin:end])]
			if kind == nil {
				kind = new(int)
				before[string(text[begin:end])] = kind
			}
			n = *kind + sign*n
			if first == nil {
				first, number = kind, n
			}
			out.Write(text[written:end])
			out.Write(strconv.AppendInt(digits[:0], int64(n), 10))
			written = i
		}
		i-- // what follows may begin another
	}
	out.Write(text[written:])
	return out.String()
}
