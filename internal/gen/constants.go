package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/reg"
)

// tables are the constants of a file, and what they hold.
type tables struct {
	places map[string]operand.Mem
	words  map[string][]operand.Constant
}

func newTables() *tables {
	return &tables{map[string]operand.Mem{}, map[string][]operand.Constant{}}
}

// constant returns memory that holds a word in every lane of a vector.
func (k *kernel) constant(word any) memory {
	var c operand.Constant
	switch w := word.(type) {
	case uint32:
		c = operand.U32(w)
	case uint64:
		c = operand.U64(w)
	}
	return k.table(strings.Trim(fmt.Sprintf("all%d_%x", c.Bytes()*8, word), "<>"), c)
}

// Constants have up to 32 bytes, to which Go's linker aligns them: a load of 64 could
// take two cache lines, in every turn of a loop. So registers of 64 bytes take the
// same word in each lane, and orders of elements are stored as bytes.

// table returns memory that holds words one after the other, repeated to 32 bytes;
// a byte of each where they need more.
func (k *kernel) table(name string, words ...operand.Constant) memory {
	m, ok := k.globals.places[name]
	if !ok {
		m = k.c.StaticGlobal(name)
		k.c.DataAttributes(attr.RODATA | attr.NOPTR)
		order := isOrder(words)
		for at, i := 0, 0; at < 32 && !(order && i == len(words)); i++ {
			w := words[i%len(words)]
			if order {
				w = operand.U8(reflect.ValueOf(w).Uint())
			}
			k.c.AddDatum(at, w)
			at += w.Bytes()
		}
		k.globals.places[name], k.globals.words[name] = m, words
	}
	return memory{m}
}

// laneNumbers are 0, 1, ... of the compute type's size.
func (k *kernel) laneNumbers() memory {
	var numbers []operand.Constant
	for i := range k.lanes {
		numbers = append(numbers, either[operand.Constant](k.double(), operand.U64(i), operand.U32(i)))
	}
	return k.table(fmt.Sprintf("numbers%dx%d", k.lanes, 8*k.compute.size), numbers...)
}

// isOrder reports whether a table's words are stored as bytes.
func isOrder(words []operand.Constant) bool { return len(words)*words[0].Bytes() > 32 }

// spreads names what loads a word to each lane, by the move that loads a vector.
var spreads = map[string]string{"VMOVUPS": "VBROADCASTSS", "VMOVUPD": "VBROADCASTSD",
	"VMOVDQU16": "VPBROADCASTW", "VMOVDQU32": "VPBROADCASTD", "VMOVDQU64": "VPBROADCASTQ"}

// reading returns the instruction that does what a name says with a constant or a
// table m: what loads 64 bytes elsewhere loads a word here, or bytes.
func (k *kernel) reading(name string, m operand.Mem) string {
	words := k.globals.words[m.Symbol.Name]
	move, zeroes := strings.CutSuffix(name, "_Z")
	switch spread := spreads[move]; {
	case isOrder(words) && spread != "":
		move = map[int]string{2: "VPMOVZXBW", 4: "VPMOVZXBD", 8: "VPMOVZXBQ"}[words[0].Bytes()]
	case len(words) > 1:
		panic(name + " of " + m.Symbol.Name)
	case spread != "":
		move = spread
	default:
		move += "_BCST"
	}
	return move + either(zeroes, "_Z", "")
}

// AVX-512 has registers to spare: what loops would read from memory again and
// again, constants and orders of elements, stays in some of them.

// pins is what a kernel keeps in registers all along.
type pins struct {
	wanted    []string // what its loops ask for
	registers map[string]reg.VecVirtual
}

// pinned returns the register that holds a constant or a table, or the memory.
func (k *kernel) pinned(m memory) any {
	name := m.Symbol.Name
	if r := k.pins.registers[name]; r != nil {
		return r
	}
	if k.isa.masks && !slices.Contains(k.pins.wanted, name) {
		k.pins.wanted = append(k.pins.wanted, name)
	}
	return m
}

// inRegister is pinned for instructions that take no memory.
func (k *kernel) inRegister(m memory) any {
	p := k.pinned(m)
	if r, ok := p.(reg.VecVirtual); ok {
		return r
	}
	r := k.vector()
	k.emit(either(k.isa.masks, "VMOVDQU64", "VMOVDQU"), m, r)
	return r
}

// pin loads the given constants and tables.
func (k *kernel) pin(names []string) {
	k.pins.registers = map[string]reg.VecVirtual{}
	for _, name := range names {
		r := k.vector()
		k.emit("VMOVDQU64", k.table(name, k.globals.words[name]...), r)
		k.pins.registers[name] = r
	}
}

// pins returns the constants and tables that a kernel has registers for.
func (o *op) pins(globals *tables, isa *isa, v variant) []string {
	try := func(names []string) (wanted []string, ok bool) {
		c := build.NewContext()
		scratch := &tables{map[string]operand.Mem{}, globals.words}
		wanted = o.function(c, scratch, isa, v, names)
		file, err := c.Result()
		return wanted, err == nil && pass.Compile.Execute(file) == nil
	}
	names, _ := try(nil)
	for ; len(names) > 0; names = names[:len(names)-1] {
		if _, ok := try(names); ok {
			break
		}
	}
	return names
}
