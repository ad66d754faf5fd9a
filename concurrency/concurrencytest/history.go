package concurrencytest

import (
	"context"
	"errors"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/concurrency"
)

// histories compares backends with the reference, each after a random history of its own.
func histories(t rapid.TB, newBackend func() Backend) {
	rapid.Check(t, func(r *rapid.T) { history(r, newBackend()) })
}

// history compares the backend with the in-memory reference after random changes.
func history(t *rapid.T, b Backend) {
	ctx := context.Background()
	var reference concurrency.MemoryJobs
	jobs := map[string]concurrency.Job{}
	id := rapid.SampledFrom([]string{"1", "2", "3", "4", "5", "6", "7", "8", "9"})
	resource := rapid.SampledFrom([]string{"n1", "n2", "n3"})
	pool := rapid.SampledFrom([]string{"p", "q"})
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []string{"p", "q"} {
		check(b.SetPool(ctx, p, nil))
	}
	t.Repeat(map[string]func(*rapid.T){
		"put": func(t *rapid.T) {
			job := concurrency.Job{
				ID: id.Draw(t, "id"), Resource: resource.Draw(t, "resource"), Group: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "group"),
				Status: statuses[rapid.IntRange(0, len(statuses)-1).Draw(t, "status")].name,
			}
			old, known := jobs[job.ID]
			if known && rapid.Bool().Draw(t, "the same job") {
				job.Resource, job.Group = old.Resource, old.Group
			}
			err := b.PutJob(ctx, job)
			moved, again := old.Resource != job.Resource || old.Group != job.Group, concurrency.Terminal(old.Status) && job.Status != old.Status
			if known && (moved || again) && errors.Is(err, errors.ErrUnsupported) {
				return // and nothing has changed
			}
			check(errors.Join(err, reference.PutJob(ctx, job)))
			jobs[job.ID] = job
		},
		"members": func(t *rapid.T) {
			p, members := pool.Draw(t, "pool"), rapid.SliceOfDistinct(resource, rapid.ID[string]).Draw(t, "members")
			check(errors.Join(b.SetPool(ctx, p, members), reference.SetPool(ctx, p, members)))
		},
		"": func(t *rapid.T) {
			for _, p := range []string{"p", "q"} {
				want, err := reference.Active(ctx, p)
				check(err)
				check(expect(ctx, b, p, want...))
			}
		},
	})
}
