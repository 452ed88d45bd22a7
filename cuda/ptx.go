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
	last := map[string]*int{} // by kind
	var first *int            // of the kind that the line begins with, if it has any
	var number int            // that first becomes where the line ends
	written := 0              // how much of text is in out
	for i := 0; i < len(text); i++ {
		if text[i] == '\n' && first != nil {
			*first, first = number, nil
		}
		if text[i] != '%' && text[i] != '_' {
			continue
		}
		end, stop, n := difference(text, i)
		if stop > end {
			kind := last[string(text[i:end])]
			if kind == nil {
				kind = new(int)
				last[string(text[i:end])] = kind
			}
			n += *kind
			if first == nil {
				first, number = kind, n
			}
			out.Write(text[written:end])
			out.Write(strconv.AppendInt(digits[:0], int64(n), 10))
			written = stop
		}
		i = stop - 1 // what follows may begin another
	}
	out.Write(text[written:])
	return out.String()
}

// difference reads a kind, a mark and letters, which ends at end, and the number behind it, which ends at stop: at
// end if there is none.
func difference(text []byte, begin int) (end, stop, n int) {
	for end = begin + 1; end < len(text) && 'a' <= text[end] && text[end] <= 'z'; end++ {
	}
	from, sign := end, 1
	if from < len(text) && text[from] == '-' {
		from, sign = from+1, -1
	}
	for stop = from; stop < len(text) && '0' <= text[stop] && text[stop] <= '9'; stop++ {
		n = 10*n + int(text[stop]-'0')
	}
	if stop == from {
		return end, end, 0
	}
	return end, stop, sign * n
}
