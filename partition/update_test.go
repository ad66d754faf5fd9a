package partition_test

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/partition"
)

// TestUpdateChanges: an event that no plan depends on asks for no new plan. The property I6 proves
// the opposite, that an event which is said to change nothing does not.
func TestUpdateChanges(t *testing.T) {
	with := func(s partition.State, change func(*partition.State)) partition.State {
		change(&s)
		return s
	}
	offline := func(s *partition.State) { s.Offline = true }
	paused := func(s *partition.State) { s.Paused = true }
	staged := func(s *partition.State) { s.Staged = newVersion }
	failing := func(s *partition.State) { s.Ready = false }
	for _, row := range []struct {
		why    string
		mode   partition.Mode
		from   partition.State
		change func(*partition.State)
		want   bool
	}{
		{"what is staged concerns only Fleet's controller", partition.Default, healthy(oldVersion), staged, false},
		{"which stages it in its next step", partition.FleetController, healthy(oldVersion), staged, true},
		{"nor does a deployment without a release", partition.Default, fresh(), staged, false},
		{"which the controller has not to make any more", partition.FleetController, fresh(), staged, true},
		{"whoever is offline is NotReady", partition.Default, healthy(oldVersion), offline, true},
		{"and the controller does not look at it", partition.FleetController, healthy(oldVersion), offline, false},
		{"who is done is never held", partition.Default, healthy(newVersion), paused, false},
		{"nor by the controller", partition.FleetController, healthy(newVersion), paused, false},
		{"who waits is", partition.Default, healthy(oldVersion), paused, true},
		{"by the controller, too", partition.FleetController, healthy(oldVersion), paused, true},
		{"who is done and fails is NotReady", partition.Default, healthy(newVersion), failing, true},
		{"to the controller, too", partition.FleetController, healthy(newVersion), failing, true},
	} {
		fleet := fleetOf(2, row.from)
		compiled, err := partition.Compile(partition.Strategy{}, fleet, partition.Options{Mode: row.mode})
		if err != nil {
			t.Fatal(err)
		}
		before := compiled.Plan()
		changed, err := compiled.Update(0, with(row.from, row.change))
		if diff := gocmp.Diff(before, compiled.Plan()); err != nil || changed != row.want || (diff != "") != row.want {
			t.Errorf("%s: changed is %v, %v, want %v, of a plan that changes by:\n%s", row.why, changed, err, row.want, diff)
		}
	}
}
