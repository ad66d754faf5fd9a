package staged

// trie is a persistent map; nil is empty. Each node holds one key, and has a child for each value
// of the next four bits of the hash of a key, which the caller gives. Keys with equal hashes form a
// chain. Most runs and stages have none, so the index and the records have no room for what is in
// one.
type trie[K comparable, V any] struct {
	key   K
	value V
	kids  [16]*trie[K, V]
}

// find returns the node of a key, or nil.
func (t *trie[K, V]) find(key K, hash uint64) *trie[K, V] {
	for t != nil && t.key != key {
		t, hash = t.kids[hash&15], hash>>4
	}
	return t
}

// put returns a map in which the value of a key is replaced, and leaves t unchanged.
func (t *trie[K, V]) put(key K, hash uint64, value V) *trie[K, V] {
	if t == nil {
		return &trie[K, V]{key: key, value: value}
	}
	copied := *t
	if t.key == key {
		copied.value = value
	} else {
		copied.kids[hash&15] = t.kids[hash&15].put(key, hash>>4, value)
	}
	return &copied
}
