package controller

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/strictjson"
)

// dumpSchema is the version of the form of a [Dump].
const dumpSchema = 1

// Dump is everything that a controller needs to go on, as JSON: the planner's records and the jobs.
// Pools are not part of it, for every host derives them from its fleet. Revisions are not either:
// they belong to a database, and no record refers to one.
type Dump struct {
	Schema  int      `json:"schema"` // 1
	Records []Record `json:"records"`
	Jobs    []Job    `json:"jobs"`
}

// Record is one record of a [bracket.Store]. All records of the library are JSON.
type Record struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
}

// Export reads everything out of a database. No controller may be at work on it: the records are
// several lists, which are not one instant.
func Export(ctx context.Context, store bracket.Store, jobs Jobs) (Dump, error) {
	entries, err := store.List(ctx, "")
	if err != nil {
		return Dump{}, fmt.Errorf("controller: export records: %w", err)
	}
	dump := Dump{Schema: dumpSchema, Records: make([]Record, len(entries))}
	for i, entry := range entries {
		if !json.Valid(entry.Value) {
			return Dump{}, fmt.Errorf("controller: export record %q: the value is not JSON: no planner wrote it", entry.Key)
		}
		dump.Records[i] = Record{Key: entry.Key, Value: entry.Value}
	}
	if dump.Jobs, err = jobs.All(ctx); err != nil {
		return Dump{}, fmt.Errorf("controller: export jobs: %w", err)
	}
	return dump, nil
}

// ParseDump decodes a dump. Unknown fields and schemas are errors.
func ParseDump(data []byte) (Dump, error) {
	var dump Dump
	if err := strictjson.Unmarshal(data, &dump); err != nil {
		return Dump{}, fmt.Errorf("controller: %w", err)
	}
	if dump.Schema != dumpSchema {
		return Dump{}, fmt.Errorf("controller: schema: %d: must be %d", dump.Schema, dumpSchema)
	}
	return dump, nil
}

// Import writes a dump into an empty database on which no controller is at work yet. A record that
// exists is [bracket.ErrConflict]; what was written by then stays.
func Import(ctx context.Context, dump Dump, store bracket.Store, jobs Jobs) error {
	for _, job := range dump.Jobs {
		if err := jobs.Put(ctx, job); err != nil {
			return fmt.Errorf("controller: import job %s: %w", job.Run, err)
		}
	}
	for _, record := range dump.Records {
		if _, err := store.Save(ctx, record.Key, record.Value, 0); err != nil {
			return fmt.Errorf("controller: import record %q: %w", record.Key, err)
		}
	}
	return nil
}
