package rollout

// pairing is the targets by deployment and environment.
type pairing struct {
	pairs   []pair  // per (environment, deployment)
	ordinal []int32 // per target: its number among those of its pair
}

// pair is a deployment in an environment.
type pair struct {
	targets  []int32 // in order of their resources
	gates    []*gate
	next     int // in gates: that of the next older version, where all of a target's are asked for one after the other
	blocking []blocking
	group    string // lease group of its targets outside brackets
}

func (w *work) pairOf(t *target) int32 { return w.pairAt(t.environment, t.deployment) }

func (w *work) pairAt(environment, deployment int32) int32 {
	return environment*int32(len(w.deployments)) + deployment
}

// targetsIn are the targets of a deployment in an environment.
func (w *work) targetsIn(environment, deployment int32) []int32 {
	return w.pairs[w.pairAt(environment, deployment)].targets
}

func (w *work) pair() {
	w.pairs = make([]pair, len(w.environments)*len(w.deployments))
	w.ordinal = make([]int32, len(w.targets))
	sizes := make([]int32, len(w.pairs))
	for i := range w.targets {
		sizes[w.pairOf(&w.targets[i])]++
	}
	slab := make([]int32, len(w.targets))
	for k, size := range sizes {
		w.pairs[k].targets, slab = slab[:0:size], slab[size:]
	}
	for i := range w.targets {
		p := &w.pairs[w.pairOf(&w.targets[i])]
		w.ordinal[i] = int32(len(p.targets))
		p.targets = append(p.targets, int32(i))
	}
}
