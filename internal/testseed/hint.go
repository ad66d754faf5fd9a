package testseed

import (
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// FollowHint checks that a number in quotes is refused, with one fault at the path, and that what the
// hint says to write instead is accepted there: try reads and validates the document with the value
// that it is given as it stands.
func FollowHint(t testing.TB, path, number string, try func(value string) error) {
	t.Helper()
	faults := strictjson.Faults(try(strconv.Quote(number)))
	if len(faults) != 1 || faults[0].Path != path {
		t.Errorf("%s: %q: got %v, want one fault", path, number, faults)
		return
	}
	hint, value := faults[0].Hint, number
	if named := regexp.MustCompile(`(?:write|write at least|write at most|a count from) (-?\d+)`).FindStringSubmatch(hint); named != nil {
		value = named[1]
	} else if !regexp.MustCompile(`: leave the quotes out$`).MatchString(hint) {
		t.Errorf("%s: %q: the hint names no number: %s", path, number, hint)
		return
	}
	next := strictjson.Faults(try(value))
	if at := slices.IndexFunc(next, func(fault strictjson.Error) bool { return fault.Path == path }); at >= 0 {
		t.Errorf("%s: %q: told %q, and then %s is refused: %v", path, number, hint, value, &next[at])
	}
}
