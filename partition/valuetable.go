package partition

// valueTable maps the values of a label to the partitions that ask for them. Selectors ask for few values, and most of these differ in their
// length or in one of three bytes, which are cheaper to look at than all. Values that do not are left to a map.
type valueTable struct {
	slots  []uint16 // by fingerprint: number of the first value, from 1
	values []tableValue
	hashed map[string][]uint32 // instead
}

type tableValue struct {
	text       string
	next       uint16 // the next one in the slot, or 0
	partitions []uint32
}

// crowded is how many values in one slot are too many.
const crowded = 4

func newValueTable(partitions map[string][]uint32) valueTable {
	size := 64
	for size < 4*len(partitions) {
		size *= 2
	}
	if size > 1<<12 {
		return valueTable{hashed: partitions}
	}
	t := valueTable{slots: make([]uint16, size), values: make([]tableValue, 0, len(partitions))}
	for text, list := range partitions {
		slot := &t.slots[int(fingerprint(text))&(size-1)]
		length := 1
		for at := *slot; at != 0; at = t.values[at-1].next {
			if length++; length > crowded {
				return valueTable{hashed: partitions}
			}
		}
		t.values = append(t.values, tableValue{text, *slot, list})
		*slot = uint16(len(t.values))
	}
	return t
}

// fingerprint is the same for equal values.
func fingerprint(text string) uint32 {
	n := len(text)
	if n == 0 {
		return 0
	}
	return uint32(n) ^ uint32(text[n-1])*37 ^ uint32(text[0])*11 ^ uint32(text[n/2])*101
}

// find returns the partitions that ask for a value.
func (t *valueTable) find(text string) []uint32 {
	if t.hashed != nil {
		return t.hashed[text]
	}
	for at := t.slots[int(fingerprint(text))&(len(t.slots)-1)]; at != 0; {
		v := &t.values[at-1]
		if v.text == text {
			return v.partitions
		}
		at = v.next
	}
	return nil
}
