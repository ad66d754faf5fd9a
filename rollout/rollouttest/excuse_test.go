package rollouttest_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// touched is what an edit concerned: resources, members as "resource/deployment", versions.
type touched map[string]bool

// touch notes what an edit changed, by comparing the world before with that of now.
func (e *editor) touch(kind string, before *rollout.Snapshot) {
	now := &e.s
	if e.touched[kind] == nil {
		e.touched[kind] = touched{}
	}
	own := e.touched[kind]
	targets := func(s *rollout.Snapshot) map[rollout.TargetID]rollout.Target {
		m := map[rollout.TargetID]rollout.Target{}
		for _, t := range s.Targets {
			m[t.TargetID] = t
		}
		return m
	}
	old, new := targets(before), targets(now)
	for _, t := range slices.Concat(before.Targets, now.Targets) {
		if a, b := old[t.TargetID], new[t.TargetID]; !cmp.Equal(a, b) {
			own[t.Resource], own[t.Resource+"/"+t.Deployment] = true, true
		}
	}
	versions := func(s *rollout.Snapshot) map[string]rollout.Version {
		m := map[string]rollout.Version{}
		for _, v := range s.Versions {
			m[v.Deployment+v.ID] = v
		}
		return m
	}
	was, is := versions(before), versions(now)
	for _, v := range slices.Concat(before.Versions, now.Versions) {
		if a, b := was[v.Deployment+v.ID], is[v.Deployment+v.ID]; !cmp.Equal(a, b) {
			own[v.ID] = true
		}
	}
	for _, r := range slices.Concat(before.DeletedResources, now.DeletedResources) {
		if slices.Contains(before.DeletedResources, r) != slices.Contains(now.DeletedResources, r) {
			own[r] = true
		}
	}
	for _, c := range now.Commands[len(before.Commands):] {
		own[c.Resource] = true
	}
	for _, r := range before.State.Executions {
		if !slices.Contains(now.State.Executions, r) {
			own[r.Resource] = true
		}
	}
	for _, record := range before.State.Brackets { // all that was closed may be closed again otherwise
		if !slices.Contains(now.State.Brackets, record) {
			for _, t := range before.Targets {
				own[t.Resource] = own[t.Resource] || t.Environment == record.Environment
			}
		}
	}
	if strings.HasPrefix(kind, "state ") {
		e.unhold()
	}
}

// unhold notes the slots that what was started so far does not hold any more: they were lost with
// the state, or given back at the end of an execution that only the state knew of. If that is found
// again it has none until its next start.
func (e *editor) unhold() {
	held := map[string]bool{}
	for _, record := range e.s.State.Pools {
		for _, l := range record.Leases {
			held[slot(l.Pool, l.Resource, l.Group)] = true
		}
	}
	for _, start := range e.dispatched {
		for _, claim := range start.Claims {
			if key := slot(claim.Pool, start.Resource, start.Group); !held[key] {
				e.lost[key] = true
			}
		}
	}
}

func slot(pool, resource, group string) string {
	return strings.Join([]string{pool, resource, group}, " ")
}

// startedSince are the resources on which something began after an instant.
func (e *editor) startedSince(at time.Time) touched {
	own := touched{}
	for _, t := range e.s.Targets {
		if slices.ContainsFunc(t.Jobs, func(j rollout.Job) bool { return j.CreatedAt.After(at) }) {
			own[t.Resource] = true
		}
	}
	for _, r := range e.s.State.Executions {
		if r.Open != nil && r.Open.StartedAt.After(at) {
			own[r.Resource] = true
		}
	}
	return own
}

// excuse is a finding that is documented, or what the edit itself says. One that names what it is
// about is none where the edit did not concern that.
type excuse struct {
	finding, did, why string
	about             func(e *editor, own touched, text string) bool // nil: nobody can tell
}

func (e *editor) excuses(finding, text string) bool {
	for _, x := range excuses {
		if strings.HasPrefix(finding+": "+text, x.finding) && e.did[x.did] && (x.about == nil || x.about(e, e.touched[x.did], text)) {
			e.seen["excused "+x.finding+", "+x.did]++
			return true
		}
	}
	return false
}

// there: the text says "… on r1: …" of a resource that was touched.
func there(_ *editor, own touched, text string) bool {
	_, rest, found := strings.Cut(text, " on ")
	resource, _, _ := strings.Cut(rest, ":")
	return found && own[resource]
}

// thereof: the text says "… starts v1, …" or "… the newer v1" of a version that was touched.
func thereof(_ *editor, own touched, text string) bool {
	_, rest, _ := strings.Cut(text, ": starts ")
	version, rest, _ := strings.Cut(rest, ",")
	return own[version] || own[rest[strings.LastIndex(rest, " ")+1:]]
}

// repeated: it is there, and somebody said that a run be repeated there.
func repeated(e *editor, own touched, text string) bool {
	_, rest, _ := strings.Cut(text, " on ")
	resource, _, _ := strings.Cut(rest, ":")
	return own[resource] && slices.ContainsFunc(e.s.Commands, func(c bracket.Command) bool { return c.Resource == resource && c.Kind == bracket.Retry })
}

// drained: the text says "[r1 prod], [c d] never ran".
func drained(_ *editor, own touched, text string) bool {
	resource, _, _ := strings.Cut(strings.TrimPrefix(text, "["), " ")
	return own[resource]
}

// makesUp: and it is the one that would run which was touched.
func makesUp(_ *editor, own touched, text string) bool {
	resource, rest, _ := strings.Cut(strings.TrimPrefix(text, "["), " ")
	_, rest, _ = strings.Cut(rest, "[")
	list, _, _ := strings.Cut(rest, "]")
	return slices.ContainsFunc(strings.Fields(list), func(d string) bool { return own[resource+"/"+d] })
}

// unheld: a run was started with a slot that was lost.
func unheld(e *editor, _ touched, text string) bool {
	run, rest, _ := strings.Cut(strings.TrimPrefix(text, "lease: "), ": its execution is open and its slot in pool ")
	pool, _, _ := strings.Cut(rest, " ")
	start, known := e.dispatched[run]
	return known && e.lost[slot(pool, start.Resource, start.Group)]
}

// inPool are the pool and the resources that the invariant limit names.
func inPool(text string) (pool string, resources []string) {
	_, rest, _ := strings.Cut(text, "pool ")
	pool, rest, _ = strings.Cut(rest, " ")
	_, rest, _ = strings.Cut(rest, ": ")
	return pool, strings.Split(rest, ", ")
}

// uncounted: a slot was lost that a job was started with, and by the policies and labels of now
// nothing that is at work on the resource needs one there.
func uncounted(e *editor, _ touched, text string) bool {
	pool, resources := inPool(text)
	return slices.ContainsFunc(resources, func(resource string) bool {
		lost := slices.ContainsFunc(e.s.Targets, func(t rollout.Target) bool {
			return t.Resource == resource && slices.ContainsFunc(t.Jobs, func(j rollout.Job) bool {
				return !j.Status.Terminal() && e.lost[slot(pool, resource, e.dispatched[j.Run].Group)]
			})
		})
		return lost && !slices.ContainsFunc(e.s.Targets, func(t rollout.Target) bool {
			return t.Resource == resource && e.atWork(t) && e.needs(t, pool)
		})
	})
}

// atWork reports whether a target has an active job, or is that of a member of an open execution
// that runs.
func (e *editor) atWork(t rollout.Target) bool {
	if slices.ContainsFunc(t.Jobs, func(j rollout.Job) bool { return !j.Status.Terminal() }) {
		return true
	}
	for _, r := range e.s.State.Executions {
		if r.Resource == t.Resource && r.Open != nil && r.Open.Environment == t.Environment {
			for _, m := range r.Open.Members {
				if m.Deployment == t.Deployment && m.Action != bracket.ActionSkip {
					return true
				}
			}
		}
	}
	return false
}

// needs reports whether the policies in force give a target a place in a pool.
func (e *editor) needs(t rollout.Target, pool string) bool {
	for _, p := range e.tree() {
		if p["enabled"] == false || !e.holds(p["selector"].(string), t.TargetID, nil) {
			continue
		}
		for _, rule := range rulesOf(p) {
			own, is := rule["resourceConcurrency"].(map[string]any)
			if !is || !e.holds(own["groupSelector"].(string), t.TargetID, nil) {
				continue
			}
			key := rule["id"].(string)
			if shared, is := own["sharedPool"].(string); is {
				key = shared
			}
			if own["groupBy"] != nil {
				r := e.s.Resources[slices.IndexFunc(e.s.Resources, func(r rollout.Resource) bool { return r.ID == t.Resource })]
				key += "/" + r.Metadata["region"]
			}
			if key == pool {
				return true
			}
		}
	}
	return false
}

// holds answers one of the expressions of these worlds, in a simple way: a comparison, or several
// of which one or all have to hold. Without a version it is not asked about one.
func (e *editor) holds(text string, id rollout.TargetID, v *rollout.Version) bool {
	if some := strings.Split(text, " || "); len(some) > 1 {
		return slices.ContainsFunc(some, func(text string) bool { return e.holds(text, id, v) })
	}
	if all := strings.Split(text, " && "); len(all) > 1 {
		return !slices.ContainsFunc(all, func(text string) bool { return !e.holds(text, id, v) })
	}
	if text == "" || text == "true" || text == "false" {
		return text != "false"
	}
	r := e.s.Resources[slices.IndexFunc(e.s.Resources, func(r rollout.Resource) bool { return r.ID == id.Resource })]
	env := e.s.Environments[slices.IndexFunc(e.s.Environments, func(r rollout.Environment) bool { return r.ID == id.Environment })]
	d := e.s.Deployments[slices.IndexFunc(e.s.Deployments, func(r rollout.Deployment) bool { return r.ID == id.Deployment })]
	words := strings.Fields(text)
	values := map[string]string{"resource.id": r.ID, "resource.name": r.Name, "environment.id": env.ID, "environment.name": env.Name, "deployment.id": d.ID, "deployment.name": d.Name}
	for key, value := range r.Metadata {
		values["resource.metadata['"+key+"']"] = value
	}
	if v != nil {
		values["version.tag"] = v.Tag
		for key, value := range v.Metadata {
			values["version.metadata['"+key+"']"] = value
		}
	}
	value, known := values[words[0]]
	switch {
	case len(words) != 3 || !known && !strings.Contains(words[0], ".metadata["):
		panic(text)
	case words[1] == "==":
		return known && "'"+value+"'" == words[2]
	case words[1] == "!=":
		return known && "'"+value+"'" != words[2]
	}
	panic(text)
}

// ahead: something is dated after now.
func ahead(e *editor, _ touched, _ string) bool {
	return slices.ContainsFunc(e.s.Targets, func(t rollout.Target) bool {
		return slices.ContainsFunc(t.Jobs, func(j rollout.Job) bool { return j.CreatedAt.After(e.now) || j.CompletedAt.After(e.now) })
	})
}

var excuses = []excuse{
	{"saved", "clock back", "a job of the future is waited for before what it held is given back", ahead},
	{"quiet", "clock back", "a job of the future is waited for before what it held is given back", ahead},
	{"invariant: lease", "state lost", "a slot that was lost is taken again with the next start only", unheld},
	{"invariant: lease", "state one lost", "a slot that was lost is taken again with the next start only", unheld},
	{"invariant: lease", "state restored", "a slot that was lost is taken again with the next start only", unheld},
	{"invariant: limit", "state lost", "a slot that was lost counts only for what needs one by now", uncounted},
	{"invariant: limit", "state one lost", "a slot that was lost counts only for what needs one by now", uncounted},
	{"invariant: limit", "state restored", "a slot that was lost counts only for what needs one by now", uncounted},
	{"invariant: forward", "version republished", "a version that changes its CreatedAt changes what is older than what", thereof},
	{"invariant: forward", "state restored", "an operator repeats what failed in an execution that was open then, and that has ended since", repeated},
	{"invariant: order", "host forgets", "the invariants look for the jobs that did it", there},
	{"invariant: order", "host changes its mind", "the invariants look for the jobs that did it", there},
	{"invariant: order", "fleet target renewed", "the invariants look for the jobs that did it", there},
	{"invariant: order", "fleet resource deleted", "it is made again under its name before anybody has seen that it was gone", there},
	{"invariant: order", "clock back", "the invariants look for jobs by their instants", there},
	{"invariant: locked", "fleet target renewed", "what was current is not seen any more", there},
	{"invariant: locked", "host forgets", "what was current is not seen any more", there},
	{"invariant: locked", "fleet resource deleted", "what was current is not seen any more", there},
	{"invariant: locked", "state one lost", "a group that is closed again after some of its deployments have gone locks less than it had, and its execution goes on", there},
	{"drained", "fleet deployment removed", "the node lost its uncordon", makesUp},
	{"drained", "fleet target removed", "the node lost its uncordon", makesUp},
	{"drained", "fleet resource deleted", "the node is another one", drained},
	{"drained", "state lost", "an execution of a group that cannot be closed again as it was is gone with the state", drained},
	{"drained", "state one lost", "an execution of a group that cannot be closed again as it was is gone with the state", drained},
	{"drained", "state restored", "an execution of a group that cannot be closed again as it was is gone with the state", drained},
	{"drained", "command", "an operator resolves, abandons and skips", drained},
}

// violations are the findings in an error of [rollouttest.Step.Check], each with the name of its
// invariant.
func violations(err error) (list []string) {
	all := func(err error) []error {
		if joined, is := err.(interface{ Unwrap() []error }); is {
			return joined.Unwrap()
		}
		return []error{err}
	}
	for _, v := range all(err) {
		broken := v.(*rollouttest.Violation)
		for _, fault := range all(broken.Err) {
			list = append(list, fmt.Sprintf("%s: %v", broken.Invariant, fault))
		}
	}
	return list
}
