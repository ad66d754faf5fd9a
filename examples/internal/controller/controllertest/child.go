//go:build unix

package controllertest

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/examples/internal/controller"
	"github.com/tranche-dev/tranche/rollout"
)

// childVariable makes the test binary a controller instead of running tests.
const childVariable = "TRANCHE_CONTROLLER"

// child describes the process of a controller.
type child struct {
	Address  string        `json:"address"`
	Space    string        `json:"space"`
	Seed     uint64        `json:"seed"`
	Nodes    int           `json:"nodes"`
	Epoch    time.Time     `json:"epoch"`    // of the fleet's clock
	Start    time.Time     `json:"start"`    // when it was that, on the clock of the machine
	Contrary bool          `json:"contrary"` // its order of nodes is not that of the other one
	Patience time.Duration `json:"patience"` // how long a turn may take; 0: callTimeout
	Trap     string        `json:"trap"`     // the first call of this kind is where it stops; empty: anywhere, by chance
}

// speed is how much faster the fleet's clock runs: a minute takes a tenth of a second.
const speed = 600

// scaled is the fleet's clock. It is the same in all processes.
type scaled struct{ epoch, start time.Time }

func (s scaled) Now() time.Time { return s.epoch.Add(time.Since(s.start) * speed) }

// callTimeout is how long one turn of a controller may wait for its database: the network is cut
// for longer.
const callTimeout = 250 * time.Millisecond

// What a controller tells the test, a line each. Everything else it knows may die with it.
const (
	lineStopped  = "stopped"  // it is between two steps, and goes on when it is told to
	lineKilled   = "killed"   // it is about to kill itself
	lineCreated  = "created"  // RUN: it created a job
	lineRepeated = "repeated" // RUN: the job existed
	lineFenced   = "fenced"   // a job was refused: the slot was lost
	lineBusy     = "busy"     // … another job is active on the target
	lineBehind   = "behind"   // … others were on the target since it looked
	lineReleased = "released" // an orphaned lease was given back
	lineConflict = "conflict" // N saves met a newer revision
	lineGaveUp   = "gaveup"   // a plan was abandoned after its attempts
	lineFailed   = "failed"   // the database did not answer
	lineBroken   = "broken"   // anything else: an error that must not be
)

// What the test tells a controller, a line each. At the end of its input it ends.
const (
	wordCalm = "calm" // the trouble is over
	wordGo   = "go"   // … on, after lineStopped
)

// Main runs the tests of a binary, or a controller if it was started as one. It returns the exit
// code.
func Main(m interface{ Run() int }, open func(ctx context.Context, address, space string) (Database, error)) int {
	description, isChild := os.LookupEnv(childVariable)
	if !isChild {
		return m.Run()
	}
	var c child
	err := json.Unmarshal([]byte(description), &c)
	if err == nil {
		err = c.run(open)
	}
	if err != nil {
		fmt.Println(lineBroken, err)
		return 1
	}
	return 0
}

func (c child) run(open func(ctx context.Context, address, space string) (Database, error)) error {
	var calm atomic.Bool
	woken := make(chan struct{}, 1)
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			switch in.Text() {
			case wordCalm:
				calm.Store(true)
			case wordGo:
				woken <- struct{}{}
			}
		}
		os.Exit(0) // the test has ended, and takes the process with it
	}()
	set, err := compiled()
	if err != nil {
		return err
	}
	var db Database
	for {
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		db, err = open(ctx, c.Address, c.Space)
		cancel()
		if err == nil {
			break
		}
		fmt.Println(lineFailed, err)
		time.Sleep(20 * time.Millisecond)
	}
	random := rand.New(rand.NewPCG(c.Seed, 1))
	trap := &trap{calm: &calm, woken: woken, random: random, only: c.Trap}
	host := controller.Controller{Policies: set, Store: trapStore{db.Store, trap}, Jobs: trapJobs{db.Jobs, trap}, Clock: scaled{c.Epoch, c.Start}}
	for {
		host.Fleet = disagreeing(c.Nodes, c.Epoch, host.Clock.Now(), c.Contrary)
		ctx, cancel := context.WithCancel(context.Background())
		trap.timer = time.AfterFunc(cmp.Or(c.Patience, callTimeout), cancel)
		turn, err := host.Turn(ctx)
		timedOut := ctx.Err() != nil
		trap.timer.Stop()
		cancel()
		for _, run := range turn.Dispatched {
			fmt.Println(lineCreated, run)
		}
		for _, run := range turn.Repeated {
			fmt.Println(lineRepeated, run)
		}
		for _, lease := range turn.Released {
			fmt.Println(lineReleased, lease)
		}
		for _, refused := range turn.Refused {
			switch {
			case errors.Is(refused, concurrency.ErrFenced):
				fmt.Println(lineFenced, refused)
			case errors.Is(refused, controller.ErrBusy):
				fmt.Println(lineBusy, refused)
			case errors.Is(refused, controller.ErrOvertaken):
				fmt.Println(lineBehind, refused)
			default:
				fmt.Println(lineConflict, 1)
			}
		}
		if turn.Conflicts > 0 {
			fmt.Println(lineConflict, turn.Conflicts)
		}
		var broken *rollout.FieldError
		switch {
		case err == nil:
		case errors.Is(err, bracket.ErrConflict):
			fmt.Println(lineGaveUp, err)
		case errors.As(err, &broken), errors.Is(err, bracket.ErrStale):
			return err
		default:
			fmt.Println(lineFailed, timedOut, err)
		}
		time.Sleep(time.Duration(5+random.IntN(15)) * time.Millisecond)
	}
}

// trap is where bad luck strikes: before a call of the database and after it.
type trap struct {
	calm   *atomic.Bool
	woken  <-chan struct{}
	random *rand.Rand
	only   string
	struck bool
	timer  *time.Timer // ends the turn
}

// at is called before and after each call of the database.
func (t *trap) at(call string) {
	if t.calm.Load() {
		return
	}
	if t.only != "" {
		if t.only == call && !t.struck {
			t.struck = true
			t.stop()
		}
		return
	}
	odds := 400 // of a read; writes are rarer and more delicate, and claims most of all
	switch call {
	case "save", "saved", "dispatch", "dispatched":
		odds = 20
	case "claim":
		odds = 4
	}
	if t.random.IntN(odds) > 0 {
		return
	}
	if t.random.IntN(4) == 0 {
		fmt.Println(lineKilled)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // it takes a moment
	}
	t.stop()
}

// stop lets the test pause the whole process, as a machine that is suspended does, until it wakes
// it up. The time of the turn stands still meanwhile, as it does on such a machine: nothing but the
// database is left to stop a controller that goes on as if nothing had happened.
//
// It is tempting to have the process stop itself by a signal. But the signal may be given to
// another of its threads, which on a busy machine gets its turn much later: the call that was to be
// late is done by then.
func (t *trap) stop() {
	t.timer.Stop()
	fmt.Println(lineStopped)
	<-t.woken
	t.timer.Reset(10 * time.Second) // what it was about to do must reach the database, on a slow machine too
}

type trapStore struct {
	bracket.Store
	*trap
}

func (s trapStore) List(ctx context.Context, prefix string) ([]bracket.Entry, error) {
	s.at("list")
	return s.Store.List(ctx, prefix)
}

func (s trapStore) Save(ctx context.Context, key string, value []byte, revision int64) (int64, error) {
	s.at("save")
	if strings.HasPrefix(key, rollout.PoolRecordKey("")) {
		s.at("claim")
	}
	next, err := s.Store.Save(ctx, key, value, revision)
	s.at("saved")
	return next, err
}

type trapJobs struct {
	controller.Jobs
	*trap
}

func (j trapJobs) All(ctx context.Context) ([]controller.Job, error) {
	all, err := j.Jobs.All(ctx)
	j.at("observed")
	return all, err
}

func (j trapJobs) Dispatch(ctx context.Context, start rollout.Start, seen int, at time.Time) (bool, error) {
	j.at("dispatch")
	created, err := j.Jobs.Dispatch(ctx, start, seen, at)
	j.at("dispatched")
	return created, err
}
