package concurrencytest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tranche-dev/tranche/concurrency"
)

var errNotBreakable = errors.New("the backend is not Breakable: nothing is checked of what it reads in part")

// checkBroken cuts Active off after each of its first steps in turn, then after ever more of them
// until Active answers, and then bisects to its last step: a counter may take one step for all
// jobs, or several for each.
func checkBroken(ctx context.Context, b Backend) error {
	broken, ok := b.(Breakable)
	if !ok {
		return errNotBreakable
	}
	const each, most = 100, 1 << 20
	holders, err := fill(ctx, b, 1200) // more than most backends return on one page
	if err != nil {
		return err
	}
	cut, enough := -1, 0 // the greatest number of steps after which it was cut off, and the least with which there is an answer
	for pass := 0; enough == 0; pass += 1 + pass/each*each/2 {
		if pass > most {
			return fmt.Errorf("with %d steps let through there is still no answer: Break must let so many steps of the next Active pass", cut)
		}
		switch answered, err := cutOff(ctx, broken, pass, holders); {
		case err != nil:
			return err
		case !answered:
			cut = pass
		case pass == 0:
			return errors.New("nothing was let through, and still there is an answer: it is not of what is there now")
		default:
			enough = pass
		}
	}
	for cut+1 < enough {
		pass := (cut + enough) / 2
		answered, err := cutOff(ctx, broken, pass, holders)
		if err != nil {
			return err
		}
		if answered {
			enough = pass
		} else {
			cut = pass
		}
	}
	return nil
}

// cutOff calls Active once with pass steps let through and, if that failed, again with all of them.
func cutOff(ctx context.Context, b Breakable, pass int, holders []concurrency.Holder) (answered bool, err error) {
	mend := b.Break(pass)
	got, failed := b.Active(ctx, "p")
	mend()
	switch {
	case failed == nil && pass > 0 && !slices.Equal(got, holders):
		return false, fmt.Errorf("cut off after %d steps Active = %d of %d holders, without an error", pass, len(got), len(holders))
	case failed == nil:
		return true, nil
	case len(got) > 0:
		return false, fmt.Errorf("cut off after %d steps Active = %d holders, with the error %w", pass, len(got), failed)
	}
	if err := expect(ctx, b, "p", holders...); err != nil {
		return false, fmt.Errorf("mended, after it was cut off: %w", err)
	}
	return false, nil
}
