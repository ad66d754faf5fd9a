package partition

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// WarningCode is a kind of warning. Codes are part of the compatibility promise.
type WarningCode string

// The kinds of warnings.
const (
	WarningGateWithoutEffect  WarningCode = "gate_without_effect"  // with this maxUnavailable no partition counts as not ready once all its members are released
	WarningGateMissing        WarningCode = "gate_missing"         // no maxUnavailable is written by which any manual partition would wait for another one
	WarningLimitWithoutEffect WarningCode = "limit_without_effect" // this maxUnavailable holds nothing back: one batch releases all, and no partition waits for them
	WarningSizeWithoutEffect  WarningCode = "size_without_effect"  // this autoPartitionSize cuts nothing: there are fewer clusters than the default threshold
	WarningClamped            WarningCode = "clamped"              // a limit below 0 counts as 0, one above 100% as 100%
	WarningNoCriterion        WarningCode = "no_criterion"         // a manual partition has no criterion
	WarningNoMember           WarningCode = "no_member"            // a manual partition matches no cluster, and is passed at once
	WarningNoOwnMember        WarningCode = "no_own_member"        // all members of a manual partition are in earlier ones, which have their turns first
	WarningIgnoredField       WarningCode = "ignored_field"        // a field has no meaning beside the others
)

// Warning is a legal configuration that its author may not have meant. A warning is never a reason
// to refuse it.
type Warning struct {
	Code WarningCode `json:"code"`
	Path string      `json:"path"` // the field to look at
	Text string      `json:"text"` // for people
}

// String returns "path: text (code)".
func (w Warning) String() string { return w.Path + ": " + w.Text + " (" + string(w.Code) + ")" }

// warn lists legal settings that their author may not have meant, in a fixed order.
func (c *Compiled) warn(strategy *Strategy, options Options) (list []Warning) {
	automatic := len(strategy.Partitions) == 0 || options.Leftovers == AppendLeftovers
	first := c.firsts()
	limited := slices.ContainsFunc(c.partitions, func(p part) bool { return p.max < int(p.count) })
	if !strategy.MaxUnavailablePartitions.IsZero() && len(c.members) > 0 && !limited {
		list = append(list, Warning{WarningGateWithoutEffect, "maxUnavailablePartitions",
			"maxUnavailable lets all members of every partition be NotReady, so no partition ever counts once it is released: lower maxUnavailable"})
	} else if c.unguarded(strategy, first) {
		list = append(list, Warning{WarningGateMissing, "partitions",
			"without maxUnavailable all members of a partition may be NotReady, so no later one waits until they are ready: write maxUnavailable: 0, or as many as may be"})
	}
	idle := c.idle(strategy, options)
	limit := func(v value) {
		if text := v.clamped(); text != "" {
			list = append(list, Warning{WarningClamped, v.path(), text})
		}
		if idle[v.path()] {
			list = append(list, Warning{WarningLimitWithoutEffect, v.path(),
				fmt.Sprintf("one batch of %d releases all members: lower maxNew, or for updates choose releases: %q", c.maxNew, ByBudget)})
		}
	}
	limit(global(strategy.MaxUnavailable, "maxUnavailable"))
	limit(global(strategy.MaxUnavailablePartitions, "maxUnavailablePartitions"))
	if size := strategy.AutoPartitionSize; automatic && size.form == isString { // an int of 0 or less means a single partition
		limit(global(size, "autoPartitionSize"))
	}
	if n := c.uncut(strategy, automatic); n > 0 {
		list = append(list, Warning{WarningSizeWithoutEffect, "autoPartitionSize",
			fmt.Sprintf("there is one partition of %s, because fewer than %d are not cut: write autoPartitionThreshold: 1 to have them cut", counted(n, "cluster", "clusters"), defaultThreshold)})
	}
	for i := range strategy.Partitions {
		path := fmt.Sprintf("partitions[%d]", i)
		switch {
		case strategy.Partitions[i].empty():
			list = append(list, Warning{WarningNoCriterion, path,
				"a partition without criterion has no members: write clusterSelector: {} for all clusters"})
		case c.partitions[i].count == 0 && len(c.names) > 0:
			list = append(list, Warning{WarningNoMember, path, "no cluster matches, so the rollout passes this partition at once: check its criteria"})
		case first != nil && first[i] == 0 && int(c.partitions[i].count) < len(c.names): // one of all clusters is for those to come
			list = append(list, Warning{WarningNoOwnMember, path, "all its clusters are in earlier partitions as well, which have their turns first: move it before them, or leave its clusters out of them"})
		}
		limit(value{strategy.Partitions[i].MaxUnavailable, "maxUnavailable", i})
	}
	if !automatic {
		if !strategy.AutoPartitionSize.IsZero() {
			list = append(list, Warning{WarningIgnoredField, "autoPartitionSize", "has no meaning beside manual partitions"})
		}
		if strategy.AutoPartitionThreshold != nil {
			list = append(list, Warning{WarningIgnoredField, "autoPartitionThreshold", "has no meaning beside manual partitions"})
		}
	}
	return list
}

// unguarded reports whether manual partitions never wait for each other, although nobody wrote that
// they need not: of none that others wait for is it written how many members may be NotReady, and the
// gate is not open.
func (c *Compiled) unguarded(strategy *Strategy, first []int) bool {
	last, filled := c.filled(first)
	if len(strategy.Partitions) == 0 || !strategy.MaxUnavailable.IsZero() || filled-1 <= c.maxParts {
		return false
	}
	for i := range strategy.Partitions[:min(last, len(strategy.Partitions))] {
		if !strategy.Partitions[i].MaxUnavailable.IsZero() {
			return false
		}
	}
	return true
}

// filled returns the index of the last partition that has members, and how many have. Members of
// earlier partitions do not count; first is what [Compiled.firsts] returns.
func (c *Compiled) filled(first []int) (last, filled int) {
	for i := range c.partitions {
		if c.partitions[i].count > 0 && (first == nil || first[i] > 0) {
			last, filled = i, filled+1
		}
	}
	return last, filled
}

// firsts returns of how many clusters each partition is the first; nil if no partitions overlap.
func (c *Compiled) firsts() []int {
	if len(c.memberships) == 0 {
		return nil
	}
	first := make([]int, len(c.partitions))
	for cluster := range c.places {
		if c.places[cluster].count > 0 {
			first[c.partitionOf[c.slotsOf(uint32(cluster))[0]/64]]++ // they are ascending
		}
	}
	return first
}

// uncut returns how many clusters are in one automatic partition although its size is written and is
// smaller, because nobody wrote the threshold; 0 if that is not so.
func (c *Compiled) uncut(strategy *Strategy, automatic bool) int {
	manual := len(strategy.Partitions)
	if !automatic || strategy.AutoPartitionSize.IsZero() || strategy.AutoPartitionThreshold != nil || len(c.partitions) != manual+1 {
		return 0
	}
	n, lowest := int(c.partitions[manual].count), 1
	cut := *strategy
	cut.AutoPartitionThreshold = &lowest
	if size, err := cut.autoSize(c.mode, n); n >= defaultThreshold || err != nil || size < 1 || size >= n {
		return 0
	}
	return n
}

// clamped says what a limit counts as if no number of clusters makes it what is written: a negative
// int, or a percentage above 100. It returns empty for any other. The limit is valid.
func (v value) clamped() string {
	number, isPercent := strings.CutSuffix(v.text, "%")
	if p, _ := strconv.ParseFloat(number, 64); isPercent && p > 100 { // the limit is valid, so at most nine digits: exact
		return `counts as "100%"`
	}
	if v.n < 0 {
		return "counts as 0"
	}
	return ""
}

// idle returns the fields of maxUnavailable that are written and hold no release back: one batch
// releases all members of a partition, so that no second one waits, and no later partition waits for
// them to be ready. A limit that allows all members is left out, because its author expects no
// effect, and so is that of a single member, which no limit can divide.
//
// Such a limit still holds the batch back while too many are NotReady before it. Where that can be
// the work of the rollout itself, because partitions overlap or share the releases of a step, no
// limit is called idle.
func (c *Compiled) idle(strategy *Strategy, options Options) map[string]bool {
	if options.Releases == ByBudget || len(c.memberships) > 0 || c.maxPerStep > 0 && len(c.members) > c.maxPerStep {
		return nil
	}
	last, filled := c.filled(nil)
	gated := filled-1 > c.maxParts // enough partitions before the last one to close the gate
	fields := map[string]bool{}
	for i := range c.partitions {
		field := "maxUnavailable"
		if i < len(strategy.Partitions) && !strategy.Partitions[i].MaxUnavailable.IsZero() {
			field = inPartition(i, field)
		}
		p := &c.partitions[i]
		if int(p.count) <= p.max { // as it is where nothing is written
			continue
		}
		holds := int(p.count) > c.maxNew || i != last && gated
		if _, known := fields[field]; holds || p.count > 1 && !known {
			fields[field] = !holds
		}
	}
	return fields
}
