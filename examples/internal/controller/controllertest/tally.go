//go:build unix

package controllertest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Tally counts what happened in schedules.
type Tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (t *Tally) add(what string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = map[string]int{}
	}
	t.counts[what] += n
}

// Count returns how often something happened.
func (t *Tally) Count(what string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts[what]
}

// String lists the counts by name.
func (t *Tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(t.counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", what, t.counts[what]))
	}
	return strings.Join(parts, ", ")
}
