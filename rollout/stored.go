package rollout

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/textkey"
)

// stored is the state as a store has it, with the revision of each record by key.
type stored struct {
	state     State
	revisions map[string]int64
	before    readings // of the previous load
	readings  readings
	sharing   *sharing // of what is decoded now
}

// readings are what was read, by key. Most records have not changed when they are read again, and
// decoding a record takes many times as long as comparing it. The values are compared, because
// revisions may begin again after a store was restored.
type readings map[string]reading

type reading struct {
	value  []byte
	record any
}

// read decodes an entry, unless its value is that of the previous load. Records are immutable, so
// many states may share one.
func read[T any](s *stored, entry bracket.Entry, decode func([]byte) (T, error), keyOf func(T) string) (T, error) {
	if before, known := s.before[entry.Key]; known && bytes.Equal(before.value, entry.Value) {
		s.readings[entry.Key] = before
		return before.record.(T), nil // the prefix of a key says what it holds
	}
	record, err := decodeUnder(entry.Key, entry.Value, decode, keyOf)
	if err == nil {
		s.readings[entry.Key] = reading{entry.Value, record}
	}
	return record, err
}

// decodeUnder decodes the record that is stored under a key. One that has another key is refused: the
// next change of it would be saved under its own key, beside it.
func decodeUnder[T any](key string, value []byte, decode func([]byte) (T, error), keyOf func(T) string) (T, error) {
	record, err := decode(value)
	if err == nil && keyOf(record) != key {
		err = fmt.Errorf("the record belongs under the key %s", keyOf(record))
	}
	if err != nil {
		err = fmt.Errorf("%s: %v", key, err) // not wrapped: a FieldError means a fault in what the host was given
	}
	return record, err
}

// PoolRecordKey is the store key of a pool's record, which [concurrency.ParseRecord] reads. A host
// whose jobs live in the same store reads that record in the transaction that creates a job, and asks
// [Start.Held] whether the start still has its slot.
func PoolRecordKey(pool string) string { return textkey.Join("pool", pool) }

// RolloutRecordKey is the store key of a rollout's record.
func RolloutRecordKey(r RolloutRecord) string {
	return textkey.Join("rollout", r.Rule, r.Environment, r.Deployment, r.Version, r.Group)
}

func poolKey(r concurrency.Record) string { return PoolRecordKey(r.Key) }

func groupKey(r *bracket.GroupRecord) string { return bracket.GroupKey(r.Rule, r.Environment) }

func executionKey(r *bracket.ExecutionRecord) string { return bracket.ExecutionKey(r.Rule, r.Resource) }

func executionKeys() string { return strings.TrimSuffix(bracket.ExecutionKey("", ""), "/") }

// recordKind is the records whose keys share a prefix.
type recordKind struct {
	prefix string
	add    func(s *stored, entry bracket.Entry) error
}

// recordKinds lists the kinds in the order in which they must be read.
func recordKinds() []recordKind {
	return []recordKind{
		{"pool/", func(s *stored, entry bracket.Entry) error {
			record, err := read(s, entry, s.decodePool, poolKey)
			record.Revision = uint64(entry.Revision)
			s.state.Pools = append(s.state.Pools, record)
			return err
		}},
		{strings.TrimSuffix(bracket.GroupKey("", ""), "/"), func(s *stored, entry bracket.Entry) error {
			record, err := read(s, entry, decode[bracket.GroupRecord], groupKey)
			s.state.Brackets = append(s.state.Brackets, record)
			if err == nil {
				s.sharing.group(record)
			}
			return err
		}},
		{executionKeys(), func(s *stored, entry bracket.Entry) error {
			record, err := read(s, entry, s.decodeExecution, executionKey)
			s.state.Executions = append(s.state.Executions, record)
			return err
		}},
		{"rollout/", func(s *stored, entry bracket.Entry) error {
			record, err := read(s, entry, decodeRollout, RolloutRecordKey)
			s.state.Rollouts = append(s.state.Rollouts, record)
			return err
		}},
	}
}

// decode calls the record's own decoder: encoding/json would read the value twice more. It returns
// no nil pointer for a null, which the record refuses as it refuses an empty one.
func decode[T any, P interface {
	*T
	json.Unmarshaler
}](value []byte) (*T, error) {
	record := new(T)
	err := P(record).UnmarshalJSON(value)
	return record, err
}

func (s *stored) decodePool(value []byte) (concurrency.Record, error) {
	record, err := concurrency.ParseRecord(value)
	if err == nil {
		s.sharing.pool(record)
	}
	return record, err
}

func (s *stored) decodeExecution(value []byte) (*bracket.ExecutionRecord, error) {
	record, err := decode[bracket.ExecutionRecord](value)
	if err == nil {
		s.sharing.execution(record)
	}
	return record, err
}

func decodeRollout(value []byte) (RolloutRecord, error) {
	record, err := decode[RolloutRecord](value)
	if err == nil {
		err = record.validate()
	}
	return *record, err
}

// write is one record to save or, without a value, to delete.
type write struct {
	key   string
	value []byte
}

// writing collects writes.
type writing struct {
	list   []write
	failed error // of the first record that cannot be encoded
}

func (w *writing) put(key string, record any) {
	value, err := json.Marshal(record)
	if err != nil && w.failed == nil {
		w.failed = fmt.Errorf("%s: %w", key, err)
	}
	w.list = append(w.list, write{key, value})
}

// written are writes that are done.
type written []write

// of returns those events of a plan whose effect is in the records written, so that no later plan
// reports them again.
func (w written) of(events []Event) (list []Event) {
	keys := make(map[string]bool, len(w))
	for _, one := range w {
		keys[one.key] = true
	}
	for _, e := range events {
		key := bracket.GroupKey(e.Rule, e.Environment)
		if e.Resource != "" {
			key = bracket.ExecutionKey(e.Rule, e.Resource)
		}
		if keys[key] {
			list = append(list, e)
		}
	}
	return list
}

// passOn puts events that were saved before in front of others. An event that is in both lists,
// because it was saved only in part, is reported once.
func passOn(before, events []Event) []Event {
	if len(before) == 0 {
		return events
	}
	again := make(map[Event]bool, len(events))
	for _, e := range events {
		again[e] = true
	}
	return append(slices.DeleteFunc(before, func(e Event) bool { return again[e] }), events...)
}

// writes lists what has to be written for the next state, in an order that may be interrupted after
// any write: groups, rollouts, executions that ended, leases, executions that began or go on. A
// lease is given back only after the end of its execution is saved: another planner may have merged
// a newer group into the execution meanwhile, and then that save conflicts and the lease stays. A
// lease is taken before the execution that needs it is saved. The next plan repairs an
// interruption: it offers again what was claimed and never started, if the pools that were not
// reached still have a place for it, and it releases the leases of what has ended. The record of a
// family comes after the pools whose leases it confirms, and the first time before them as well.
func (s *stored) writes(next State, families map[string]*compiledRule) ([]write, error) {
	var w writing
	for _, record := range changed(s.state.Brackets, next.Brackets) {
		w.put(groupKey(record), record)
	}
	for _, record := range next.Rollouts {
		if key := RolloutRecordKey(record); s.revisions[key] == 0 {
			w.put(key, record)
		}
	}
	executions := changed(s.state.Executions, next.Executions)
	for _, record := range executions {
		if record.Open == nil {
			w.put(executionKey(record), record)
		}
	}
	for _, ended := range s.replaced(executions) {
		w.put(executionKey(ended), ended)
	}
	for _, record := range next.Pools {
		if families[record.Key] != nil {
			if first, is := s.first(record); is {
				w.put(PoolRecordKey(first.Key), first)
			}
		}
	}
	for _, family := range [...]bool{false, true} { // a planner that reads the record of a family sees the leases that it confirms
		for _, record := range next.Pools {
			if (families[record.Key] != nil) == family && recordChanged(record, s.state.Pools) {
				w.put(PoolRecordKey(record.Key), record)
			}
		}
	}
	for _, record := range executions {
		if record.Open != nil {
			w.put(executionKey(record), record)
		}
	}
	return append(w.list, s.forgotten(next)...), w.failed
}

// asRead returns the writes that save records of executions and pools unchanged. keys are
// ascending.
func (s *stored) asRead(keys []string) ([]write, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	var w writing
	put := func(key string, record any) {
		if _, listed := slices.BinarySearch(keys, key); listed {
			w.put(key, record)
		}
	}
	for _, record := range s.state.Executions {
		put(executionKey(record), record)
	}
	for _, record := range s.state.Pools {
		put(PoolRecordKey(record.Key), record)
	}
	return w.list, w.failed
}

// first returns the record of a family for the time before its first confirmed start. It confirms
// the leases that exist by then, so that a lease that is claimed later and never confirmed can be
// told from those claimed before the list was kept. The second result is false if the family has a
// list already, or needs none.
func (s *stored) first(record concurrency.Record) (first concurrency.Record, is bool) {
	first = concurrency.NewRecord(record.Key)
	if k, known := poolAt(s.state.Pools, record.Key); known {
		first = s.state.Pools[k]
	}
	if first.Confirmed != nil || record.Confirmed == nil {
		return first, false
	}
	claimed := map[concurrency.Confirmation]bool{}
	for _, pool := range poolsOf(s.state.Pools, record.Key) {
		for _, lease := range pool.Leases {
			claimed[concurrency.Confirmation{Pool: lease.Pool, Token: lease.Token}] = true
		}
	}
	first.Confirmed = slices.DeleteFunc(slices.Clone(record.Confirmed), func(c concurrency.Confirmation) bool { return !claimed[c] })
	return first, true
}

// changed leaves out the records that were there before. It compares by identity: records are
// immutable.
func changed[T any](before, next []*T) []*T {
	kept := make(map[*T]bool, len(before))
	for _, record := range before {
		kept[record] = true
	}
	return slices.DeleteFunc(slices.Clone(next), func(record *T) bool { return kept[record] })
}

// replaced returns the ends of executions on whose resource another execution of the rule begins in
// the same plan. The record with the new execution is written after the slots, which others may
// have by then.
func (s *stored) replaced(changed []*bracket.ExecutionRecord) []*bracket.ExecutionRecord {
	before := make(map[string]*bracket.Execution, len(s.state.Executions))
	for _, record := range s.state.Executions {
		before[executionKey(record)] = record.Open
	}
	var list []*bracket.ExecutionRecord
	for _, record := range changed {
		open := before[executionKey(record)]
		if open != nil && record.Open != nil && record.Open.Group != open.Group { // an execution that merges keeps its group
			ended := *record
			ended.Open = nil
			list = append(list, &ended)
		}
	}
	return list
}

// poolAt returns the index of a pool's record, or where it would be and false if there is none.
func poolAt(records []concurrency.Record, key string) (int, bool) {
	return slices.BinarySearchFunc(records, key, func(r concurrency.Record, key string) int { return strings.Compare(r.Key, key) })
}

// poolsOf returns the records of the pools of a family.
func poolsOf(records []concurrency.Record, family string) []concurrency.Record {
	prefix := family + "/"
	from, _ := poolAt(records, prefix)
	records = records[from:]
	to := slices.IndexFunc(records, func(r concurrency.Record) bool { return !strings.HasPrefix(r.Key, prefix) })
	if to < 0 {
		return records
	}
	return records[:to]
}

func comparePools(a, b concurrency.Record) int { return strings.Compare(a.Key, b.Key) }

// recordChanged compares by identity: records are immutable values that share their leases until
// they change.
func recordChanged(record concurrency.Record, old []concurrency.Record) bool {
	k, known := poolAt(old, record.Key)
	if !known {
		return len(record.Leases) > 0 || record.NextToken > 1
	}
	before := old[k].Leases
	return len(before) != len(record.Leases) || old[k].NextToken != record.NextToken || len(before) > 0 && &before[0] != &record.Leases[0]
}

// forgotten returns the deletions of rollout records that no version or group needs any more.
func (s *stored) forgotten(next State) []write {
	needed := make(map[rolloutKey]bool, len(next.Rollouts))
	for _, record := range next.Rollouts {
		needed[record.key()] = true
	}
	var list []write
	for _, record := range s.state.Rollouts {
		if !needed[record.key()] {
			list = append(list, write{key: RolloutRecordKey(record)})
		}
	}
	return list
}
