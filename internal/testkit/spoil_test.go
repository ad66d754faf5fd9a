package testkit_test

import (
	"bytes"
	"encoding/json"
	"math/rand"
	"testing"

	"github.com/tranche-dev/tranche/internal/testkit"
)

// TestSpoil: what is spoilt is a document, the same for the same source, and of every kind of
// change there are some.
func TestSpoil(t *testing.T) {
	const text = `{"list":[1,2,[true,"b"]],"name":"a","time":"2026-03-10T12:00:00Z","whole":{"inner":null}}`
	seen := map[string]bool{}
	for seed := range int64(500) {
		got := testkit.Spoil(rand.New(rand.NewSource(seed)), []byte(text), 1)
		if again := testkit.Spoil(rand.New(rand.NewSource(seed)), []byte(text), 1); !bytes.Equal(got, again) {
			t.Fatalf("%s, and then %s", got, again)
		}
		var document any
		if err := json.Unmarshal(got, &document); err != nil {
			t.Fatalf("%s: %v", got, err)
		}
		seen[string(got)] = true
	}
	for _, want := range []string{
		`{"list":[1,2,[true,"b"]],"time":"2026-03-10T12:00:00Z","whole":{"inner":null}}`,
		`{"list":[1,2,[true,"b"],2],"name":"a","time":"2026-03-10T12:00:00Z","whole":{"inner":null}}`,
		`{"list":[1,2,[true]],"name":"a","time":"2026-03-10T12:00:00Z","whole":{"inner":null}}`,
		`{"list":[1,2,[true,"b"]],"name":null,"time":"2026-03-10T12:00:00Z","whole":{"inner":null}}`,
		`{"list":[1,9223372036854775807,[true,"b"]],"name":"a","time":"2026-03-10T12:00:00Z","whole":{"inner":null}}`,
		`{"list":[1,2,[true,"b"]],"name":"2026-03-10T12:00:00Z","time":"2026-03-10T12:00:00Z","whole":{"inner":null}}`,
	} {
		if !seen[want] {
			t.Errorf("never %s", want)
		}
	}
	if got := testkit.Spoil(rand.New(rand.NewSource(1)), []byte(text), 0); len(got) != len(text) {
		t.Errorf("no change makes %s", got)
	}
	if got := testkit.Spoil(rand.New(rand.NewSource(1)), []byte(`7`), 3); string(got) != `7` {
		t.Errorf("a document without parts becomes %s", got)
	}
}
