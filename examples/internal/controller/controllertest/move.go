//go:build unix

package controllertest

import (
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/examples/internal/controller"
	"github.com/tranche-dev/tranche/rollout"
)

// halfWay is when the rollout is interrupted: executions are open, members have succeeded, a slot
// is held between two jobs, and somebody waits.
const halfWay = 4*time.Minute + 10*time.Second

//go:embed testdata/*.json
var dumps embed.FS

// checkMove exports a rollout that is half done, compares that with what was exported when the
// files were written (TRANCHE_UPDATE=1 writes them), and lets every such file, from whatever
// database, be continued on this one. It must end as the rollout that was never interrupted.
func checkMove(t *testing.T, d Driver) {
	uninterrupted := newWorld(t, memory(), 3)
	uninterrupted.finish(uninterrupted.controller(nil))

	w := newWorld(t, d.fresh(t), 3)
	w.run(w.controller(nil), epoch().Add(halfWay))
	dump, err := controller.Export(t.Context(), w.db.Store, w.db.Jobs)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(dump, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	name := "from-" + d.Name + ".json"
	if os.Getenv("TRANCHE_UPDATE") != "" {
		if err := os.WriteFile(filepath.Join(d.Dumps, name), append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	files, err := dumps.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	own := false
	for _, file := range files {
		data, err := dumps.ReadFile("testdata/" + file.Name())
		if err != nil {
			t.Fatal(err)
		}
		stored, err := controller.ParseDump(data)
		if err != nil {
			t.Fatal(err)
		}
		if file.Name() == name {
			own = true
			if got, want := normal(t, dump), normal(t, stored); got != want {
				t.Errorf("the export is not what %s holds (TRANCHE_UPDATE=1 writes it):\n%s\nwant\n%s", name, got, want)
			}
		}
		next := newWorld(t, d.fresh(t), 3)
		if err := controller.Import(t.Context(), stored, next.db.Store, next.db.Jobs); err != nil {
			t.Fatal(err)
		}
		next.clock.Set(epoch().Add(halfWay))
		next.finish(next.controller(nil))
		if got, want := next.jobs(), uninterrupted.jobs(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: continued here, the jobs are\n%+v\nand without interruption\n%+v", file.Name(), got, want)
		}
		if err := controller.Import(t.Context(), stored, next.db.Store, next.db.Jobs); !errors.Is(err, bracket.ErrConflict) && !errors.Is(err, controller.ErrBusy) {
			t.Errorf("%s: import into a database that is not empty: %v", file.Name(), err)
		}
	}
	if !own || len(files) < 2 {
		t.Errorf("%d dumps, own %v", len(files), own)
	}
}

// normal is a dump without what belongs to a database: the revision that a pool's record was read
// at.
func normal(t *testing.T, dump controller.Dump) string {
	t.Helper()
	dump.Records = slices.Clone(dump.Records)
	for i, record := range dump.Records {
		if !strings.HasPrefix(record.Key, rollout.PoolRecordKey("")) {
			continue
		}
		pool, err := concurrency.ParseRecord(record.Value)
		if err != nil {
			t.Fatal(err)
		}
		pool.Revision = 0
		if dump.Records[i].Value, err = json.Marshal(pool); err != nil {
			t.Fatal(err)
		}
	}
	slices.SortFunc(dump.Records, func(a, b controller.Record) int { return cmp.Compare(a.Key, b.Key) })
	text, err := json.MarshalIndent(dump, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// memory is the reference.
func memory() Database {
	m := &controller.Memory{}
	return Database{Store: m, Jobs: m, Close: func() {}}
}
