package rollout

import (
	"fmt"
	"slices"

	"github.com/tranche-dev/tranche/concurrency"
)

// Held reports whether the start still holds the slot that it claims in the pool of a record: the
// resource and the group of the start have a lease there with the token of the claim. A host asks it
// for each of the Claims, in the transaction that creates the job, because a planner that was paused
// after it saved may have lost a slot meanwhile. The record is the stored one: it lies under
// [PoolRecordKey] and is read by [concurrency.ParseRecord]; where the store has none it is that of
// [concurrency.NewRecord]. A lease that is quarantined is held. Revisions are not compared: that of a
// claim is the one before the record was saved.
//
// If the slot is lost the error wraps [concurrency.ErrFenced]: drop the start and plan again. Any
// other error means that the start has no claim in the pool of the record: the record of another
// pool was read.
func (s Start) Held(record concurrency.Record) error {
	k := slices.IndexFunc(s.Claims, func(c Claim) bool { return c.Pool == record.Key })
	if k < 0 {
		return fmt.Errorf("rollout: run %s: the start claims nothing in pool %s", s.Run, record.Key)
	}
	token := s.Claims[k].Token
	lease, held := record.Lease(concurrency.Holder{Resource: s.Resource, Group: s.Group})
	if held && lease.Token == token {
		return nil
	}
	owner := slices.IndexFunc(record.Leases, func(l concurrency.Lease) bool { return l.Token == token })
	switch {
	case owner >= 0: // that of another planner, which claimed on the same record and saved first
		return fmt.Errorf("rollout: run %s: pool %s issued token %d to %s: the state with this start was not saved: %w", s.Run, record.Key, token, record.Leases[owner].Holder, concurrency.ErrFenced)
	case token >= record.NextToken:
		return fmt.Errorf("rollout: run %s: pool %s never issued token %d: the state with this start was not saved: %w", s.Run, record.Key, token, concurrency.ErrFenced)
	case held:
		return fmt.Errorf("rollout: run %s: the slot in pool %s is held with token %d, not %d: %w", s.Run, record.Key, lease.Token, token, concurrency.ErrFenced)
	default:
		return fmt.Errorf("rollout: run %s: the slot in pool %s with token %d was given back: %w", s.Run, record.Key, token, concurrency.ErrFenced)
	}
}
