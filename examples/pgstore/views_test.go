package pgstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/examples/internal/controller"
	"github.com/tranche-dev/tranche/rollout"
)

// TestMigrateAgain: a second host finds everything in place, and two that start together do not
// disturb each other.
func TestMigrateAgain(t *testing.T) {
	pool, _ := newSchema(t, sharedServer(t))
	errs := make(chan error)
	for range 4 {
		go func() { errs <- Migrate(context.Background(), pool) }()
	}
	for range 4 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	var n int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM tranche_migration`).Scan(&n); err != nil || n != 4 {
		t.Errorf("%d migrations, %v, want 4", n, err)
	}
}

// TestMigrateWithoutRights: a host whose account may not create tables finds that all of them are
// there, and works. Without them it is told what it may not do.
func TestMigrateWithoutRights(t *testing.T) {
	s := sharedServer(t)
	owner, schema := newSchema(t, s)
	role := "host_of_" + schema
	for _, statement := range append([]string{`CREATE ROLE ` + role + ` LOGIN`, `GRANT USAGE ON SCHEMA ` + schema + ` TO ` + role}, grants(role)...) {
		if _, err := owner.Exec(t.Context(), statement); err != nil {
			t.Fatal(statement, err)
		}
	}
	t.Cleanup(func() {
		if _, err := owner.Exec(context.Background(), `DROP OWNED BY `+role+`; DROP ROLE `+role); err != nil {
			t.Error(err)
		}
	})
	config := owner.Config()
	config.ConnConfig.User = role
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	store := NewStore(pool, 0)
	jobs := NewJobs(store)
	revision, err := store.Save(t.Context(), "k", []byte("v"), 0)
	if err != nil {
		t.Fatal(err)
	}
	start := rollout.Start{TargetID: rollout.TargetID{Resource: "r", Environment: "prod", Deployment: "app"}, Version: "v2", Run: "run", Group: "g"}
	at := time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)
	if created, err := jobs.Dispatch(t.Context(), start, 0, at); err != nil || !created {
		t.Errorf("Dispatch: %v, %v", created, err)
	}
	_, counted := jobs.Active(t.Context(), "pool")
	if err := errors.Join(store.Delete(t.Context(), "k", revision), jobs.SetPool(t.Context(), "pool", []string{"r"}), jobs.Report(t.Context(), "run", rollout.JobSuccessful, at), counted); err != nil {
		t.Error(err)
	}
	if _, err := owner.Exec(t.Context(), `DELETE FROM tranche_migration WHERE name LIKE '%4_targets%'`); err != nil {
		t.Fatal(err)
	}
	if err := Migrate(t.Context(), pool); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("with a migration to come: %v", err)
	}
}

// grants are those of the README.
func grants(role string) []string {
	text, err := os.ReadFile("README.md")
	if err != nil {
		panic(err)
	}
	var list []string
	for line := range strings.Lines(string(text)) {
		if statement, is := strings.CutPrefix(line, "    GRANT "); is {
			list = append(list, "GRANT "+strings.TrimSuffix(strings.ReplaceAll(statement, "host;", role), "\n"))
		}
	}
	return list
}

// TestMigrateAtEveryLevel: of several hosts that start together on an empty schema one migrates, and
// the others find it done, also where transactions see by default what there was when they began:
// before they waited. All wait here, until the lock is free.
func TestMigrateAtEveryLevel(t *testing.T) {
	s := sharedServer(t)
	for _, level := range []string{"read committed", "repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			const hosts = 3
			schema := fmt.Sprintf("test_%d_%d", os.Getpid(), schemas.Add(1))
			pool, err := connect(t.Context(), s.dir, schema)
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			config := pool.Config()
			config.ConnConfig.RuntimeParams["default_transaction_isolation"] = level
			config.ConnConfig.RuntimeParams["application_name"] = schema
			starting, err := pgxpool.NewWithConfig(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			defer starting.Close()
			if _, err := pool.Exec(t.Context(), `CREATE SCHEMA `+schema); err != nil {
				t.Fatal(err)
			}
			held, err := pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := held.Exec(t.Context(), `SELECT pg_advisory_xact_lock($1)`, int64(migrationLock)); err != nil {
				t.Fatal(err)
			}
			errs := make(chan error, hosts)
			for range hosts {
				go func() { errs <- Migrate(context.Background(), starting) }()
			}
			for waiting := 0; waiting < hosts; {
				if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'`, schema).Scan(&waiting); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Millisecond)
			}
			if err := held.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			for range hosts {
				if err := <-errs; err != nil {
					t.Error(err)
				}
			}
			if _, err := NewStore(starting, 0).Save(t.Context(), "key", nil, 0); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestViews reads what another database exported half way through a rollout, in the tables of the
// RFC.
func TestViews(t *testing.T) {
	pool, _ := newSchema(t, sharedServer(t))
	data, err := os.ReadFile("../internal/controller/controllertest/testdata/from-etcd.json")
	if err != nil {
		t.Fatal(err)
	}
	dump, err := controller.ParseDump(data)
	if err != nil {
		t.Fatal(err)
	}
	jobs := NewJobs(NewStore(pool, 0))
	if err := controller.Import(t.Context(), dump, jobs.store, jobs); err != nil {
		t.Fatal(err)
	}
	const group = "nodes%2FdeploymentBracket%2F0/prod/1"
	for _, row := range []struct {
		why, query string
		want       string
	}{
		{"a group is closed at the end of its window", `SELECT string_agg(id || ' ' || to_char(collection_ends_at AT TIME ZONE 'UTC', 'HH24:MI:SS') , ',' ORDER BY id) FROM bracket_version_group WHERE collection_ends_at IS NOT NULL AND id = '` + group + `'`,
			group + " 09:02:00"},
		{"its members are locked to versions", `SELECT string_agg(deployment_id || '=' || version_id, ' ' ORDER BY deployment_id) FROM bracket_version_group_member WHERE group_id = '` + group + `'`,
			"kubelet=1.29.2 node-drain=v1 node-uncordon=v1 os-patch=2026-03"},
		{"every open execution holds a lease", `SELECT count(*)::text FROM bracket_execution e WHERE NOT EXISTS (SELECT FROM concurrency_lease l WHERE l.resource_id = e.resource_id AND l.group_id = e.group_id)`, "0"},
		{"there are open executions", `SELECT (count(*) > 0)::text FROM bracket_execution`, "true"},
	} {
		var got string
		if err := pool.QueryRow(t.Context(), row.query).Scan(&got); err != nil || got != row.want {
			t.Errorf("%s: %q, %v, want %q", row.why, got, err, row.want)
		}
	}
}

// TestTerminalAgrees: the table's idea of an active status is the library's.
func TestTerminalAgrees(t *testing.T) {
	pool, _ := newSchema(t, sharedServer(t))
	for _, status := range []string{"successful", "failure", "cancelled", "skipped", "invalidJobAgent", "invalidIntegration", "externalRunNotFound", "queued", "", "Successful", "tomorrow's"} {
		var active bool
		err := pool.QueryRow(t.Context(), `INSERT INTO release_job (run, resource_id, environment_id, deployment_id, version_id, group_id, status)
			VALUES ($1, 'r', '', '', '', '', $2) RETURNING active`, "run "+status, status).Scan(&active)
		if err != nil || active == concurrency.Terminal(status) {
			t.Errorf("%q: active %v, %v", status, active, err)
		}
	}
}

// TestServerCrash: what was confirmed survives a server that is killed, and revisions go on
// growing.
func TestServerCrash(t *testing.T) {
	s, err := newServer(false)
	require(t, err)
	t.Cleanup(s.stop)
	pool, _ := newSchema(t, s)
	store := NewStore(pool, 5*time.Second)
	first, err := store.Save(t.Context(), "k", []byte("one"), 0)
	if err != nil {
		t.Fatal(err)
	}
	s.kill()
	list, err := store.List(t.Context(), "")
	for deadline := time.Now().Add(30 * time.Second); err == nil && len(list) == 1 && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond) // a child of the server answers until it notices that its parent is gone
		list, err = store.List(t.Context(), "")
	}
	if err == nil || errors.Is(err, bracket.ErrNotFound) || !strings.Contains(err.Error(), s.dir) {
		t.Errorf("List without a server: %v, %v, want an error that names where it was looked for", list, err)
	}
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	value, revision, err := store.Load(t.Context(), "k")
	for range 8 { // connections of the server that is gone fail once each
		if err == nil {
			break
		}
		value, revision, err = store.Load(t.Context(), "k")
	}
	if string(value) != "one" || revision != first || err != nil {
		t.Errorf("after the crash %q at %d, %v", value, revision, err)
	}
	if second, err := store.Save(t.Context(), "k", []byte("two"), first); err != nil || second <= first {
		t.Errorf("revision %d follows %d, %v", second, first, err)
	}
}
