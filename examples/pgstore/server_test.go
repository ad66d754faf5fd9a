package pgstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// server is a PostgreSQL server of this test, on a socket that only it uses.
type server struct {
	dir        string // of the data, and of the socket
	bin        string // of the programs
	credential *syscall.Credential
	fast       bool // no fsync, for a server that is never killed
	process    *exec.Cmd
	ended      <-chan struct{} // is closed when the process has
}

// errNoServer means that the machine has no PostgreSQL.
var errNoServer = errors.New("there is no PostgreSQL server: looked for initdb and postgres on PATH and in /usr/lib/postgresql/*/bin; on Debian: apt-get install postgresql")

// programs finds the directory of the server's programs, which Debian keeps off the PATH.
func programs() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	slices.SortFunc(found, func(a, b string) int { return version(b) - version(a) })
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			found = append(found, filepath.Dir(path))
		}
	}
	for _, dir := range found {
		if executable(filepath.Join(dir, "initdb")) && executable(filepath.Join(dir, "postgres")) {
			return dir, nil
		}
	}
	return "", errNoServer
}

func version(bin string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(bin)))
	return n
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir() && info.Mode()&0o111 != 0
}

// newServer makes a database cluster and starts it. The programs refuse to run as root; then they
// run as the user postgres, in a directory that this user may read, which one of the testing
// package is not.
func newServer(fast bool) (*server, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	s := &server{bin: bin, fast: fast}
	if s.dir, err = os.MkdirTemp("", "pg"); err != nil { // short: the path of a socket has at most 107 bytes
		return nil, err
	}
	if os.Getuid() == 0 {
		account, err := user.Lookup("postgres")
		if err != nil {
			return nil, fmt.Errorf("the server does not run as root, and there is no user for it: %w", err)
		}
		uid, err1 := strconv.Atoi(account.Uid)
		gid, err2 := strconv.Atoi(account.Gid)
		if err := errors.Join(err1, err2, os.Chown(s.dir, uid, gid)); err != nil {
			return nil, err
		}
		s.credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	if out, err := s.command("initdb", "-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return s, s.start()
}

func (s *server) data() string { return filepath.Join(s.dir, "data") }

func (s *server) socket() string { return filepath.Join(s.dir, ".s.PGSQL.5432") }

func (s *server) command(name string, arguments ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(s.bin, name), arguments...)
	c.Dir = s.dir
	c.SysProcAttr = attributes(s.credential)
	return c
}

// start starts the server and waits until it answers, recovery from a crash included.
func (s *server) start() error {
	options := []string{"-D", s.data(), "-k", s.dir, "-c", "listen_addresses=", "-c", "max_connections=200", "-c", "log_min_messages=panic"}
	if s.fast {
		options = append(options, "-c", "fsync=off")
	}
	deadline := time.Now().Add(30 * time.Second)
	for {
		s.process = s.command("postgres", options...)
		if err := s.process.Start(); err != nil {
			return err
		}
		ended := make(chan struct{})
		s.ended = ended
		go func(process *exec.Cmd) {
			_ = process.Wait()
			close(ended)
		}(s.process)
		for {
			err := s.answers()
			if err == nil {
				return nil
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("the server does not answer: %w", err)
			}
			select {
			case <-ended: // it found processes of a server that was killed
			case <-time.After(10 * time.Millisecond):
				continue
			}
			break
		}
	}
}

func (s *server) answers() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	pool, err := connect(ctx, s.dir, "public")
	if err != nil {
		return err
	}
	defer pool.Close()
	return pool.Ping(ctx)
}

// kill ends the server as a crash would. Its children notice that the parent is gone, and a new
// server waits for them.
func (s *server) kill() {
	_ = s.process.Process.Signal(syscall.SIGKILL)
	<-s.ended
}

// stop ends the server at once and removes its data.
func (s *server) stop() {
	if s.process != nil {
		_ = s.process.Process.Signal(syscall.SIGQUIT)
		<-s.ended
	}
	_ = os.RemoveAll(s.dir)
}

// connect returns connections through the socket in a directory, which may be that of a proxy, to
// work in a schema.
func connect(ctx context.Context, dir, schema string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(fmt.Sprintf("host=%s user=postgres dbname=postgres sslmode=disable search_path=%s", dir, schema))
	if err != nil {
		return nil, err
	}
	config.MaxConns = 8
	config.ConnConfig.ConnectTimeout = 5 * time.Second
	return pgxpool.NewWithConfig(ctx, config)
}

var shared struct {
	once   sync.Once
	server *server
	err    error
}

// sharedServer is the server of all tests that never stop it. Without one on the machine the test
// is skipped, but not in CI.
func sharedServer(tb testing.TB) *server {
	tb.Helper()
	shared.once.Do(func() { shared.server, shared.err = newServer(true) })
	require(tb, shared.err)
	return shared.server
}

func require(tb testing.TB, err error) {
	tb.Helper()
	if errors.Is(err, errNoServer) && os.Getenv("CI") != "true" {
		tb.Skipf("skipped: %v (with CI=true this is a failure)", err)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

func stopShared() {
	if shared.server != nil {
		shared.server.stop()
	}
}

var schemas atomic.Int64

// newSchema makes a schema that no other test uses, with all tables.
func newSchema(tb testing.TB, s *server) (pool *pgxpool.Pool, schema string) {
	tb.Helper()
	schema = fmt.Sprintf("test_%d_%d", os.Getpid(), schemas.Add(1))
	pool, err := connect(tb.Context(), s.dir, schema)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pool.Close)
	if _, err := pool.Exec(tb.Context(), `CREATE SCHEMA `+schema); err != nil {
		tb.Fatal(err)
	}
	if err := Migrate(tb.Context(), pool); err != nil {
		tb.Fatal(err)
	}
	return pool, schema
}

// emptied returns a function that empties a schema of its own, for kits that ask for an empty
// database many times: making tables is slow.
func emptied(tb testing.TB, s *server) func(testing.TB) *pgxpool.Pool {
	tb.Helper()
	pool, _ := newSchema(tb, s)
	return func(tb testing.TB) *pgxpool.Pool {
		tb.Helper()
		for _, table := range []string{"tranche_record", "release_job", "concurrency_pool_member", "concurrency_pool"} {
			if _, err := pool.Exec(context.Background(), `DELETE FROM `+table); err != nil {
				tb.Fatal(err)
			}
		}
		return pool
	}
}
