package rollout

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/internal/strictjson"
)

// DeploymentWindow lets jobs start while a window is open, or with allowWindow false while it is
// closed. The windows of one policy form one calendar, in which the allowing windows are united and
// the others taken away. If several policies have windows, all their calendars must be open.
// Gradual rollouts advance in open time only, so a rollout that a window interrupts goes on where
// it stopped. Windows apply to starts only: a job that is running when a window closes runs on.
// Package clock documents boundaries and time zones. (Deployment windows of ctrlplane's policy
// rules.)
//
// A plan looks for openings within five years. One that is further away is as good as none: the
// verdict says that there is none, and [Plan.Next] does not wake the host when it comes within
// reach.
type DeploymentWindow struct {
	clock.Window

	// FirstDeploy says whether targets without a current version wait for the window too. Unset:
	// bypass.
	FirstDeploy FirstDeploy `json:"firstDeploy,omitempty"`

	// MinimumRemainingMinutes is how long all windows must remain open after a start. Set it to the
	// length of a job, so that the job ends inside. At least 0; 0 requires nothing.
	MinimumRemainingMinutes int64 `json:"minimumRemainingMinutes,omitempty"`
}

// FirstDeploy says whether a window applies to a target without a current version.
type FirstDeploy string

const (
	FirstDeployBypass FirstDeploy = "bypass" // it does not apply; the default
	FirstDeployApply  FirstDeploy = "apply"  // it applies as to any other target
)

// Validate reports every fault that can be seen without zone data, joined, each a *[FieldError].
func (d DeploymentWindow) Validate() error {
	var f faults
	f.under("", d.Window.Validate())
	oneOf(&f, "firstDeploy", d.FirstDeploy, FirstDeployBypass, FirstDeployApply)
	f.within("minimumRemainingMinutes", d.MinimumRemainingMinutes, 0, maxSeconds/60, "minutes")
	return f.err()
}

// allows reports whether the window allows starts; otherwise it forbids them.
func (d *DeploymentWindow) allows() bool { return d.AllowWindow == nil || *d.AllowWindow }

func (d *DeploymentWindow) remaining() time.Duration {
	return time.Duration(d.MinimumRemainingMinutes) * time.Minute
}

// applied leaves out the windows that a target without a current version does not wait for.
func applied(rules []*compiledRule) []*compiledRule {
	var some []*compiledRule
	for _, rule := range rules {
		if rule.window.FirstDeploy == FirstDeployApply {
			some = append(some, rule)
		}
	}
	return some
}

// window compiles the window of a rule on its own, to report its faults.
func (c *compilation) window(path string, r *compiledRule, own *DeploymentWindow) {
	r.window = own
	calendar, err := clock.NewCalendar([]clock.Window{own.Window}, c.zone)
	told := strictjson.Faults(own.Window.Validate())
	unknown := func(fault strictjson.Error) bool { return Code(fault.Code) == Code(clock.CodeTimezoneUnknown) }
	below := func(field string) string {
		return join(path, strings.TrimPrefix(strings.TrimPrefix(field, "windows[0]"), "."))
	}
	for _, fault := range strictjson.Faults(err) {
		zone := unknown(fault)
		if len(told) > 0 && (!zone || slices.ContainsFunc(told, unknown)) {
			continue // Policy.Validate reports it; in a window with other faults, compiling finds no more than an unknown zone
		}
		if c.set.load == nil && zone { // it may well exist
			fault.Hint = "cannot be looked up: Compile and Load know UTC alone, unless they are given WithZones(time.LoadLocation)"
		}
		c.list = append(c.list, &FieldError{Path: below(fault.Path), Code: Code(fault.Code), Value: fault.Value, Hint: fault.Hint})
		var fields []string
		for _, field := range fault.Fields {
			fields = append(fields, below(field))
		}
		c.reading(fields...)
	}
	r.calendar = calendar
}

// zone loads a zone once, so that all calendars, including those that are built later, share it.
func (c *compilation) zone(name string) (*time.Location, error) {
	if c.set.load == nil {
		return nil, errors.New("no zones were given")
	}
	if known, ok := c.set.zones[name]; ok {
		return known, nil
	}
	location, err := c.set.load(name)
	if err == nil { // the caller refuses a nil location
		c.set.zones[name] = location
	}
	return location, err
}
