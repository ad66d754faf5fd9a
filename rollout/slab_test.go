package rollout

import "testing"

// TestPieces: a list in pieces is a list, also where a piece is full.
func TestPieces(t *testing.T) {
	var list chunks[int32]
	for n := range int32(3*chunkLength + 1) {
		if got := list.len(); got != int(n) {
			t.Fatalf("%d items of %d", got, n)
		}
		if own := list.push(-n); *own != -n || own != list.at(n) {
			t.Fatalf("item %d is at another place than push says", n)
		}
		for _, k := range [...]int32{0, n / 2, n} {
			if got := *list.at(k); got != -k {
				t.Fatalf("item %d of %d is %d", k, n+1, got)
			}
		}
	}
}
