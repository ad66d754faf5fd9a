package brackettest

import (
	"bytes"
	"context"
	"errors"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/bracket"
)

// machine runs random calls against the store and against the reference. Revisions need not be
// equal: the same calls must succeed and fail, and revisions must grow.
func machine(t *rapid.T, store bracket.Store, prefix string) {
	ctx := context.Background()
	var reference bracket.MemoryStore
	type pair struct{ real, model int64 }
	seen := map[string][]pair{} // revisions that a key has had, oldest first
	keys := rapid.SampledFrom([]string{prefix + "a", prefix + "a/b", prefix + "ä"})
	draw := func(key string) pair { // often the key's present revision: with any other, nearly every call conflicts
		known := append([]pair{{0, 0}}, seen[key]...)
		if rapid.Bool().Draw(t, "any") {
			return known[rapid.IntRange(0, len(known)-1).Draw(t, "revision")]
		}
		if _, _, err := reference.Load(ctx, key); err != nil {
			return known[0]
		}
		return known[len(known)-1]
	}
	same := func(what string, real, model error) {
		for _, sentinel := range []error{bracket.ErrConflict, bracket.ErrNotFound} {
			if errors.Is(real, sentinel) != errors.Is(model, sentinel) || (real == nil) != (model == nil) {
				t.Fatalf("%s: %v, the reference says %v", what, real, model)
			}
		}
	}
	t.Repeat(map[string]func(*rapid.T){
		"save": func(t *rapid.T) {
			key, value := keys.Draw(t, "key"), rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(t, "value")
			at := draw(key)
			r1, err1 := store.Save(ctx, key, value, at.real)
			r2, err2 := reference.Save(ctx, key, value, at.model)
			same("Save", err1, err2)
			if err1 == nil {
				if n := len(seen[key]); n > 0 && r1 <= seen[key][n-1].real {
					t.Fatalf("Save: revision %d after %d", r1, seen[key][n-1].real)
				}
				seen[key] = append(seen[key], pair{r1, r2})
			}
		},
		"delete": func(t *rapid.T) {
			key := keys.Draw(t, "key")
			at := draw(key)
			same("Delete", store.Delete(ctx, key, at.real), reference.Delete(ctx, key, at.model))
		},
		"load": func(t *rapid.T) {
			key := keys.Draw(t, "key")
			v1, r1, err1 := store.Load(ctx, key)
			v2, r2, err2 := reference.Load(ctx, key)
			same("Load", err1, err2)
			if n := len(seen[key]); err1 == nil && (!bytes.Equal(v1, v2) || seen[key][n-1] != pair{r1, r2}) {
				t.Fatalf("Load: %q at %d, the reference says %q at %d", v1, r1, v2, r2)
			}
		},
		"list": func(t *rapid.T) {
			from := prefix + rapid.SampledFrom([]string{"", "a", "a/", "zzz"}).Draw(t, "prefix")
			l1, err1 := store.List(ctx, from)
			l2, err2 := reference.List(ctx, from)
			same("List", err1, err2)
			if len(l1) != len(l2) {
				t.Fatalf("List: %d entries, the reference says %d", len(l1), len(l2))
			}
			for i := range l1 {
				if l1[i].Key != l2[i].Key || !bytes.Equal(l1[i].Value, l2[i].Value) {
					t.Fatalf("List: entry %d is %q, the reference says %q", i, l1[i].Key, l2[i].Key)
				}
				if had := seen[l1[i].Key]; l1[i].Revision != had[len(had)-1].real {
					t.Fatalf("List: %q is at revision %d, saved was %d", l1[i].Key, l1[i].Revision, had[len(had)-1].real)
				}
			}
		},
	})
}
