package pgstore

import (
	"context"
	"embed"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrationLock keeps two hosts that start together from migrating at once. It is the text
// "tranche" as a number.
const migrationLock = 0x7472616e636865

// Migrate brings the tables up to date, in the schema that the connections' search_path names
// first. It may be called at every start, by every host: what is there already is left alone, and
// all of it happens in one transaction or not at all. If nothing is left to do it needs no more
// rights than to read the table tranche_migration.
func Migrate(ctx context.Context, pool *pgxpool.Pool) error {
	files, err := fs.Glob(migrations, "migrations/*.sql") // in order
	if err != nil {
		return err
	}
	if done, err := migrated(ctx, pool, files); err == nil && done {
		return nil
	}
	// At other levels than this one, whoever waited for the lock would not see what was done meanwhile.
	err = pgx.BeginTxFunc(ctx, pool, committed(DefaultTimeout), func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(migrationLock)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS tranche_migration (name text PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())`); err != nil {
			return err
		}
		for _, name := range files {
			inserted, err := tx.Exec(ctx, `INSERT INTO tranche_migration (name) VALUES ($1) ON CONFLICT DO NOTHING`, name)
			if err != nil {
				return err
			}
			if inserted.RowsAffected() == 0 {
				continue
			}
			text, err := migrations.ReadFile(name)
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, string(text)); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("pgstore: migrate: %w", err)
	}
	return nil
}

// migrated reports whether all files have been applied. Tempting: CREATE TABLE IF NOT EXISTS alone.
// It needs the right to create tables also if the table exists.
func migrated(ctx context.Context, pool *pgxpool.Pool, files []string) (bool, error) {
	var there bool
	err := pool.QueryRow(ctx, `SELECT to_regclass(format('%I.tranche_migration', current_schema())) IS NOT NULL`).Scan(&there)
	if err != nil || !there {
		return false, err
	}
	var n int
	err = pool.QueryRow(ctx, `SELECT count(*) FROM tranche_migration WHERE name = ANY($1)`, files).Scan(&n)
	return n == len(files), err
}
