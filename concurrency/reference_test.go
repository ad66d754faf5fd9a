package concurrency

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// reference is the second opinion on Plan: everything by name, nothing counted that can be
// recomputed.
type reference struct {
	snapshot Snapshot
	now      time.Time
	leases   []map[Holder]Lease        // per pool; State is the effective one; token 0: job alone
	before   []map[Holder]Lease        // leases when first asked
	reserved map[int]map[string]string // per pool: resources, and the groups for which they are
	begun    []map[Holder]bool         // per pool: those of the batch
	fresh    []map[string]bool         // per pool: resources that the batch disrupts
	tokens   []uint64
	stuck    []string
	next     time.Time
}

func newReference(s Snapshot, now time.Time) *reference {
	r := &reference{snapshot: s, now: now, reserved: map[int]map[string]string{}}
	for i, p := range s.Pools {
		leases := map[Holder]Lease{}
		token := uint64(1)
		if !p.Unknown {
			token = max(1, p.Record.NextToken)
			for _, l := range p.Record.Leases {
				if p.StuckAfter > 0 && slices.Contains(s.Running, l.Holder) {
					at := l.ProgressAt.Add(p.StuckAfter)
					if !now.Before(at) {
						r.stuck = append(r.stuck, p.Key+" "+l.Resource+" "+l.Group)
						if p.OnStuck == Quarantine {
							l.State = Quarantined
						}
					} else if r.next.IsZero() || at.Before(r.next) {
						r.next = at
					}
				}
				leases[l.Holder] = l
			}
			for _, h := range p.Jobs {
				if _, ok := leases[h]; !ok {
					leases[h] = Lease{Pool: p.Key, Holder: h, State: Active}
				}
			}
		}
		r.leases = append(r.leases, leases)
		r.tokens = append(r.tokens, token)
		r.reserved[i] = map[string]string{}
		r.begun = append(r.begun, map[Holder]bool{})
		r.fresh = append(r.fresh, map[string]bool{})
	}
	slices.Sort(r.stuck)
	return r
}

// forgiven are the quarantined leases of a pool that do not count.
func (r *reference) forgiven(pool int) map[Holder]bool {
	p := r.snapshot.Pools[pool]
	var quarantined []Lease
	for _, l := range r.leases[pool] {
		if l.State == Quarantined && !slices.Contains(p.Departed, l.Resource) {
			quarantined = append(quarantined, l)
		}
	}
	slices.SortFunc(quarantined, func(a, b Lease) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Group, b.Group))
	})
	forgiven := map[Holder]bool{}
	for i, l := range quarantined {
		if i < p.QuarantineAllowance.Of(p.Total, Floor) {
			forgiven[l.Holder] = true
		}
	}
	return forgiven
}

// activeIn are the distinct members that hold a counting lease or are unavailable.
func (r *reference) activeIn(pool int) map[string]bool {
	p := r.snapshot.Pools[pool]
	active := map[string]bool{}
	if p.Unknown {
		return active
	}
	forgiven := r.forgiven(pool)
	for h := range r.leases[pool] {
		if !forgiven[h] && !slices.Contains(p.Departed, h.Resource) {
			active[h.Resource] = true
		}
	}
	for _, resource := range p.Unavailable {
		active[resource] = true
	}
	return active
}

// keyedIn are those that make the key of the pool active.
func (r *reference) keyedIn(pool int) map[string]bool {
	p := r.snapshot.Pools[pool]
	keyed := map[string]bool{}
	for resource := range r.activeIn(pool) {
		keyed[resource] = slices.Contains(p.Unavailable, resource)
	}
	forgiven := r.forgiven(pool)
	for h := range r.leases[pool] {
		if r.activeIn(pool)[h.Resource] && !forgiven[h] && (!slices.Contains(p.Keyless, h) || slices.Contains(p.Jobs, h) || r.begun[pool][h]) {
			keyed[h.Resource] = true
		}
	}
	maps.DeleteFunc(keyed, func(_ string, is bool) bool { return !is })
	return keyed
}

func (r *reference) downIn(pool int, resource string) bool {
	p := r.snapshot.Pools[pool]
	if p.Unknown {
		return false
	}
	for h := range r.leases[pool] {
		if h.Resource == resource && !slices.Contains(p.Departed, resource) {
			return true
		}
	}
	return slices.Contains(p.Unavailable, resource) && !r.halted(pool)
}

// halted: by how many distinct members are unavailable.
func (r *reference) halted(pool int) bool {
	p, down := r.snapshot.Pools[pool], map[string]bool{}
	for _, resource := range p.Unavailable {
		down[resource] = true
	}
	return !p.Unknown && !p.HaltAboveUnavailable.IsZero() && len(down) > p.HaltAboveUnavailable.Of(p.Total, Floor)
}

func (r *reference) max(pool int) int {
	p := r.snapshot.Pools[pool]
	if p.Rate != (Rate{}) && p.Rate.Limit.Of(p.Total, p.Rounding) == 0 {
		return 0
	}
	return min(p.Total, p.Limit.Of(p.Total, p.Rounding))
}

// left: how many more may begin, given that some of those that began are over by then.
func (r *reference) left(pool int, at time.Time) int {
	p := r.snapshot.Pools[pool]
	if p.Rate == (Rate{}) {
		return 1 << 20
	}
	period := time.Duration(p.Rate.PeriodSeconds) * time.Second
	left := p.Rate.Limit.Of(p.Total, p.Rounding)
	for _, b := range p.Record.Begun {
		if at.Sub(b.At) < period {
			left -= b.Count
		}
	}
	return left - len(r.fresh[pool])
}

// opens: the first instant after now at which more members may begin than now, while those of the
// batch count.
func (r *reference) opens(pool int) time.Time {
	p := r.snapshot.Pools[pool]
	period := time.Duration(p.Rate.PeriodSeconds) * time.Second
	var instants []time.Time
	for _, b := range p.Record.Begun {
		instants = append(instants, b.At.Add(period))
	}
	slices.SortFunc(instants, time.Time.Compare)
	for _, at := range instants {
		if more := max(0, r.left(pool, r.now)); at.After(r.now) && r.left(pool, at) > more {
			return at
		}
	}
	return time.Time{}
}

// holds: before the batch.
func (r *reference) holds(c Candidate) bool {
	if r.before == nil {
		for _, leases := range r.leases {
			r.before = append(r.before, maps.Clone(leases))
		}
	}
	for i := range r.before {
		if _, ok := r.before[i][Holder{c.Resource, c.Group}]; ok {
			return true
		}
	}
	return false
}

func (r *reference) free(c Candidate) Reason {
	if len(c.Needs) == 0 {
		return RuleNotApplicable
	}
	if !c.Begins && r.holds(c) {
		return SlotHeld
	}
	for _, pool := range c.Needs {
		if !r.downIn(int(pool), c.Resource) || !r.keyedIn(int(pool))[c.Resource] && r.snapshot.Pools[pool].Family != "" {
			return ""
		}
		if _, own := r.leases[pool][Holder{c.Resource, c.Group}]; !own && r.snapshot.Pools[pool].Exclusive {
			return ""
		}
	}
	return r.reason(c)
}

// reason: why a candidate that is refused nowhere may start.
func (r *reference) reason(c Candidate) Reason {
	reason := SlotHeld
	for _, pool := range c.Needs {
		if !r.downIn(int(pool), c.Resource) {
			return SlotFree
		}
		if _, ok := r.leases[pool][Holder{c.Resource, c.Group}]; !ok {
			reason = SlotAlreadyDown
		}
	}
	return reason
}

func (r *reference) keys(family string, alsoReserved bool) int {
	n := 0
	for i, p := range r.snapshot.Pools {
		if p.Family == family && !p.Unknown && (len(r.keyedIn(i)) > 0 || alsoReserved && len(r.reserved[i]) > 0) {
			n++
		}
	}
	return n
}

// excluded: another group is at work on the resource, and this one is not.
func (r *reference) excluded(pool int, c Candidate) bool {
	if p := r.snapshot.Pools[pool]; !p.Exclusive || p.Unknown {
		return false
	}
	if _, own := r.leases[pool][Holder{c.Resource, c.Group}]; own {
		return false
	}
	for h := range r.leases[pool] {
		if h.Resource == c.Resource {
			return true
		}
	}
	return false
}

// refusal: before are pools of the candidate that come first, whose keys it needs as well.
func (r *reference) refusal(pool int, c Candidate, before []int32) Reason {
	p, resource := r.snapshot.Pools[pool], c.Resource
	active, reserved := len(r.activeIn(pool)), len(r.reserved[pool])
	group, own := r.reserved[pool][resource]
	theirs := own && p.Exclusive && group != c.Group
	own = own && !theirs
	fresh := 0
	for _, b := range before {
		if r.snapshot.Pools[b].Family == p.Family && !r.snapshot.Pools[b].Unknown && len(r.keyedIn(int(b))) == 0 {
			fresh++
		}
	}
	switch {
	case p.Unknown:
		return PoolUnknown
	case r.max(pool) == 0 && !r.downIn(pool, resource):
		return SlotPaused
	case r.halted(pool) && !r.downIn(pool, resource):
		return SlotHalted
	case active >= r.max(pool) && !r.downIn(pool, resource):
		return SlotFull
	case r.left(pool, r.now) <= 0 && !r.downIn(pool, resource):
		return SlotRateFull
	case theirs && !r.downIn(pool, resource):
		return SlotReserved
	case (active+reserved >= r.max(pool) || reserved >= r.left(pool, r.now)) && !own && !r.downIn(pool, resource):
		return SlotReserved
	case p.Family == "" || len(r.keyedIn(pool)) > 0:
		return ""
	case r.keys(p.Family, false)+fresh >= p.MaxActiveKeys:
		return SlotKeysFull
	case r.keys(p.Family, true)+fresh >= p.MaxActiveKeys && reserved == 0:
		return SlotReserved
	}
	return ""
}

// verdicts are what a plan says, in words.
type verdicts struct {
	admitted []string // candidate reason claims
	refused  []string // candidate pool=reason …
	active   []int
	keys     []bool
	halted   []bool
	opens    []time.Time
	stuck    []string
	next     time.Time
}

func (r *reference) byKey(needs []int32) []int32 {
	needs = slices.Clone(needs)
	slices.SortFunc(needs, func(a, b int32) int { return cmp.Compare(r.snapshot.Pools[a].Key, r.snapshot.Pools[b].Key) })
	return needs
}

func (r *reference) admit(v *verdicts, c Candidate, reason Reason) {
	text := fmt.Sprintf("%d %s %s %s", c.Rank, c.Resource, c.Group, reason)
	for _, n := range r.byKey(c.Needs) {
		pool := int(n)
		if r.snapshot.Pools[pool].Unknown {
			continue
		}
		h := Holder{c.Resource, c.Group}
		l, ok := r.leases[pool][h]
		period := ""
		if l.Token == 0 {
			if !ok {
				l = Lease{Holder: h, State: Active}
				if !r.downIn(pool, c.Resource) && !slices.Contains(r.snapshot.Pools[pool].Unavailable, c.Resource) && r.snapshot.Pools[pool].Rate != (Rate{}) {
					r.fresh[pool][c.Resource] = true
				}
			}
			l.Token = r.tokens[pool]
			r.tokens[pool]++
			r.leases[pool][h] = l
		}
		if r.fresh[pool][c.Resource] {
			period = fmt.Sprint("/", r.snapshot.Pools[pool].Rate.PeriodSeconds)
		}
		delete(r.reserved[pool], c.Resource)
		r.begun[pool][h] = true
		text += fmt.Sprintf(" %s@%d%s", r.snapshot.Pools[pool].Key, l.Token, period)
	}
	v.admitted = append(v.admitted, text)
}

// plan admits as Plan does, by the letter of the rules.
func (r *reference) plan(candidates []Candidate) verdicts {
	v := verdicts{stuck: r.stuck, next: r.next}
	timed := map[int]bool{}
	order := slices.Clone(candidates)
	slices.SortStableFunc(order, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Group, b.Group),
			boolRank(a.Begins)-boolRank(b.Begins),
			slices.CompareFunc(r.byKey(a.Needs), r.byKey(b.Needs), func(x, y int32) int {
				return cmp.Compare(r.snapshot.Pools[x].Key, r.snapshot.Pools[y].Key)
			}))
	})
	reasons := make([]Reason, len(order))
	for i, c := range order {
		reasons[i] = r.free(c)
	}
	for i, c := range order {
		if reasons[i] != "" {
			r.admit(&v, c, reasons[i])
		}
	}
	for i, c := range order {
		if reasons[i] != "" {
			continue
		}
		var refusals []string
		hopeless, strict := false, false
		for i, n := range r.byKey(c.Needs) {
			pool := int(n)
			strict = strict || r.snapshot.Pools[pool].Strict && !r.snapshot.Pools[pool].Unknown
			if r.excluded(pool, c) {
				refusals = append(refusals, r.snapshot.Pools[pool].Key+"="+string(SlotExclusive))
				hopeless = true
				continue
			}
			if r.downIn(pool, c.Resource) && (r.snapshot.Pools[pool].Family == "" || r.keyedIn(pool)[c.Resource]) {
				continue
			}
			if reason := r.refusal(pool, c, r.byKey(c.Needs)[:i]); reason != "" {
				refusals = append(refusals, r.snapshot.Pools[pool].Key+"="+string(reason))
				timed[pool] = timed[pool] || reason == SlotRateFull || reason == SlotReserved
				hopeless = hopeless || reason == SlotPaused || reason == SlotHalted || reason == PoolUnknown
			}
		}
		if len(refusals) == 0 {
			r.admit(&v, c, r.reason(c))
			continue
		}
		v.refused = append(v.refused, fmt.Sprintf("%d %s %s %s", c.Rank, c.Resource, c.Group, strings.Join(refusals, " ")))
		if !strict || hopeless {
			continue
		}
		for _, n := range r.byKey(c.Needs) {
			pool := int(n)
			if _, kept := r.reserved[pool][c.Resource]; !kept && !r.downIn(pool, c.Resource) && r.refusal(pool, Candidate{}, nil) == "" {
				r.reserved[pool][c.Resource] = c.Group
			}
		}
	}
	for i := range r.snapshot.Pools {
		v.opens = append(v.opens, time.Time{})
		if p := r.snapshot.Pools[i]; !p.Unknown && p.Rate != (Rate{}) && r.max(i) > 0 {
			at := r.opens(i)
			if timed[i] && r.left(i, r.now) <= len(r.reserved[i]) {
				if v.opens[i] = at; !at.IsZero() && (v.next.IsZero() || at.Before(v.next)) {
					v.next = at
				}
			}
		}
		v.active = append(v.active, len(r.activeIn(i)))
		v.halted = append(v.halted, r.halted(i))
		v.keys = append(v.keys, r.snapshot.Pools[i].Family != "" && !r.snapshot.Pools[i].Unknown && len(r.keyedIn(i)) > 0)
	}
	return v
}

// say puts a result into the same words.
func say(s Snapshot, candidates []Candidate, r Result) verdicts {
	v := verdicts{next: r.Next}
	for _, a := range r.Admitted {
		c := candidates[a.Candidate]
		text := fmt.Sprintf("%d %s %s %s", c.Rank, c.Resource, c.Group, a.Reason)
		for _, claim := range a.Claims {
			text += fmt.Sprintf(" %s@%d", s.Pools[claim.Pool].Key, claim.Token)
			if claim.PeriodSeconds > 0 {
				text += fmt.Sprint("/", claim.PeriodSeconds)
			}
		}
		v.admitted = append(v.admitted, text)
	}
	for _, a := range r.Refused {
		c := candidates[a.Candidate]
		text := fmt.Sprintf("%d %s %s", c.Rank, c.Resource, c.Group)
		for _, refusal := range r.Refusals[a.Why] {
			text += " " + s.Pools[refusal.Pool].Key + "=" + string(refusal.Reason)
		}
		v.refused = append(v.refused, text)
	}
	for _, p := range r.Pools {
		v.active = append(v.active, p.Active)
		v.opens = append(v.opens, p.RateOpens)
		v.halted = append(v.halted, p.Halted)
		v.keys = append(v.keys, p.KeyActive)
	}
	for _, stuck := range r.Stuck {
		v.stuck = append(v.stuck, s.Pools[stuck.Pool].Key+" "+stuck.Lease.Resource+" "+stuck.Lease.Group)
	}
	slices.Sort(v.stuck)
	return v
}

func boolRank(b bool) int {
	if b {
		return 1
	}
	return 0
}
