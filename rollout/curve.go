package rollout

import (
	"errors"
	"math"
	"math/bits"
	"sort"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
)

// ErrOverflow is returned when an instant or a duration does not fit into 64 bits of nanoseconds,
// about 292 years.
var ErrOverflow = errors.New("rollout: duration overflows 292 years")

// Offset returns how long after the start of the rollout the target at a zero-based position is
// due. n is the number of targets at the start, the founders; the position of a late joiner may be
// n or more. All arithmetic is on integers, so every platform gets the same nanosecond.
//
//	linear             position · interval
//	linear-normalized  position · interval / n, rounded down; the last founder is due before one interval has passed
//	exponential        interval · (1 − e^(−position/growth)), rounded up; approaches the interval
//	waves              k · interval for the members of wave k; sizes in percent are of n, rounded up, each at least 1, the last repeats
//
// The power has 62 binary digits. So where growth, in positions, or the interval, in seconds, is in
// the millions, the last digits of the nanoseconds may be off; they are so on every platform.
//
// Offset joins a *[FieldError] for a negative position or n and for each that
// [GradualRollout.Validate] finds; it returns [ErrOverflow] for an offset that does not fit.
func (g GradualRollout) Offset(position, n int) (time.Duration, error) {
	var f faults
	for _, argument := range []struct {
		name  string
		value int
	}{{"position", position}, {"n", n}} {
		if argument.value < 0 {
			f.add(argument.name, CodeOutOfRange, argument.value, "must be at least 0")
		}
	}
	f.under("", g.Validate())
	if err := f.err(); err != nil {
		return 0, err
	}
	return g.curve(n).offset(position)
}

// curve is a valid rule made ready for one rollout of n founders.
type curve struct {
	kind     RolloutType
	interval int64 // nanoseconds
	n        int
	base     uint64 // exponential: e^(−1/growth) in units of 2^−62
	ends     []int  // waves: the position after the last of each wave but the repeating one
	repeat   int    // waves: size of the wave that repeats
}

func (g GradualRollout) curve(n int) curve {
	c := curve{kind: g.RolloutType, interval: *g.TimeScaleInterval * int64(time.Second), n: n}
	switch g.RolloutType {
	case Exponential:
		c.base = decay(uint64(g.PositionGrowthFactor))
	case Waves:
		end := 0
		for _, size := range g.Waves {
			c.repeat = max(1, size.Of(n, concurrency.Ceil))
			end += min(c.repeat, math.MaxInt-end)
			c.ends = append(c.ends, end)
		}
	}
	return c
}

// offset is monotone in position.
func (c curve) offset(position int) (time.Duration, error) {
	var high, low uint64
	switch p := uint64(position); c.kind {
	case Linear:
		high, low = bits.Mul64(p, uint64(c.interval))
	case LinearNormalized:
		if c.n == 0 {
			return 0, nil
		}
		high, low = bits.Mul64(p, uint64(c.interval))
		if high >= uint64(c.n) {
			return 0, ErrOverflow
		}
		low, _ = bits.Div64(high, low, uint64(c.n))
		high = 0
	case Exponential:
		low = uint64(c.interval) - fixedMul(uint64(c.interval), fixedPow(c.base, p))
	case Waves:
		high, low = bits.Mul64(uint64(c.wave(position)), uint64(c.interval))
	}
	if high != 0 || low > math.MaxInt64 {
		return 0, ErrOverflow
	}
	return time.Duration(low), nil
}

// within returns how many of n positions are due by room after the start.
func (c curve) within(n int, room time.Duration) int {
	return sort.Search(n, func(position int) bool {
		offset, err := c.offset(position)
		return err != nil || offset > room
	})
}

func (c curve) wave(position int) int {
	for k, end := range c.ends {
		if position < end {
			return k
		}
	}
	last := c.ends[len(c.ends)-1]
	return len(c.ends) + (position-last)/c.repeat
}

// Fixed point with 62 fractional bits: floating point would give other nanoseconds on machines with
// fused multiplication.
const fixedOne = 1 << 62

func fixedMul(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high<<2 | low>>62
}

// decay is e^(−1/growth), by the alternating series 1 − x + x²/2! − …
func decay(growth uint64) uint64 {
	sum, term := uint64(0), uint64(fixedOne)
	for k := uint64(1); term != 0; k++ {
		if k%2 == 1 {
			sum += term
		} else {
			sum -= term
		}
		term /= k * growth // no overflow: behind the first term, growth is at most fixedOne/(k-1)!
	}
	return sum
}

// fixedPow raises base to the power p by squaring from the lowest bit of p; the order of the
// roundings is part of the result.
func fixedPow(base, p uint64) uint64 {
	result := uint64(fixedOne)
	for ; p != 0; p >>= 1 {
		if p&1 == 1 {
			result = fixedMul(result, base)
		}
		base = fixedMul(base, base)
	}
	return result
}
