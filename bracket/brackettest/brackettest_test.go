package brackettest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/bracket/brackettest"
)

func TestMemoryStore(t *testing.T) {
	brackettest.Run(t, func(*testing.T) bracket.Store { return new(bracket.MemoryStore) })
}

// TestMemoryStoreCancelled: with a cancelled context the answer is that of the context, whatever
// the key: MemoryStore looked at the key first.
func TestMemoryStoreCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var store bracket.MemoryStore
	for _, key := range []string{"k", "", "\xff"} {
		_, _, loaded := store.Load(ctx, key)
		_, saved := store.Save(ctx, key, nil, 0)
		_, listed := store.List(ctx, key)
		for method, err := range map[string]error{"Load": loaded, "Save": saved, "Delete": store.Delete(ctx, key, 1), "List": listed} {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s(%q): %v", method, key, err)
			}
		}
	}
}

// A FaultStore that injects nothing is a conforming store.
func TestFaultStoreWithoutFaults(t *testing.T) {
	brackettest.Run(t, func(*testing.T) bracket.Store { return brackettest.NewFaultStore(new(bracket.MemoryStore), nil) })
}

func TestFaults(t *testing.T) {
	ctx := context.Background()
	rows := []struct {
		name      string
		fault     brackettest.Fault
		answer    error
		afterward string // what the store holds after Save("k", "two") met the fault
		restarted string // and after one more write to another key and a restart
		why       string
	}{
		{"none", brackettest.None, nil, "two", "two", "the control"},
		{"lost save", brackettest.Lose, brackettest.ErrInjected, "one", "one", "the request never arrived"},
		{"lost answer", brackettest.LoseAnswer, brackettest.ErrInjected, "two", "two", "the caller cannot know that it was applied"},
		{"conflict", brackettest.Conflict, bracket.ErrConflict, "one", "one", "another writer was faster"},
		{"repeated", brackettest.Repeat, bracket.ErrConflict, "two", "two", "the second arrival meets the revision that the first one wrote"},
		{"reordered", brackettest.Delay, brackettest.ErrInjected, "one", "two", "it arrives after a later write"},
		{"crash", brackettest.Crash, brackettest.ErrCrashed, "one", "one", "the process died before it"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			inner := new(bracket.MemoryStore)
			revision, err := inner.Save(ctx, "k", []byte("one"), 0)
			if err != nil || row.why == "" {
				t.Fatal(err)
			}
			faulty := brackettest.NewFaultStore(inner, func(c brackettest.Call) brackettest.Fault {
				if c.Write == 0 && c.Method == "Save" {
					return row.fault
				}
				return brackettest.None
			})
			if _, err := faulty.Save(ctx, "k", []byte("two"), revision); !errors.Is(err, row.answer) {
				t.Errorf("Save: %v, want %v", err, row.answer)
			}
			if got, _, _ := inner.Load(ctx, "k"); string(got) != row.afterward {
				t.Errorf("the store holds %q, want %q", got, row.afterward)
			}
			_, err = faulty.Save(ctx, "other", nil, 0)
			if want := row.fault == brackettest.Crash; errors.Is(err, brackettest.ErrCrashed) != want || faulty.Crashed() != want {
				t.Errorf("the next write: %v, crashed %v", err, faulty.Crashed())
			}
			faulty.Restart(nil)
			if got, _, err := faulty.Load(ctx, "k"); string(got) != row.restarted || err != nil {
				t.Errorf("after the restart %q, %v, want %q", got, err, row.restarted)
			}
		})
	}
}

// TestChooseByContent: a choosing function may look at what its own client would read, to lose the
// first write after a key exists, say.
func TestChooseByContent(t *testing.T) {
	var f *brackettest.FaultStore
	f = brackettest.NewFaultStore(new(bracket.MemoryStore), func(c brackettest.Call) brackettest.Fault {
		if c.Method != "Save" || f.Crashed() {
			return brackettest.None
		}
		if _, _, err := f.Load(t.Context(), "k"); err == nil {
			return brackettest.Lose
		}
		return brackettest.None
	})
	revision, err := f.Save(t.Context(), "k", []byte("1"), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Save(t.Context(), "k", []byte("2"), revision); !errors.Is(err, brackettest.ErrInjected) {
		t.Errorf("the second write: %v, want %v", err, brackettest.ErrInjected)
	}
}

func TestStaleReads(t *testing.T) {
	ctx := context.Background()
	inner := new(bracket.MemoryStore)
	stale := false
	faulty := brackettest.NewFaultStore(inner, func(brackettest.Call) brackettest.Fault {
		if stale {
			return brackettest.Stale
		}
		return brackettest.None
	})
	if _, _, err := faulty.Load(ctx, "later"); !errors.Is(err, bracket.ErrNotFound) {
		t.Fatal(err)
	}
	first, _ := faulty.Save(ctx, "k", []byte("one"), 0)
	second, _ := inner.Save(ctx, "k", []byte("two"), first)
	inner.Save(ctx, "later", []byte("new"), 0)
	stale = true
	value, revision, err := faulty.Load(ctx, "k")
	if string(value) != "one" || revision != first || err != nil {
		t.Errorf("stale Load: %q, %d, %v", value, revision, err)
	}
	if _, _, err := faulty.Load(ctx, "later"); !errors.Is(err, bracket.ErrNotFound) {
		t.Errorf("stale Load of a key that was absent: %v", err)
	}
	if list, err := faulty.List(ctx, ""); len(list) != 1 || string(list[0].Value) != "one" || err != nil {
		t.Errorf("stale List: %v, %v", list, err)
	}
	if _, err := faulty.Save(ctx, "k", []byte("three"), revision); !errors.Is(err, bracket.ErrConflict) {
		t.Errorf("a save from a stale read: %v, want ErrConflict", err)
	}
	if err := inner.Delete(ctx, "k", second); err != nil {
		t.Fatal(err)
	}
	for prefix, want := range map[string]int{"": 1, "k": 1, "l": 0} {
		if list, err := faulty.List(ctx, prefix); len(list) != want || want > 0 && (list[0].Key != "k" || string(list[0].Value) != "one" || list[0].Revision != first) || err != nil {
			t.Errorf("stale List of %q after a delete: %v, %v", prefix, list, err)
		}
	}
	second, _ = inner.Save(ctx, "k", []byte("two"), 0)
	stale = false
	if value, revision, _ := faulty.Load(ctx, "k"); string(value) != "two" || revision != second {
		t.Errorf("fresh Load: %q, %d", value, revision)
	}
	if list, _ := faulty.List(ctx, ""); len(list) != 2 {
		t.Errorf("fresh List: %v", list)
	}
}

func TestLostReadsAndCrashAfter(t *testing.T) {
	ctx := context.Background()
	lost := brackettest.NewFaultStore(new(bracket.MemoryStore), func(brackettest.Call) brackettest.Fault { return brackettest.Lose })
	if _, _, err := lost.Load(ctx, "k"); !errors.Is(err, brackettest.ErrInjected) {
		t.Errorf("Load: %v", err)
	}
	if _, err := lost.List(ctx, "k"); !errors.Is(err, brackettest.ErrInjected) {
		t.Errorf("List: %v", err)
	}
	for n := range 4 {
		inner := new(bracket.MemoryStore)
		faulty := brackettest.NewFaultStore(inner, brackettest.CrashAfter(n))
		for _, key := range []string{"a", "b", "c"} {
			if _, _, err := faulty.Load(ctx, key); err == nil {
				t.Errorf("Load of an absent key succeeds")
			}
			if _, err := faulty.Save(ctx, key, nil, 0); err != nil && !errors.Is(err, brackettest.ErrCrashed) {
				t.Error(err)
			}
		}
		if list, _ := inner.List(ctx, ""); len(list) != min(n, 3) {
			t.Errorf("CrashAfter(%d) let %d writes through", n, len(list))
		}
		if _, err := faulty.List(ctx, ""); errors.Is(err, brackettest.ErrCrashed) != (n < 3) {
			t.Errorf("CrashAfter(%d): List after the crash: %v", n, err)
		}
	}
	again := brackettest.NewFaultStore(new(bracket.MemoryStore), brackettest.CrashAfter(2)) // a process that crashes, and crashes once more
	for _, lives := range []int{2, 1} {
		for n := 0; ; n++ {
			if _, err := again.Save(ctx, fmt.Sprint(lives, n), nil, 0); err != nil {
				if n != lives {
					t.Errorf("%d writes arrived before the crash, want %d", n, lives)
				}
				break
			}
		}
		again.Restart(brackettest.CrashAfter(1))
	}
}

// TestWhatAClientRemembers: stale answers are the first that this client has seen of each key, by
// whatever call, and they are its own.
func TestWhatAClientRemembers(t *testing.T) {
	ctx := context.Background()
	inner := new(bracket.MemoryStore)
	fault := brackettest.None
	var calls []brackettest.Call
	choose := func(c brackettest.Call) brackettest.Fault { calls = append(calls, c); return fault }
	faulty := brackettest.NewFaultStore(inner, choose)
	save := func(key, value string) int64 {
		_, revision, _ := inner.Load(ctx, key)
		next, err := inner.Save(ctx, key, []byte(value), revision)
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	load := func(key, want string, revision int64) {
		t.Helper()
		value, got, err := faulty.Load(ctx, key)
		if string(value) != want || got != revision || err != nil {
			t.Errorf("Load(%s): %q at %d, %v, want %q at %d", key, value, got, err, want, revision)
		}
		clear(value) // it is the caller's
	}
	loaded, listed := save("a", "one"), save("c", "one")
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, _, err := faulty.Load(cancelled, "d"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	load("a", "one", loaded)
	if list, err := faulty.List(ctx, "c"); len(list) != 1 || err != nil {
		t.Fatal(list, err)
	} else {
		clear(list[0].Value)
	}
	if _, _, err := faulty.Load(ctx, "b"); !errors.Is(err, bracket.ErrNotFound) {
		t.Error(err)
	}
	save("a", "two")
	save("b", "new")
	unseen := save("d", "new")
	if _, revision, _ := inner.Load(ctx, "c"); inner.Delete(ctx, "c", revision) != nil {
		t.Fatal("c is still there")
	}
	fault = brackettest.Stale
	for range 2 { // whatever was done to the first answer
		load("a", "one", loaded)
		load("c", "one", listed)
		list, err := faulty.List(ctx, "")
		got := ""
		for _, e := range list {
			got += fmt.Sprintf("%s=%s@%d ", e.Key, e.Value, e.Revision)
			clear(e.Value)
		}
		if want := fmt.Sprintf("a=one@%d c=one@%d d=new@%d ", loaded, listed, unseen); got != want || err != nil {
			t.Errorf("List: %s, %v, want %s", got, err, want)
		}
	}
	faulty.Restart(choose)
	load("a", "two", loaded+2) // revisions are counted for the whole of the store
	if last := calls[len(calls)-1]; last != (brackettest.Call{Method: "Load", Key: "a"}) {
		t.Errorf("asked about %+v", last)
	}
	fault = brackettest.LoseAnswer
	_, _, err := faulty.Load(ctx, "a")
	_, err2 := faulty.List(ctx, "a")
	if !errors.Is(err, brackettest.ErrInjected) || !errors.Is(err2, brackettest.ErrInjected) {
		t.Errorf("a lost answer: %v, %v", err, err2)
	}
}

// TestDelayedCallsArriveOnce: a call that was delayed arrives with the next write, or with a
// restart, and never again.
func TestDelayedCallsArriveOnce(t *testing.T) {
	ctx := context.Background()
	for _, row := range []struct {
		why    string
		arrive func(*brackettest.FaultStore) error
	}{
		{"with the next write", func(f *brackettest.FaultStore) error { _, err := f.Save(ctx, "other", nil, 0); return err }},
		{"with the next write that arrives", func(f *brackettest.FaultStore) error {
			for _, key := range []string{"lost", "refused", "delayed"} {
				if _, err := f.Save(ctx, key, nil, 0); err == nil {
					return fmt.Errorf("the write %s arrived", key)
				}
			}
			if list, err := f.List(ctx, ""); len(list) > 0 || err != nil {
				return fmt.Errorf("%v are there before any write arrived: %v", list, err)
			}
			_, err := f.Save(ctx, "other", nil, 0)
			return err
		}},
		{"with a restart", func(f *brackettest.FaultStore) error { f.Restart(nil); return nil }},
	} {
		inner := new(bracket.MemoryStore)
		faulty := brackettest.NewFaultStore(inner, func(c brackettest.Call) brackettest.Fault {
			switch {
			case c.Write == 0 && c.Key == "k", c.Key == "delayed":
				return brackettest.Delay
			case c.Key == "lost":
				return brackettest.Lose
			case c.Key == "refused":
				return brackettest.Conflict
			}
			return brackettest.None
		})
		value := []byte("one")
		if _, err := faulty.Save(ctx, "k", value, 0); !errors.Is(err, brackettest.ErrInjected) {
			t.Fatal(err)
		}
		clear(value) // the caller's again
		if err := row.arrive(faulty); err != nil {
			t.Fatal(err)
		}
		got, revision, err := inner.Load(ctx, "k")
		if string(got) != "one" || err != nil {
			t.Errorf("%s: the store holds %q, %v", row.why, got, err)
		}
		if err := inner.Delete(ctx, "k", revision); err != nil {
			t.Fatal(err)
		}
		if _, err := faulty.Save(ctx, "more", nil, 0); err != nil {
			t.Fatal(err)
		}
		faulty.Restart(nil)
		if _, _, err := inner.Load(ctx, "k"); !errors.Is(err, bracket.ErrNotFound) {
			t.Errorf("%s: it has arrived twice: %v", row.why, err)
		}
	}
}

// TestCrashAfterDeletes: a delete is a write like a save, and after a crash nothing is answered.
func TestCrashAfterDeletes(t *testing.T) {
	ctx := context.Background()
	for n, want := range map[int]string{1: "the delete", 2: "the save behind it"} {
		faulty := brackettest.NewFaultStore(new(bracket.MemoryStore), brackettest.CrashAfter(n))
		revision, err := faulty.Save(ctx, "k", nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		got := "nothing"
		if err := faulty.Delete(ctx, "k", revision); errors.Is(err, brackettest.ErrCrashed) {
			got = "the delete"
		} else if _, err := faulty.Save(ctx, "k", nil, 0); errors.Is(err, brackettest.ErrCrashed) {
			got = "the save behind it"
		}
		if _, _, err := faulty.Load(ctx, "k"); got != want || !errors.Is(err, brackettest.ErrCrashed) {
			t.Errorf("CrashAfter(%d) crashes at %s, want %s; then Load: %v", n, got, want, err)
		}
	}
}
