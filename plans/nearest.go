package plans

import (
	"slices"
	"strings"
)

// mostNearest is how many ops an error names: as many as a C caller's 256 bytes take.
const mostNearest = 3

// otherNames are the words that others have for an op.
var otherNames = map[string][]string{"matmul": {"linear", "addmm", "bmm", "gemm"}}

// wantedOps says which ops a name that none has may have meant, and where all
// of them stand.
func wantedOps(name string) string {
	all := "an op of OPS.md or " + named("plans.Support")
	if near := nearestOps(shortened(name)); len(near) > 0 {
		return all + ", such as " + strings.Join(near, ", ")
	}
	return all
}

// nearestOps lists the ops whose words are nearest to a name's, the best first:
// none where half of the name would have to be changed.
func nearestOps(name string) (near []string) {
	type candidate struct {
		name              string
		distance, further int
	}
	var list []candidate
	words := strings.Split(strings.ToLower(name), "_")
	letters := len(strings.Join(words, ""))
	for _, op := range OpNames() {
		c, of := candidate{name: op}, strings.Split(op, "_")
		c.further = len(of) - len(words)
		of = append(of, otherNames[op]...)
		for _, word := range words {
			least := len(word)
			for _, other := range of {
				least = min(least, editDistance(word, other))
			}
			c.distance += least
		}
		if 2*c.distance < letters {
			list = append(list, c)
		}
	}
	slices.SortStableFunc(list, func(a, b candidate) int {
		if a.distance != b.distance {
			return a.distance - b.distance
		}
		return max(a.further, -a.further) - max(b.further, -b.further)
	})
	for _, c := range list[:min(len(list), mostNearest)] {
		near = append(near, c.name)
	}
	return near
}

// editDistance is how many bytes of a have to be changed, left out or put in to
// make b of it.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1) // of distances from the first bytes of a
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := diagonal
			if a[i] != b[j] {
				changed++
			}
			diagonal = row[j+1]
			row[j+1] = min(changed, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
