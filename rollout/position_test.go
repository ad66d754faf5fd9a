package rollout

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testkit"
)

func nodes(ids ...int) []TargetID {
	var list []TargetID
	for _, n := range ids {
		list = append(list, TargetID{Resource: fmt.Sprintf("node-%d", n), Environment: "prod", Deployment: "kubelet"})
	}
	return list
}

func keysOf(h orderHash, ids []TargetID) []uint64 {
	return h.of(len(ids), func(i int) string { return ids[i].Resource }, ids[0].Environment, ids[0].Deployment)
}

// TestI17GoldenHashes pins the order of every rollout in the world: a changed value reorders all of
// them.
func TestI17GoldenHashes(t *testing.T) {
	api := func(resources ...string) []TargetID {
		var list []TargetID
		for _, r := range resources {
			list = append(list, TargetID{Resource: r, Environment: "prod", Deployment: "api"})
		}
		return list
	}
	target := orderHash{key: OrderByTarget, salt: "v1"}
	legacy := orderHash{key: OrderByTarget, salt: "v1", legacy: true}
	for _, row := range []struct {
		why  string
		hash orderHash
		ids  []TargetID
		want []uint64
	}{
		{"five targets of one version", target, api("r1", "r2", "r3", "r4", "r5"),
			[]uint64{15443093961687045610, 5041030944284059378, 12052752940508577179, 3221890626100794393, 17202645797602373558}},
		{"another version, another order", orderHash{key: OrderByTarget, salt: "v2"}, api("r1", "r2", "r3", "r4", "r5"),
			[]uint64{14563278337267792383, 4633794863610727354, 8552664526793501363, 11909046394269744204, 15324756696278252161}},
		{"bytes, not letters, are counted", orderHash{key: OrderByTarget, salt: "v1.29.2"}, []TargetID{{"nœud-3", "prod", "kubelet"}}, []uint64{6203853033508600039}},
		{"of every field", orderHash{key: OrderByTarget, salt: "v1-bêta"}, []TargetID{{"nœud-3", "préprod", "démon"}}, []uint64{7495492619184499152}},
		{"and of a rule and a group", orderHash{key: OrderByBracket, salt: "groupe/é", rule: "nœuds"}, []TargetID{{Resource: "nœud-3"}}, []uint64{17886256786647232702}},
		{"all ids empty", orderHash{key: OrderByTarget}, []TargetID{{}}, []uint64{3606890878706474589}},
		{"resources", orderHash{key: OrderByResource}, nodes(0, 1, 2, 3, 4, 5, 6, 7, 8, 9), []uint64{
			2601262806285783375, 2710047974616774461, 6850026230586082136, 13837215724692554634, 18128706553279583385,
			6953861867361975532, 6887767158521307781, 16142928108954391755, 16624139904984760851, 10044321141225709371}},
		{"a bracket with an id", orderHash{key: OrderByBracket, rule: "node-lifecycle"}, nodes(0, 3, 9), []uint64{8742828968242693234, 13532256882267299050, 1023832973559783375}},
		{"a bracket with the derived id", orderHash{key: OrderByBracket, rule: "Node Lifecycle/deploymentBracket/0"}, nodes(0, 1, 2, 3, 4, 5, 6, 7, 8, 9), []uint64{
			8106699281782531312, 484809494051148620, 5978847198338497517, 1236304918543560639, 13946270398090533990,
			14890302501576084605, 15706746463301814358, 4489258022377637613, 3526092631706090065, 9441274264460882605}},
		{"legacy", legacy, api("r1", "r2", "r3", "r4", "r5"),
			[]uint64{4614075591131073350, 15747415165874565393, 7458970806789628172, 10319400350222342087, 11107587258137752666}},
		{"legacy, all ids empty", orderHash{key: OrderByTarget, legacy: true}, []TargetID{{}}, []uint64{562975275283375503}},
	} {
		if got := keysOf(row.hash, row.ids); !slices.Equal(got, row.want) {
			t.Errorf("%s: %d, want %d", row.why, got, row.want)
		}
	}
}

func TestGoldenEncoding(t *testing.T) {
	const want = "0000000a706f736974696f6e2f31" + "00000006746172676574" + "000000027631" + "000000027231" + "0000000470726f64" + "00000003617069"
	fields, err := hex.DecodeString(want)
	if err != nil {
		t.Fatal(err)
	}
	byHand := fnvOffset
	for _, b := range fields {
		byHand = (byHand ^ digest(b)) * fnvPrime
	}
	got := keysOf(orderHash{key: OrderByTarget, salt: "v1"}, []TargetID{{"r1", "prod", "api"}})
	if got[0] != byHand.sum() {
		t.Errorf("hash of the fields = %d, of their encoding %s = %d", got[0], want, byHand.sum())
	}
	long := strings.Repeat("r", 0x10203) // each of the four bytes of a length counts
	if got := fnvOffset.field(long); got != fnvOffset.raw("\x00\x01\x02\x03"+long) {
		t.Errorf("a field of %d bytes has the hash %d", len(long), got)
	}
}

// TestHashesOneByOne: four neighbours whose ids are of one length are hashed at once, and every key
// is what it is alone, wherever in a list a shorter or a longer id stands.
func TestHashesOneByOne(t *testing.T) {
	alike := []string{"r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9"}
	for _, hash := range []orderHash{
		{key: OrderByTarget, salt: "v1"}, {key: OrderByResource}, {key: OrderByBracket, rule: "nodes"},
		{key: OrderByTarget, salt: "v1", legacy: true}, {key: OrderByBracket, salt: "v1", rule: "nodes", legacy: true},
	} {
		for at := range alike {
			for _, other := range []string{"", "r", "r10"} {
				ids := slices.Clone(alike)
				ids[at] = other
				keys := hash.of(len(ids), func(i int) string { return ids[i] }, "prod", "api")
				for i, id := range ids {
					if alone := hash.of(1, func(int) string { return id }, "prod", "api"); keys[i] != alone[0] {
						t.Errorf("%+v: %q in %q has the key %d, and %d alone", hash, id, ids, keys[i], alone[0])
					}
				}
			}
		}
	}
}

// TestLegacyIsFNV: the old order is that of the plain FNV-1a hash of ids one behind the other,
// which any other program can compute.
func TestLegacyIsFNV(t *testing.T) {
	for key, rest := range map[OrderKey]string{OrderByTarget: "-prod-apiv1", OrderByResource: "", OrderByBracket: "nodes"} {
		hash := orderHash{key: key, salt: "v1", rule: "nodes", legacy: true}
		sum := fnv.New64a()
		sum.Write([]byte("r1" + rest))
		if got := hash.of(1, func(int) string { return "r1" }, "prod", "api"); got[0] != sum.Sum64() {
			t.Errorf("%s: %d, want %d", key, got[0], sum.Sum64())
		}
	}
}

func TestFieldBoundaries(t *testing.T) {
	a, b := TargetID{"x-y", "z", "d"}, TargetID{"x", "y-z", "d"}
	if keysOf(orderHash{key: OrderByTarget}, []TargetID{a})[0] == keysOf(orderHash{key: OrderByTarget}, []TargetID{b})[0] {
		t.Error("ids that differ only in where one ends have one key")
	}
	legacy := orderHash{key: OrderByTarget, legacy: true}
	if keysOf(legacy, []TargetID{a})[0] != keysOf(legacy, []TargetID{b})[0] {
		t.Error("the legacy order is expected to have this weakness: it must stay what it was")
	}
}

func orderOf(positions []int32) []int {
	order := make([]int, len(positions))
	for i, p := range positions {
		order[p] = i
	}
	return order
}

func TestRank(t *testing.T) {
	start := time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)
	for _, row := range []struct {
		why    string
		keys   []uint64
		places []place
		want   []int
	}{
		{"by hash", []uint64{30, 10, 20}, make([]place, 3), []int{1, 2, 0}},
		{"equal hashes by id", []uint64{5, 5, 1}, make([]place, 3), []int{2, 0, 1}},
		{"priority before hash", []uint64{30, 10, 20}, []place{{priority: 1}, {}, {priority: -1}}, []int{0, 1, 2}},
		{"who joined at the start is a founder", []uint64{30, 10}, []place{{joined: start}, {joined: start.Add(1)}}, []int{0, 1}},
		{"and so keeps the place that its hash gives it among them", []uint64{10, 30, 20}, []place{{joined: start}, {}, {joined: start.Add(1)}}, []int{0, 1, 2}},
		{"late joiners come last, in the order in which they came, whatever their priority", []uint64{1, 2, 3},
			[]place{{joined: start.Add(2), priority: 9}, {}, {joined: start.Add(1)}}, []int{1, 2, 0}},
		{"everybody has a priority", []uint64{10, 20}, []place{{priority: 1}, {priority: 2}}, []int{1, 0}},
		{"nobody is a founder", []uint64{10, 20}, []place{{joined: start.Add(2)}, {joined: start.Add(1)}}, []int{1, 0}},
		{"nobody", nil, nil, []int{}},
	} {
		if got := orderOf(rank(row.keys, row.places, start)); !slices.Equal(got, row.want) {
			t.Errorf("%s: order %v, want %v", row.why, got, row.want)
		}
	}
}

// TestI7JoinersMoveNobody: adding elements that joined after the start never changes the position
// of one that has its place, and removing some only moves others forward.
func TestI7JoinersMoveNobody(t *testing.T) {
	start := time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "n")
		type element struct {
			key   uint64
			place place
		}
		var all []element
		for range n {
			e := element{key: rapid.Uint64Range(0, 6).Draw(t, "key"), place: place{priority: rapid.IntRange(-1, 1).Draw(t, "priority")}}
			if rapid.Bool().Draw(t, "late") {
				seen["late"]++
				e.place.joined = start.Add(time.Duration(rapid.IntRange(1, 4).Draw(t, "joined")))
			}
			all = append(all, e)
		}
		ranked := func(without int) map[int]int32 {
			var keys []uint64
			var places []place
			var index []int
			for i, e := range all {
				if i != without {
					keys, places, index = append(keys, e.key), append(places, e.place), append(index, i)
				}
			}
			positions := map[int]int32{}
			for k, p := range rank(keys, places, start) {
				positions[index[k]] = p
			}
			return positions
		}
		full := ranked(-1)
		for gone := range all {
			for i, p := range ranked(gone) {
				if p > full[i] {
					t.Fatalf("without %d, %d moved back from %d to %d", gone, i, full[i], p)
				}
				if joined := all[gone].place.joined; joined.After(start) && !all[i].place.joined.After(start) && p != full[i] {
					t.Fatalf("founder %d had position %d before late joiner %d came and %d after", i, p, gone, full[i])
				}
			}
		}
	}, "late")
}

// BenchmarkPositions ranks a population: by the count of leading bits, and by sorting the keys made
// one by one as the documents write it.
func BenchmarkPositions(b *testing.B) {
	hash := orderHash{key: OrderByBracket, rule: "Node Lifecycle/deploymentBracket/0"}
	for _, n := range []int{1_000, 10_000, 100_000, 1_000_000} {
		ids := make([]string, n)
		for i := range ids {
			ids[i] = fmt.Sprintf("node-%07d", i)
		}
		var positions []int32
		report := func(b *testing.B) {
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/element")
		}
		b.Run(fmt.Sprintf("ranked/n=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				positions = rank(hash.of(n, func(i int) string { return ids[i] }, "", ""), nil, time.Time{})
			}
			report(b)
		})
		b.Run(fmt.Sprintf("sorted/n=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				type element struct {
					hash  uint64
					index int32
				}
				order := make([]element, n)
				for i, id := range ids {
					order[i] = element{fnvOffset.field("position/1").field(string(hash.key)).field("").field(id).field(hash.rule).sum(), int32(i)}
				}
				slices.SortFunc(order, func(a, b element) int { return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.index, b.index)) })
				for position, e := range order {
					positions[e.index] = int32(position)
				}
			}
			report(b)
		})
	}
}
