package controller

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/textkey"
)

// forgetTargets deletes the records of the targets of machines that are gone for good: the server has
// neither the machine nor a job of it. With such a record, and without its job, a machine that comes
// back under the name would be given that job once more, however old it is. A record of a target that
// never had a job stays, for it is in nobody's way, and may revoke a start that somebody sleeps with.
// If the machine is back meanwhile, and somebody has dispatched there, the record is another one, and
// stays; whoever is about to write it comes too late, and plans again.
//
// The records are listed only by a controller that is new, and when a name has vanished from the
// namespace: there may be several for each machine, and no plan needs them.
func (n *namespace) forgetTargets(ctx context.Context, server client.Reader, seen *observation) error {
	if before := n.known.names; before != nil {
		vanished := false
		for name := range before {
			vanished = vanished || !seen.known.names[name]
		}
		if !vanished {
			n.known.names = seen.known.names
			return nil
		}
	}
	entries, err := n.store.List(ctx, targetKeys)
	if err != nil {
		return err
	}
	of := map[string][]bracket.Entry{}
	for _, entry := range entries {
		var kind, machine, environment, deployment string
		if !textkey.Scan(entry.Key, &kind, &machine, &environment, &deployment) || seen.known.names[machine] {
			continue
		}
		if record, err := decodeTarget(entry.Key, entry.Value); err != nil || record.Turn == 0 {
			continue // one that a newer controller wrote is for that to delete
		}
		of[machine] = append(of[machine], entry)
	}
	var lost []string
	for machine := range of {
		switch is, err := gone(ctx, server, n.name, machine); {
		case err != nil:
			return err
		case is:
			lost = append(lost, machine)
		}
	}
	if lost, err = jobless(ctx, server, n.name, lost); err != nil {
		return err
	}
	for _, machine := range lost {
		for _, entry := range of[machine] {
			if err := n.store.Delete(ctx, entry.Key, entry.Revision); err != nil && !errors.Is(err, bracket.ErrNotFound) && !errors.Is(err, bracket.ErrConflict) {
				return err
			}
		}
	}
	n.known.names = seen.known.names
	return nil
}
