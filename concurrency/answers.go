package concurrency

import "slices"

// answers holds the different answers that refused candidates got, each once. Most candidates get
// the answer of their neighbour, or the last one that ends with the same pool; where answers
// alternate, a table finds them.
type answers struct {
	list   [][]Refusal
	slab   []Refusal        // present slab of list
	latest []int32          // per pool, the last answer that ended with it, plus 1
	table  map[uint64]int32 // by hash, or by the next free number after it; nil until answers alternate
}

// number returns the index in list of an answer, which must not be empty, and enters the answer if
// it is new. candidates is the number of candidates that may get one.
func (a *answers) number(answer []Refusal, candidates int) int32 {
	last := &a.latest[answer[len(answer)-1].Pool]
	switch {
	case *last == 0:
		*last = a.enter(answer, candidates) + 1 // the first answer that ends with this pool
	case !slices.Equal(a.list[*last-1], answer):
		*last = a.look(answer, candidates) + 1
	}
	return *last - 1
}

// look finds or enters an answer in the table.
func (a *answers) look(answer []Refusal, candidates int) int32 {
	if a.table == nil {
		a.table = make(map[uint64]int32)
		for i := range a.list {
			a.file(int32(i))
		}
	}
	for h := hashAnswer(answer); ; h++ {
		i, taken := a.table[h]
		if !taken {
			return a.enter(answer, candidates)
		}
		if slices.Equal(a.list[i], answer) {
			return i
		}
	}
}

func (a *answers) enter(answer []Refusal, candidates int) int32 {
	if len(answer) > cap(a.slab)-len(a.slab) { // a new slab: growing the old one would copy it, while the answers keep the old one
		a.slab = make([]Refusal, 0, max(len(answer), min(512, candidates)))
	}
	start := len(a.slab)
	a.slab = append(a.slab, answer...)
	a.list = append(a.list, a.slab[start:len(a.slab):len(a.slab)])
	i := int32(len(a.list) - 1)
	if a.table != nil {
		a.file(i)
	}
	return i
}

func (a *answers) file(i int32) {
	h := hashAnswer(a.list[i])
	for _, taken := a.table[h]; taken; _, taken = a.table[h] {
		h++
	}
	a.table[h] = i
}

func hashAnswer(answer []Refusal) uint64 {
	h := uint64(len(answer))
	for _, r := range answer {
		h = fold(h ^ uint64(r.Pool)<<32 ^ hash(string(r.Reason)))
	}
	return h
}
