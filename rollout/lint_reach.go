package rollout

// reach is how many targets something concerns, and the first of them.
type reach struct {
	targets int
	first   int32 // none if there are none
}

// reachOf returns the reach of targets, in order, of which there is at least one.
func reachOf(targets []int32) reach { return reach{len(targets), targets[0]} }

func (r reach) some() bool { return r.targets > 0 }

// add counts one more target, and reports whether it is now the first.
func (r *reach) add(i int32) (first bool) {
	if first = !r.some() || i < r.first; first {
		r.first = i
	}
	r.targets++
	return first
}

func (r *reach) merge(other reach) {
	if other.some() && (!r.some() || other.first < r.first) {
		r.first = other.first
	}
	r.targets += other.targets
}

// reaches holds the reach of each of several things.
type reaches[K comparable] struct {
	keys []K // in the order in which they were found
	of   map[K]*reach
}

func (r *reaches[K]) at(key K) *reach {
	own := r.of[key]
	if own == nil {
		own = &reach{}
		r.keys = append(r.keys, key)
		put(&r.of, key, own)
	}
	return own
}
