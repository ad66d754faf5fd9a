package concurrency

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testkit"
)

func FuzzParseLimit(f *testing.F) {
	for _, s := range []string{"0", "5", "20%", "1000%", "1001%", "2147483648", "", "-1", "05", "%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ParseLimit(text)
		if err != nil {
			var e *FieldError
			if !errors.As(err, &e) || !l.IsZero() {
				t.Fatalf("%q: %v, %v", text, l, err)
			}
			return
		}
		if l.String() != text {
			t.Fatalf("%q reads as %v", text, l)
		}
		raw, err := json.Marshal(l)
		var back Limit
		if err2 := json.Unmarshal(raw, &back); err != nil || err2 != nil || back != l {
			t.Fatalf("%q: %s, %v, %v", text, raw, err, err2)
		}
	})
}

func FuzzParseRule(f *testing.F) {
	f.Add([]byte(`{"groupSelector":"x","limitType":"percentage","limitValue":20}`))
	f.Add([]byte(`{"groupSelector":"x","limit":"20%","rounding":"floor","groupBy":"z","maxActiveKeys":1,"onStuck":"quarantine","quarantineAllowance":1}`))
	f.Add([]byte(`{"groupSelector":"x","limit":1,"rate":{"limit":"5%","periodSeconds":3600}}`))
	f.Add([]byte(`{"limit":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ParseRule(data)
		if err != nil {
			return
		}
		if r.Max().IsZero() || r.Validate() != nil || r.ValidateShared(r) != nil {
			t.Fatalf("%s: %+v", data, r)
		}
		again(t, r, ParseRule)
	})
}

func FuzzParseRecord(f *testing.F) {
	f.Add([]byte(`{"schema":1,"key":"p","revision":3,"nextToken":2,"leases":[{"pool":"p","resource":"n1","group":"g","token":1,"state":"quarantined","since":"2026-03-10T09:00:00Z","progressAt":"2026-03-10T09:00:00Z","reason":"stuck"}]}`))
	f.Add([]byte(`{"schema":1,"key":"p","revision":0,"nextToken":1,"leases":[]}`))
	f.Add([]byte(`{"schema":1,"key":"p","revision":0,"nextToken":1,"leases":[],"begun":[{"at":"2026-03-10T09:00:00Z","count":2},{"at":"2026-03-10T09:00:01Z","count":1}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ParseRecord(data)
		if err != nil {
			return
		}
		again(t, r, ParseRecord)
		if _, err := Plan(Snapshot{Pools: []Pool{{Key: r.Key, Limit: Count(1), Total: 1, Rate: Rate{Count(1), 60}, Record: r}}}, []Candidate{{Resource: "n", Needs: []int32{0}}}, epoch); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
	})
}

// again: what was read is written and read as the same.
func again[T any](t *testing.T, v T, parse func([]byte) (T, error)) {
	first, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	back, err := parse(first)
	if err != nil {
		t.Fatalf("%s: %v", first, err)
	}
	if second, err := json.Marshal(back); err != nil || !bytes.Equal(first, second) {
		t.Fatalf("%s became %s, %v", first, second, err)
	}
}

func FuzzQueue(f *testing.F) {
	f.Add(testkit.Bytes(32768))
	f.Add(testkit.Bytes(8192)[1:])
	f.Fuzz(rapid.MakeFuzz(propQueue(map[string]int{})))
}

func FuzzStore(f *testing.F) {
	f.Add(testkit.Bytes(4096))
	f.Fuzz(rapid.MakeFuzz(propStore(map[string]int{})))
}
