package rollouttest_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/rollout"
	"pgregory.net/rapid"
)

func (u *upheaval) versionEdits() (list []drawnEdit) {
	add := func(kind string, do func() bool) { list = append(list, drawnEdit{kind, do}) }
	ver := func(kind string, do func(*rollout.Version)) {
		add("version "+kind, func() bool {
			k := u.pick(len(u.s.Versions))
			if k < 0 {
				return false
			}
			do(&u.s.Versions[k])
			u.note("%+v", u.s.Versions[k])
			return true
		})
	}
	for range 2 {
		ver("status", func(v *rollout.Version) {
			v.Status = rollout.VersionStatus(u.of("ready", "ready", "paused", "building", "withdrawn"))
		})
	}
	ver("scope", func(v *rollout.Version) {
		v.TargetSelector = u.of("", "resource.metadata['region'] == 'eu'", "environment.name == 'prod'", "resource.name == 'r1'", "resource.name != 'r1'")
	})
	ver("needs", func(v *rollout.Version) {
		v.Dependencies = nil
		if u.chance(70) {
			v.Dependencies = []rollout.VersionDependency{{Deployment: u.of("a", "b", "c"), VersionSelector: u.of("true", "version.tag >= '2'")}}
		}
	})
	ver("republished", func(v *rollout.Version) { v.CreatedAt = u.now })
	add("version deleted", func() bool {
		k := u.pick(len(u.s.Versions))
		if k < 0 {
			return false
		}
		u.note("deleted %+v", u.s.Versions[k])
		u.s.Versions = slices.Delete(u.s.Versions, k, k+1)
		return true
	})
	for range 2 {
		add("version released", func() bool {
			if len(u.s.Deployments) == 0 {
				return false
			}
			u.ids++
			d := u.s.Deployments[rapid.IntRange(0, len(u.s.Deployments)-1).Draw(u.T, "deployment")].ID
			v := version(d, fmt.Sprintf("%s9%d", d, u.ids), u.now)
			v.Tag, v.Metadata = "4", map[string]string{"channel": "stable"}
			u.s.Versions = append(slices.Clip(u.s.Versions), v)
			u.note("%+v", v)
			return true
		})
	}
	add("approvals revoked", func() bool {
		u.s.Approvals = slices.DeleteFunc(slices.Clone(u.s.Approvals), func(a rollout.Approval) bool { return u.chance(50) })
		return true
	})
	add("approvals given", func() bool {
		for _, v := range u.s.Versions {
			for _, e := range u.s.Environments {
				u.s.Approvals = append(slices.Clip(u.s.Approvals), rollout.Approval{Version: v.ID, Deployment: v.Deployment, Environment: e.ID, By: u.of("ann", "bob"), Status: rollout.Approved, At: u.now})
			}
		}
		return true
	})
	add("override", func() bool {
		p := u.tree()
		own := u.pickPolicy(p)
		k := u.pickRule(own)
		if k < 0 || len(u.s.Versions) == 0 {
			return false
		}
		u.ids++
		o := rollout.Override{ID: fmt.Sprint("o", u.ids), Rule: rulesOf(own)[k]["id"].(string), Version: rapid.SampledFrom(u.s.Versions).Draw(u.T, "let past").ID, CreatedAt: u.now, CreatedBy: "ann", Reason: "urgent"}
		if u.chance(60) {
			o.ExpiresAt = o.CreatedAt.Add(time.Duration(u.number(1, 30, 300)) * time.Minute)
		}
		u.s.Overrides = append(slices.Clip(u.s.Overrides), o)
		u.note("%+v", o)
		return true
	})
	for range 4 {
		add("freeze", func() bool { // preferably where a node is being drained
			u.ids++
			z := u.drawn.freeze(fmt.Sprint("edit", u.ids), u.now)
			for _, record := range u.s.State.Executions {
				if record.Open != nil && u.chance(80) {
					z.Resource, z.Environment, z.Deployment, z.FinishBegun = record.Resource, "", u.of("", "", "", "b", "d"), u.chance(30)
					z.PauseCurves = false // which a resource does not have
					break
				}
			}
			u.s.Freezes = append(slices.Clip(u.s.Freezes), z)
			u.note("%+v", z)
			return true
		})
	}
	add("freeze lifted", func() bool {
		k := u.pick(len(u.s.Freezes))
		if k < 0 {
			return false
		}
		u.note("lifted %s", u.s.Freezes[k].ID)
		u.s.Freezes = slices.Delete(slices.Clone(u.s.Freezes), k, k+1)
		return true
	})
	return list
}

// stateEdits are those of the state, of what the host knows of its jobs, of the clock, and what
// operators do.
func (u *upheaval) stateEdits() (list []drawnEdit) {
	add := func(kind string, do func() bool) { list = append(list, drawnEdit{kind, do}) }
	add("unavailable", func() bool {
		u.s.Unavailable = nil
		if u.chance(60) {
			u.s.Unavailable = []string{u.of("r0", "r1", "r2")}
		}
		u.note("unavailable %v", u.s.Unavailable)
		return true
	})
	add("outdated", func() bool {
		k := u.pick(len(u.s.Targets))
		if k < 0 {
			return false
		}
		u.s.Targets = slices.Clone(u.s.Targets)
		u.s.Targets[k].OutdatedAt = u.now
		u.note("%v outdated", u.s.Targets[k].TargetID)
		return true
	})
	add("command", func() bool {
		for _, record := range u.s.State.Executions {
			if record.Open == nil || u.chance(30) {
				continue
			}
			u.ids++
			c := bracket.Command{ID: fmt.Sprint("c", u.ids), Kind: bracket.CommandKind(u.of("retry", "skip", "resolve", "abandon")), Group: record.Open.Group, Resource: record.Resource}
			if c.Kind == bracket.Retry || c.Kind == bracket.Skip {
				c.Deployment = rapid.SampledFrom(record.Open.Members).Draw(u.T, "member").Deployment
			}
			if c.Kind != bracket.Retry {
				u.did[string(c.Kind)] = true
			}
			u.s.Commands = append(slices.Clip(u.s.Commands), c)
			u.note("command %+v", c)
			return true
		}
		return false
	})
	add("state lost", func() bool {
		u.s.State = rollout.State{}
		return true
	})
	add("state one lost", func() bool {
		s := u.editor.s.State
		switch u.of("brackets", "executions", "rollouts", "pools") {
		case "brackets":
			if len(s.Brackets) == 0 {
				return false
			}
			k := rapid.IntRange(0, len(s.Brackets)-1).Draw(u.T, "record")
			u.note("lost %s in %s", s.Brackets[k].Rule, s.Brackets[k].Environment)
			s.Brackets = slices.Delete(slices.Clone(s.Brackets), k, k+1)
		case "executions":
			if len(s.Executions) == 0 {
				return false
			}
			k := rapid.IntRange(0, len(s.Executions)-1).Draw(u.T, "record")
			u.note("lost %s on %s", s.Executions[k].Rule, s.Executions[k].Resource)
			s.Executions = slices.Delete(slices.Clone(s.Executions), k, k+1)
		case "rollouts":
			if len(s.Rollouts) == 0 {
				return false
			}
			k := rapid.IntRange(0, len(s.Rollouts)-1).Draw(u.T, "record")
			u.note("lost %+v", s.Rollouts[k])
			s.Rollouts = slices.Delete(slices.Clone(s.Rollouts), k, k+1)
		case "pools":
			if len(s.Pools) == 0 {
				return false
			}
			k := rapid.IntRange(0, len(s.Pools)-1).Draw(u.T, "record")
			u.note("lost %+v", s.Pools[k])
			s.Pools = slices.Delete(slices.Clone(s.Pools), k, k+1)
		}
		u.editor.s.State = s
		return true
	})
	add("state restored", func() bool {
		if len(u.backups) == 0 {
			return false
		}
		k := max(0, len(u.backups)-u.number(1, 2, 3, 5, 8, 13))
		u.note("state of %d plans ago", len(u.backups)-k)
		u.s.State = u.backups[k]
		return true
	})
	add("host forgets", func() bool {
		k := u.pick(len(u.s.Targets))
		if k < 0 || len(u.s.Targets[k].Jobs) == 0 {
			return false
		}
		which := u.of("ended", "all")
		u.s.Targets = slices.Clone(u.s.Targets)
		t := &u.s.Targets[k]
		t.Jobs = slices.DeleteFunc(slices.Clone(t.Jobs), func(j rollout.Job) bool { return which == "all" || j.Status.Terminal() })
		u.note("%s jobs of %v forgotten", which, t.TargetID)
		return true
	})
	add("host changes its mind", func() bool {
		k := u.pick(len(u.s.Targets))
		if k < 0 || len(u.s.Targets[k].Jobs) == 0 {
			return false
		}
		u.s.Targets = slices.Clone(u.s.Targets)
		t := &u.s.Targets[k]
		t.Jobs = slices.Clone(t.Jobs)
		job := &t.Jobs[rapid.IntRange(0, len(t.Jobs)-1).Draw(u.T, "job")]
		if !job.Status.Terminal() {
			return false
		}
		job.Status = rollout.JobStatus(u.of("failure", "successful", "inProgress", "cancelled"))
		if job.Status == rollout.JobInProgress {
			job.CompletedAt = time.Time{}
		}
		if job.Status == rollout.JobSuccessful {
			t.Current = job.Version
		}
		u.note("%s is %s after all", job.Run, job.Status)
		return true
	})
	add("host deploys by hand", func() bool { // preferably where a node is being drained, and something newer than what is locked
		var idle, waiting []int
		for k, t := range u.s.Targets {
			if slices.ContainsFunc(t.Jobs, func(j rollout.Job) bool { return !j.Status.Terminal() }) {
				continue
			}
			idle = append(idle, k)
			if slices.ContainsFunc(u.s.State.Executions, func(r *bracket.ExecutionRecord) bool { return r.Resource == t.Resource && r.Open != nil }) {
				waiting = append(waiting, k)
			}
		}
		if len(waiting) > 0 {
			idle = waiting
		}
		if len(idle) == 0 {
			return false
		}
		u.s.Targets = slices.Clone(u.s.Targets)
		t := &u.s.Targets[rapid.SampledFrom(idle).Draw(u.T, "target")]
		if u.chance(60) {
			u.ids++
			v := version(t.Deployment, fmt.Sprintf("%s9%d", t.Deployment, u.ids), u.now)
			v.Status = rollout.VersionPaused
			u.s.Versions = append(slices.Clip(u.s.Versions), v)
			t.Current = v.ID
		} else {
			own := slices.DeleteFunc(slices.Clone(u.s.Versions), func(v rollout.Version) bool { return v.Deployment != t.Deployment })
			if len(own) == 0 {
				return false
			}
			t.Current = rapid.SampledFrom(own).Draw(u.T, "version").ID // an older one as well
		}
		t.Jobs = append(slices.Clip(t.Jobs), rollout.Job{Version: t.Current, Status: rollout.JobSuccessful, CreatedAt: u.now, CompletedAt: u.now})
		u.note("%v has %s by hand", t.TargetID, t.Current)
		return true
	})
	add("clock back", func() bool {
		d := time.Duration(u.number(1, 60, 600, 3600)) * time.Second
		u.now = u.now.Add(-d)
		if u.touched["clock back"] == nil {
			u.touched["clock back"] = touched{}
		}
		maps.Copy(u.touched["clock back"], u.startedSince(u.now))
		u.note("clock back by %v", d)
		return true
	})
	return list
}
