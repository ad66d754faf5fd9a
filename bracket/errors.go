package bracket

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrConflict is returned by [Store.Save] and [Store.Delete] when the stored revision is not the expected one: load, plan and save again.
	ErrConflict = errors.New("bracket: value changed since it was read")
	// ErrNotFound is returned by [Store.Load] and [Store.Delete] for a key without a value.
	ErrNotFound = errors.New("bracket: no such key")
	// ErrStale is returned by [Plan.Commit] for a run that the plan does not offer in the given state: plan again.
	ErrStale = errors.New("bracket: run is not offered by this plan and state")
)

// CycleError reports members that need each other, so that none of them could ever start.
type CycleError struct {
	Bracket string   // rule id, if known
	Path    []string // deployments; each needs the next one, the last one is the first again
}

// Error names the members in the order of Path, and the remedy.
func (e *CycleError) Error() string {
	return fmt.Sprintf("bracket: %sdependency cycle %s: remove one of these dependencies", named(e.Bracket), strings.Join(e.Path, " -> "))
}

// RoleError reports a dependency that contradicts the roles: a pre that needs a main or a post, or a main that needs a post.
type RoleError struct {
	Bracket          string // rule id, if known
	Deployment, Need string // the member, and the one that it needs
	Role, NeedRole   Role   // of the two
}

// Error names both members with their roles, and the remedy.
func (e *RoleError) Error() string {
	return fmt.Sprintf("bracket: %s%s member %q needs %s member %q, which runs after it: change memberRoles or the dependency",
		named(e.Bracket), e.Role, e.Deployment, e.NeedRole, e.Need)
}

// OverlapError reports a deployment that two brackets claim on one resource.
type OverlapError struct {
	Brackets             [2]string // rule ids, ascending
	Deployment, Resource string    // the first such target; other resources may be claimed twice as well
}

// Error names both brackets and the target, and the remedy.
func (e *OverlapError) Error() string {
	return fmt.Sprintf("bracket: %q and %q both bracket deployment %q on resource %q: narrow one of their selectors",
		e.Brackets[0], e.Brackets[1], e.Deployment, e.Resource)
}

func named(id string) string {
	if id == "" {
		return ""
	}
	return fmt.Sprintf("%q: ", id)
}
