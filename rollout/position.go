package rollout

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"time"
)

// digest is a running FNV-1a hash of length-prefixed fields: version 1 of the rollout order.
//
// The prefixes keep ("ab", "c") and ("a", "bc") apart, which plain concatenation does not, and the
// finaliser of [digest.sum] spreads keys that differ in their last byte only, which FNV alone
// leaves in the order of that byte. The values are part of the compatibility promise: another hash
// would reorder every rollout in progress.
type digest uint64

const (
	fnvOffset digest = 14695981039346656037
	fnvPrime  digest = 1099511628211
)

func (d digest) raw(text string) digest {
	for i := range len(text) {
		d = (d ^ digest(text[i])) * fnvPrime
	}
	return d
}

func (d digest) field(text string) digest { return d.length(len(text)).raw(text) }

// length hashes the length that a field begins with.
func (d digest) length(length int) digest {
	n := uint32(length)
	for shift := 24; shift >= 0; shift -= 8 {
		d = (d ^ digest(byte(n>>shift))) * fnvPrime
	}
	return d
}

func (d digest) sum() uint64 {
	h := uint64(d)
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// orderHash computes the sort keys of one population: everything but the ids of its elements is
// fixed.
type orderHash struct {
	key    OrderKey
	legacy bool
	salt   string // version id, group id or empty; legacy: the version id, whatever the salt is set to
	rule   string // bracket rule id, for resource_bracket
}

// of returns the keys of n elements that differ only in their resource. What all have in common
// before the resource is hashed once. The rest is hashed four elements at a time, because every
// step of the hash waits for the one before.
func (h orderHash) of(n int, resource func(int) string, environment, deployment string) []uint64 {
	prefix := fnvOffset
	if !h.legacy {
		prefix = prefix.field("position/1").field(string(h.key)).field(h.salt)
	}
	keys := make([]uint64, n)
	for i := 0; i < n; {
		first := resource(i)
		own := prefix
		if !h.legacy {
			own = own.length(len(first))
		}
		if i+4 <= n {
			if b, c, d := resource(i+1), resource(i+2), resource(i+3); len(b) == len(first) && len(c) == len(first) && len(d) == len(first) {
				keys[i], keys[i+1], keys[i+2], keys[i+3] = rawFour(own, first, b, c, d)
				i += 4
				continue
			}
		}
		keys[i] = uint64(own.raw(first))
		i++
	}
	switch {
	case h.legacy && h.key == OrderByTarget:
		rawAll(keys, "-"+environment+"-"+deployment+h.salt)
	case h.legacy && h.key == OrderByBracket:
		rawAll(keys, h.rule)
	case h.key == OrderByBracket:
		rawAll(keys, encoded(h.rule))
	case h.key == OrderByTarget:
		rawAll(keys, encoded(environment)+encoded(deployment))
	}
	if !h.legacy {
		for i, key := range keys {
			keys[i] = digest(key).sum()
		}
	}
	return keys
}

// encoded returns the bytes that [digest.field] hashes for a field.
func encoded(text string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(text)))) + text
}

// rawFour continues one hash with each of four texts that are as long as the first.
func rawFour(hash digest, a, b, c, d string) (uint64, uint64, uint64, uint64) {
	w, x, y, z := hash, hash, hash, hash
	b, c, d = b[:len(a)], c[:len(a)], d[:len(a)]
	for i := range len(a) {
		w, x, y, z = (w^digest(a[i]))*fnvPrime, (x^digest(b[i]))*fnvPrime, (y^digest(c[i]))*fnvPrime, (z^digest(d[i]))*fnvPrime
	}
	return uint64(w), uint64(x), uint64(y), uint64(z)
}

// rawAll continues many hashes with one text.
func rawAll(keys []uint64, text string) {
	for ; len(keys) >= 4; keys = keys[4:] {
		a, b, c, d := keys[0], keys[1], keys[2], keys[3]
		for i := range len(text) {
			x, prime := uint64(text[i]), uint64(fnvPrime)
			a, b, c, d = (a^x)*prime, (b^x)*prime, (c^x)*prime, (d^x)*prime
		}
		keys[0], keys[1], keys[2], keys[3] = a, b, c, d
	}
	for i, key := range keys {
		keys[i] = uint64(digest(key).raw(text))
	}
}

// rank returns the position of each element: founders first, then those that joined after start, in
// the order in which they joined. Among founders, and among those that joined at one instant, the
// order is by priority descending, then hash, then id. So a late joiner never moves another element
// back. The ids must be distinct and given in ascending order, so that the index decides a tie as
// the ids would. Without places all elements are alike.
func rank(keys []uint64, places []place, start time.Time) []int32 {
	order := byHash(keys)
	if slices.ContainsFunc(places, func(p place) bool { return p.priority != 0 || p.joined.After(start) }) {
		joined := func(p place) time.Time {
			if p.joined.After(start) {
				return p.joined
			}
			return time.Time{}
		}
		slices.SortStableFunc(order, func(a, b ranked) int {
			pa, pb := places[a.index()], places[b.index()]
			return cmp.Or(joined(pa).Compare(joined(pb)), cmp.Compare(pb.priority, pa.priority))
		})
	}
	positions := make([]int32, len(keys))
	for position, e := range order {
		positions[e.index()] = int32(position)
	}
	return positions
}

// ranked is an element on its way to a position: the leading bits of its hash that are not the same
// for its whole bucket, and below them its index. In eight bytes it takes half the memory traffic
// of the whole hash beside the index; of a million hashes hardly two are alike in these bits.
type ranked uint64

func (e ranked) index() int32 { return int32(uint32(e)) }

// byHash returns the elements in the order of (hash, index). Hashes are spread evenly, so a count
// by their leading bits leaves a handful in each bucket to sort. Legacy hashes are not, and only
// make larger buckets.
func byHash(keys []uint64) []ranked {
	order := make([]ranked, len(keys))
	counted := max(0, bits.Len(uint(len(keys)))-2)
	shift := 64 - counted
	ends := make([]int32, 1<<counted+1)
	for _, key := range keys {
		ends[key>>shift+1]++
	}
	for i := 1; i < len(ends); i++ {
		ends[i] += ends[i-1]
	}
	for i, key := range keys {
		at := &ends[key>>shift]
		order[*at] = ranked(key<<counted&^math.MaxUint32 | uint64(i))
		*at++
	}
	compare := func(a, b ranked) int {
		if a>>32 != b>>32 {
			return cmp.Compare(a, b)
		}
		return cmp.Or(cmp.Compare(keys[a.index()], keys[b.index()]), cmp.Compare(a, b))
	}
	from := int32(0)
	for _, to := range ends[:len(ends)-1] {
		slices.SortFunc(order[from:to], compare)
		from = to
	}
	return order
}

// positions holds a position for each element. In many environments few of the resources are
// elements, and a list of all for each of them would cost the product.
type positions struct {
	list     []int32 // by element or, if elements is not nil, by its index there
	elements []int32 // ascending
	count    int     // of the elements
}

func (p *positions) of(element int32) int32 {
	if p.elements == nil {
		return p.list[element]
	}
	k, ranked := slices.BinarySearch(p.elements, element)
	if !ranked { // nobody asks; in the list of all it would be the same
		return 0
	}
	return p.list[k]
}

// positionsOf returns the positions of a roster in a rollout from start on.
func (w *work) positionsOf(rule *compiledRule, hash orderHash, roster *roster, start time.Time) positions {
	heads, size := roster.heads, len(w.resources)
	var keys []uint64
	if len(heads) > 0 { // targets that are ranked by target are of one environment and deployment
		first := w.id(heads[0])
		keys = hash.of(len(heads), func(k int) string { return w.resources[w.targets[heads[k]].resource].ID }, first.Environment, first.Deployment)
	}
	ranks := rank(keys, roster.places, start)
	if hash.key == OrderByTarget {
		if size = len(w.pairs[w.pairOf(&w.targets[heads[0]])].targets); size == len(ranks) {
			return positions{list: ranks, count: len(ranks)}
		}
	}
	if len(heads) < size/8 {
		elements := make([]int32, len(heads))
		for k, i := range heads {
			elements[k] = w.element(rule, i)
		}
		return positions{ranks, elements, len(ranks)}
	}
	list := make([]int32, size)
	for k, i := range heads {
		list[w.element(rule, i)] = ranks[k]
	}
	return positions{list: list, count: len(ranks)}
}

// place is what decides the position of one element besides its hash.
type place struct {
	priority int
	joined   time.Time // zero: from the start
}

// merge returns the place of a resource whose targets are ranked as one: the higher priority and
// the earlier arrival.
func (p place) merge(other place) place {
	if other.joined.Before(p.joined) {
		p.joined = other.joined
	}
	p.priority = max(p.priority, other.priority)
	return p
}
