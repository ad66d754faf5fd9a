package partition

// facts is what decisions depend on in the state of a cluster: comparisons of version ids instead
// of the ids.
type facts uint16

const (
	released        facts = 1 << iota // it was pointed at some version
	releasedWanted                    // it was pointed at the wanted version
	appliedReleased                   // the agent applied the version that it was pointed at; also if both are empty
	appliedWanted                     // the agent applied the wanted version
	isReady
	isPaused
	isOffline
	exists       // FleetController: a deployment object exists
	stagedWanted // FleetController: the wanted version is staged

	factSets = 1 << iota // one more than the largest combination
)

// looksAt returns the facts on which the decisions of a mode depend.
func (m Mode) looksAt() facts {
	if m == FleetController {
		return ^isOffline
	}
	return ^(exists | stagedWanted)
}

func (f facts) has(all facts) bool { return f&all == all }

// observe compares a state with the wanted version.
func observe(s *State, wanted string) facts {
	var f facts
	if s.Released != "" {
		f |= released | exists
	}
	if s.Released == wanted {
		f |= releasedWanted
	}
	if s.Applied == s.Released {
		f |= appliedReleased
	}
	if s.Applied == wanted {
		f |= appliedWanted
	}
	staged := s.Staged
	if staged == "" {
		staged = s.Released
	}
	if staged != "" {
		f |= exists
	}
	if staged == wanted {
		f |= stagedWanted
	}
	if s.Ready {
		f |= isReady
	}
	if s.Paused {
		f |= isPaused
	}
	if s.Offline {
		f |= isOffline
	}
	return f
}

// pointed returns the facts once the cluster has been pointed at the wanted version and nothing
// else has happened.
func (f facts) pointed() facts {
	f |= released | releasedWanted | exists | stagedWanted
	if f.has(appliedWanted) {
		return f | appliedReleased
	}
	return f &^ appliedReleased
}

// class groups the clusters that a step treats alike.
type class uint8

// The classes of the default mode. A cluster is in the first one that fits.
const (
	done      class = iota // released = applied = wanted, ready, not offline
	held                   // paused or offline, and not counted by the options
	updating               // released to the wanted version and not done: NotReady
	blocked                // paused, and counted by the options: NotReady
	broken                 // unhealthy on another version: NotReady, and the fix is always due
	pending                // never released
	outOfSync              // healthy on another version

	classes = 16 // room for the classes of either mode
)

func (o *Options) classify(f facts) class {
	switch {
	case f.has(releasedWanted|appliedWanted|isReady) && !f.has(isOffline):
		return done
	case f.has(isPaused) && o.Paused != BlockPaused, f.has(isOffline) && o.Offline == ExcludeOffline:
		return held
	case f.has(releasedWanted):
		return updating
	case f.has(isPaused):
		return blocked
	case !f.has(released):
		return pending
	case !f.has(appliedReleased|isReady) || f.has(isOffline):
		return broken
	}
	return outOfSync
}

// In the mode FleetController the class of a target that has a deployment object is a set of these
// bits. Such a target is never stopped without waiting, so the bit stopped alone means that there
// is no deployment object. Class 0 is done, as in the default mode: readiness counts every target
// outside it as unavailable.
const (
	unstaged class = 1 << iota // another version than the wanted one is staged
	waits                      // it is pointed at another version than the wanted one
	lenient                    // it counts as unavailable to releases: it has not applied what it is pointed at, or is not ready
	stopped                    // it waits and is paused

	uncreated = stopped
)

func (f facts) controllerClass() class {
	if !f.has(exists) {
		return uncreated
	}
	var c class
	if !f.has(stagedWanted) {
		c |= unstaged
	}
	if !f.has(appliedReleased | isReady) {
		c |= lenient
	}
	if !f.has(releasedWanted) {
		c |= waits
		if f.has(isPaused) {
			c |= stopped
		}
	}
	return c
}

// There is one bitset for each set of members that a step of the default mode walks over.
const (
	setBroken = iota
	setPending
	setOutOfSync
)

// In the mode FleetController there are others in their places.
const (
	setUncreated = iota
	setUnstaged
	setLenient // may be released at no cost
	setHealthy // may be released within the budgets

	sets // how many there are, at most
)

// setsOf returns the sets that members of a class are in, as bits.
func setsOf(mode Mode, c class) (in uint8) {
	add := func(set int, is bool) {
		if is {
			in |= 1 << set
		}
	}
	if mode == FleetController {
		add(setUncreated, c == uncreated)
		add(setUnstaged, c&unstaged != 0)
		add(setLenient, c&(waits|lenient|stopped) == waits|lenient)
		add(setHealthy, c&(waits|lenient|stopped) == waits)
		return in
	}
	add(setBroken, c == broken)
	add(setPending, c == pending)
	add(setOutOfSync, c == outOfSync)
	return in
}
