package bracket

import "testing"

// TestWaitsCanBeLeft: a loop over the waits may end before the last one, and a plan that no Step
// made has none.
func TestWaitsCanBeLeft(t *testing.T) {
	v := &view{latest: &groupView{Group: &Group{ID: "g"}}}
	v.resources, v.pending = []string{"n1", "n2"}, []int32{0, 1}
	v.waits = []waitEntry{{0, -1, waitQueued}, {1, -1, waitQueued}}
	plan := Plan{view: v}
	seen := 0
	for range plan.Waits() {
		seen++
		break
	}
	if seen != 1 || len(waitsOf(plan)) != 2 {
		t.Errorf("%d of %d waits seen before the loop ended", seen, len(waitsOf(plan)))
	}
	if waits := waitsOf(Plan{}); len(waits) > 0 {
		t.Errorf("a zero plan has the waits %v", waits)
	}
	if on := (Wait{}).On(); on != nil {
		t.Errorf("a zero wait waits for %v", on)
	}
}
