package surge

import (
	"testing"
	"unsafe"
)

// TestActionSize: the reason for which Op, Revision and Reason are bytes.
func TestActionSize(t *testing.T) {
	texts := struct {
		index            int
		op, revision, on string
	}{}
	if got, with := unsafe.Sizeof(Action{}), unsafe.Sizeof(texts); 3*got > with {
		t.Errorf("an action takes %d bytes, and would take no more than %d with texts", got, with)
	}
}
