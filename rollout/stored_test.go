package rollout

import (
	"strings"
	"testing"
)

// TestFirstThatCannotBeEncoded: of several records that cannot be encoded the first is told.
func TestFirstThatCannotBeEncoded(t *testing.T) {
	t.Parallel()
	var w writing
	w.put("a", State{})
	w.put("b", func() {})
	w.put("c", func() {})
	if w.failed == nil || !strings.HasPrefix(w.failed.Error(), "b: ") {
		t.Errorf("%v", w.failed)
	}
}
