package rollout

import "testing"

// TestSeek compares every search in short lists with the answer, and counts that a near one asks
// few questions in a long list.
func TestSeek(t *testing.T) {
	for n := range 12 {
		for want := range n + 1 {
			for near := range n + 1 {
				got := seek(n, near, func(k int) bool {
					if k < 0 || k >= n {
						t.Fatalf("n %d, near %d: asked about %d", n, near, k)
					}
					return k < want
				})
				if got != want {
					t.Errorf("n %d, near %d: got %d, want %d", n, near, got, want)
				}
			}
		}
	}
	const n = 1 << 20
	for _, row := range []struct {
		why              string
		near, want, most int
	}{
		{"it is the one that was found last", 5000, 5000, 2},
		{"it is the next", 5000, 5001, 4},
		{"it is seven further on: twice the logarithm of the distance, and both ends", 5000, 5007, 8},
		{"it is a thousand further on", 5000, 6000, 24},
		{"it is two back, as the first of some siblings", 5000, 4998, 5},
		{"it lies far behind", 5000, 10, 24},
	} {
		asked := 0
		got := seek(n, row.near, func(k int) bool { asked++; return k < row.want })
		if got != row.want || asked > row.most {
			t.Errorf("%s: got %d with %d questions, want %d with at most %d", row.why, got, asked, row.want, row.most)
		}
	}
}
