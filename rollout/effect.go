package rollout

import (
	"fmt"
	"slices"
)

// This file finds out which overrides can have no effect, so that whoever gave one learns it. There
// may be as many overrides as targets: what is asked for each is the views of the targets that it is
// for, of which many targets share one, and these are found once for all overrides of the same scope.

// noSuchTarget is said of what names things that exist, but not together.
const noSuchTarget = "there is no such target"

// effects finds out whether overrides can have an effect.
type effects struct {
	*work
	having   map[string][]int32        // by the id of a version: the deployments that have it, ascending; of the ids that an override asks for in any of them
	views    map[overrideReach][]int32 // the views of the targets of a scope, ascending
	governed map[governedIn]bool       // whether a policy governs any of them
}

// overrideReach is whom an override is for: none stands for every resource or environment.
type overrideReach struct {
	resource, environment int32
	deployment            int32  // none: all that have the version
	version               string // set only without a deployment
}

type governedIn struct {
	policy int32
	overrideReach
}

func (w *work) newEffects(list []Override) *effects {
	e := &effects{work: w, having: map[string][]int32{}, views: map[overrideReach][]int32{}, governed: map[governedIn]bool{}}
	for i := range list {
		if list[i].Deployment == "" {
			e.having[list[i].Version] = nil
		}
	}
	if len(e.having) == 0 {
		return e
	}
	for d := range w.versions {
		for _, v := range w.versions[d].list {
			if own, asked := e.having[v.ID]; asked {
				e.having[v.ID] = append(own, int32(d))
			}
		}
	}
	return e
}

// ineffective says why an override has no effect: its rule cannot be overridden, something that it
// names does not exist, or its rule governs no target that it is for. It returns "" if the override
// may have an effect, also if the version is in no scope or too old on all of these targets, and if
// the rule has nothing to say on them: all that depends on more than whom the rule governs.
func (e *effects) ineffective(o *Override) string {
	rule := e.set.rule(o.Rule)
	switch {
	case rule == nil && !e.set.custom(o.Rule):
		return "no enabled policy has this rule"
	case rule != nil && rule.bracket != nil:
		return "no version is let out of its bracket"
	}
	if why := e.unknown(o.Resource, o.Environment, o.Deployment); why != "" {
		return why
	}
	at, deployments, why := e.reachOf(o)
	if why != "" {
		return why
	}
	switch views := e.viewsOf(at, deployments); {
	case len(views) == 0 && o.Deployment != "":
		return noSuchTarget
	case len(views) == 0:
		return fmt.Sprintf("%s whose deployment has a version %q", noSuchTarget, o.Version)
	case rule != nil && !e.governs(rule.policy.number, at, views): // a rule of the host's governs all
		return "the rule governs none of its targets"
	}
	return ""
}

// reachOf returns whom an override is for, with the deployments, ascending, or says that none of them
// has its version. All that it names exists.
func (e *effects) reachOf(o *Override) (at overrideReach, deployments []int32, why string) {
	at = overrideReach{none, none, none, ""}
	if o.Resource != "" {
		at.resource, _ = e.resource(o.Resource)
	}
	if o.Environment != "" {
		at.environment, _ = e.environment(o.Environment)
	}
	if o.Deployment == "" {
		deployments = e.having[o.Version]
		switch len(deployments) {
		case 0:
			return at, nil, fmt.Sprintf("no deployment has a version %q", o.Version)
		case 1: // each of its versions may have an override: they all share the scope of the deployment
			at.deployment = deployments[0]
		default:
			at.version = o.Version
		}
		return at, deployments, ""
	}
	at.deployment, _ = e.deployment(o.Deployment)
	if _, known := e.versions[at.deployment].byID[o.Version]; !known {
		return at, nil, fmt.Sprintf("%s has no version %q", o.Deployment, o.Version)
	}
	return at, []int32{at.deployment}, ""
}

// viewsOf lists the views of the targets of some deployments, ascending. Without a resource, those of
// several deployments are put together from those of each: else an override for each version of many
// deployments would go over all their targets.
func (e *effects) viewsOf(at overrideReach, deployments []int32) []int32 {
	if list, known := e.views[at]; known {
		return list
	}
	var list []int32
	add := func(targets []int32) {
		for _, i := range targets {
			if view := e.view[i]; len(list) == 0 || list[len(list)-1] != view {
				list = append(list, view)
			}
		}
	}
	switch {
	case at.resource != none && at.environment != none:
		from, to := e.siblingsIn(at.environment, at.resource)
		add(e.common(nil, from, to, deployments))
	case at.resource != none:
		for from, to := range e.everywhere(at.resource) {
			add(e.common(nil, from, to, deployments))
		}
	case at.deployment == none:
		for k, d := range deployments {
			list = append(list, e.viewsOf(overrideReach{none, at.environment, d, ""}, deployments[k:k+1])...)
		}
	case at.environment != none:
		add(e.targetsIn(at.environment, at.deployment))
	default:
		for environment := range int32(len(e.environments)) {
			add(e.targetsIn(environment, at.deployment))
		}
	}
	slices.Sort(list)
	list = slices.Compact(list)
	if at.resource == none || at.deployment == none { // else it is found as quickly as this
		e.views[at] = list
	}
	return list
}

// governs reports whether a policy governs targets with any of the views of a scope.
func (e *effects) governs(policy int32, at overrideReach, views []int32) bool {
	few, many := views, e.work.views.with[policy]
	if len(few) > len(many) {
		few, many = many, few
	}
	key := governedIn{policy, at}
	governed, known := e.governed[key]
	if !known {
		governed = slices.ContainsFunc(few, func(view int32) bool {
			_, has := slices.BinarySearch(many, view)
			return has
		})
		if len(few) > fewViews { // else it is found as quickly as this
			e.governed[key] = governed
		}
	}
	return governed
}
