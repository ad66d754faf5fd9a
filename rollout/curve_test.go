package rollout

import (
	"errors"
	"math"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/testkit"
)

func curveRule(kind RolloutType, seconds int64) GradualRollout {
	return GradualRollout{RolloutType: kind, TimeScaleInterval: &seconds}
}

func TestOffset(t *testing.T) {
	grown := func(seconds, growth int64) GradualRollout {
		g := curveRule(Exponential, seconds)
		g.PositionGrowthFactor = growth
		return g
	}
	waves := func(seconds int64, sizes ...concurrency.Limit) GradualRollout {
		g := curveRule(Waves, seconds)
		g.Waves = sizes
		return g
	}
	s := func(list ...time.Duration) []time.Duration {
		for i := range list {
			list[i] *= time.Second
		}
		return list
	}
	for _, row := range []struct {
		why   string
		rule  GradualRollout
		n     int
		first int // position of the first of want
		want  []time.Duration
	}{
		{"linear", curveRule(Linear, 300), 5, 0, s(0, 300, 600, 900, 1200)},
		{"linear knows no end: late joiners go on", curveRule(Linear, 60), 2, 2, s(120, 180)},
		{"an interval of 0 makes everybody due at once", curveRule(Linear, 0), 3, 2, s(0)},
		{"normalized", curveRule(LinearNormalized, 600), 5, 0, s(0, 120, 240, 360, 480)},
		{"normalized keeps the second that floating point loses", curveRule(LinearNormalized, 300), 15, 11, s(220)},
		{"normalized to the nanosecond", curveRule(LinearNormalized, 86400), 10, 7, []time.Duration{60480000000000}},
		{"normalized to the last nanosecond that there is", curveRule(LinearNormalized, 7*73*127*92737), 1_000_000_000, 7 * 337 * 649657, []time.Duration{math.MaxInt64}},
		{"a single target starts at once", curveRule(LinearNormalized, 3600), 1, 0, s(0)},
		{"nobody was there: whoever joins starts at once", curveRule(LinearNormalized, 3600), 0, 3, s(0)},
		{"exponential, growth 2", grown(3600, 2), 5, 0, []time.Duration{0, 1416489625035, 2275634011783, 2796731423466, 3112792980349}},
		{"exponential, tenth position", grown(3600, 2), 5, 10, []time.Duration{3575743390804}},
		{"exponential, growth 5", grown(300, 5), 5, 0, []time.Duration{0, 54380774077, 98903986190, 135356509172, 165201310765, 189636167649}},
		{"waves by count", waves(300, concurrency.Count(1), concurrency.Count(2), concurrency.Count(4)), 10, 0, s(0, 300, 300, 600, 600, 600, 600, 900, 900, 900)},
		{"waves by percent", waves(60, concurrency.Percent(10), concurrency.Percent(25), concurrency.Percent(100)), 10, 0, s(0, 60, 60, 60, 120, 120, 120, 120, 120, 120)},
		{"a wave has at least one member", waves(60, concurrency.Percent(1)), 0, 0, s(0, 60, 120)},
		{"the last wave repeats", waves(60, concurrency.Count(2)), 3, 0, s(0, 0, 60, 60, 120)},
	} {
		for i, want := range row.want {
			if got, err := row.rule.Offset(row.first+i, row.n); err != nil || got != want {
				t.Errorf("%s: offset of %d is %v, %v, want %v", row.why, row.first+i, got, err, want)
			}
		}
	}
}

func TestOffsetRefuses(t *testing.T) {
	waved := func(seconds int64) GradualRollout {
		g := curveRule(Waves, seconds)
		g.Waves = []concurrency.Limit{concurrency.Count(1)}
		return g
	}
	for _, row := range []struct {
		why      string
		rule     GradualRollout
		position int
		n        int
		want     error
	}{
		{"product beyond 64 bits", curveRule(Linear, math.MaxInt32), math.MaxInt32, 1, ErrOverflow},
		{"a product of which the last 64 bits would pass for an offset", curveRule(Linear, 3_000_000_000), 7, 1, ErrOverflow},
		{"and that of a wave", waved(3_000_000_000), 7, 1, ErrOverflow},
		{"product beyond 128 bits halved", curveRule(Linear, maxSeconds), math.MaxInt, 1, ErrOverflow},
		{"quotient beyond 63 bits", curveRule(LinearNormalized, maxSeconds), math.MaxInt, 1, ErrOverflow},
		{"quotient of exactly 64 bits", curveRule(LinearNormalized, maxSeconds), 3, 1, ErrOverflow},
		{"one nanosecond too many", curveRule(Linear, 5), int(math.MaxInt64/(5*time.Second)) + 1, 1, ErrOverflow},
		{"negative position", curveRule(Linear, 1), -1, 1, nil},
		{"negative population", curveRule(Linear, 1), 0, -1, nil},
		{"unknown curve", curveRule("cubic", 1), 0, 1, nil},
		{"negative interval", curveRule(Linear, -1), 0, 1, nil},
		{"interval beyond 292 years", curveRule(Linear, maxSeconds+1), 0, 1, nil},
		{"no interval", GradualRollout{RolloutType: Linear}, 0, 1, nil},
	} {
		got, err := row.rule.Offset(row.position, row.n)
		if fault := (*FieldError)(nil); err == nil || row.want != nil && !errors.Is(err, row.want) || row.want == nil && !errors.As(err, &fault) {
			t.Errorf("%s: %v, %v", row.why, got, err)
		}
	}
	if got, err := curveRule(Linear, 5).Offset(int(math.MaxInt64/(5*time.Second)), 1); err != nil || got < 0 {
		t.Errorf("the largest position that fits: %v, %v", got, err)
	}
}

func TestGoldenDecay(t *testing.T) {
	if got := decay(1); got != 1696544475317221319 {
		t.Errorf("e^-1 in units of 2^-62 = %d", got)
	}
	if got := decay(math.MaxUint64); got != fixedOne {
		t.Errorf("a growth beyond every term leaves one, got %d", got)
	}
}

// TestI8OffsetsAreMonotone, and agree with arbitrary precision where the curve is a fraction.
func TestI8OffsetsAreMonotone(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		g := curveRule(rapid.SampledFrom([]RolloutType{Linear, LinearNormalized, Exponential, Waves}).Draw(t, "type"), rapid.Int64Range(0, 1_000_000).Draw(t, "interval"))
		if g.RolloutType == Exponential {
			g.PositionGrowthFactor = rapid.Int64Range(1, 1000).Draw(t, "growth")
		}
		if g.RolloutType == Waves {
			g.Waves = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) concurrency.Limit {
				if rapid.Bool().Draw(t, "percent") {
					return concurrency.Percent(rapid.IntRange(1, 1000).Draw(t, "p"))
				}
				return concurrency.Count(rapid.IntRange(1, 9).Draw(t, "c"))
			}), 1, 4).Draw(t, "waves")
		}
		seen[string(g.RolloutType)]++
		n := rapid.IntRange(0, 2000).Draw(t, "n")
		p := rapid.IntRange(0, 3000).Draw(t, "position")
		a, err := g.Offset(p, n)
		if err != nil {
			t.Fatal(err)
		}
		b, err := g.Offset(p+1, n)
		if err != nil {
			t.Fatal(err)
		}
		if a < 0 || b < a {
			t.Fatalf("offset of %d is %v, of the next %v", p, a, b)
		}
		interval := time.Duration(*g.TimeScaleInterval) * time.Second
		switch g.RolloutType {
		case Linear, LinearNormalized:
			want := new(big.Int).Mul(big.NewInt(int64(p)), big.NewInt(int64(interval)))
			if g.RolloutType == LinearNormalized {
				if n == 0 {
					want.SetInt64(0)
				} else {
					want.Quo(want, big.NewInt(int64(n)))
				}
			}
			if want.Cmp(big.NewInt(int64(a))) != 0 {
				t.Fatalf("offset of %d of %d is %v, want %v", p, n, a, want)
			}
		case Exponential:
			want := float64(interval) * -math.Expm1(-float64(p)/float64(g.PositionGrowthFactor))
			if math.Abs(float64(a)-want) > 1e-9*float64(interval)+2 || a > interval {
				t.Fatalf("offset of %d is %v, want about %v", p, a, time.Duration(want))
			}
		case Waves:
			if interval > 0 && a%interval != 0 {
				t.Fatalf("offset %v is no multiple of %v", a, interval)
			}
		}
	}, string(Linear), string(LinearNormalized), string(Exponential), string(Waves))
}

// Go keeps the greatest instant that it has where something is added to it, which nothing promises:
// a wait that ends there must not be over.
func TestAddTimeDoesNotWrap(t *testing.T) {
	greatest := time.Unix(math.MaxInt64-62135596800, 0) // an instant counts its seconds from the year 1
	for _, row := range []struct {
		at   time.Time
		d    time.Duration
		want time.Time
	}{
		{greatest, time.Second, lastInstant()},
		{greatest, 0, lastInstant()},
		{lastInstant(), 1, lastInstant()},
		{lastInstant().Add(-1), 1, lastInstant()},
		{time.Unix(1, 0), time.Second, time.Unix(2, 0)},
		{time.Unix(1, 0), -time.Second, time.Unix(0, 0)},
	} {
		if got := addTime(row.at, row.d); !got.Equal(row.want) {
			t.Errorf("%v + %v = %v, want %v", row.at, row.d, got, row.want)
		}
	}
}
