//go:build unix

// Package controllertest has the tests that the examples for real databases share. [RunHost] checks
// the promises of a host with a database under it. [RunSchedules] runs schedules in which
// controllers are processes that are killed, paused and cut off. The package knows no database. It
// needs signals that only Unix has.
package controllertest

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/examples/internal/controller"
	"github.com/tranche-dev/tranche/rollout"
)

// Database is one client's view of a database.
type Database struct {
	Store bracket.Store
	Jobs  controller.Jobs
	Close func()

	// End reports the end of a job and returns, out of the same transaction, all holders that were
	// active before it, in any order. As only ends make the set smaller, it is greatest right
	// before one: so no excess goes unseen between two looks.
	End func(ctx context.Context, run string, status rollout.JobStatus, at time.Time) ([]concurrency.Holder, error)
}

// Driver connects to one kind of database.
type Driver struct {
	// Name is that of the database, such as "etcd".
	Name string

	// Dumps is the folder that holds this package's testdata, seen from the test: what the database
	// exports is kept there for the others.
	Dumps string

	// Open connects to a database at an address. It is called in the test and in the processes that
	// it starts.
	Open func(ctx context.Context, address, space string) (Database, error)

	// Space returns a name that keeps one test's data apart from all others', made ready for use.
	Space func(testing.TB) string

	// Network and Servers are where the servers of the database listen, for [net.Dial], and Address
	// is how Open is told of them.
	Network string
	Servers []string
	Address string

	// Listen opens a listener for a proxy to each server, and returns the address by which Open
	// finds the proxies instead.
	Listen func(testing.TB) (listeners []net.Listener, address string)

	// Disturb, if there is one, harms the servers themselves, and returns when they are whole
	// again: a member is killed and restarted, or the server crashes and recovers. Schedules then
	// run one after the other, and the test itself puts up with errors while there is trouble.
	Disturb func() error
}

// open connects the test itself, without a proxy.
func (d Driver) open(tb testing.TB, space string) Database {
	tb.Helper()
	db, err := d.Open(tb.Context(), d.Address, space)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(db.Close)
	return db
}

// proxied returns an address at which every server is found behind a proxy.
func (d Driver) proxied(tb testing.TB) (proxies []*proxy, address string) {
	tb.Helper()
	listeners, address := d.Listen(tb)
	for i, listener := range listeners {
		p := newProxy(listener, d.Network, d.Servers[i])
		tb.Cleanup(p.close)
		proxies = append(proxies, p)
	}
	return proxies, address
}
