// Package testkit is what the tests of several packages share: the seed of all properties, a tally
// of what they reach, spoilt documents, tests of tests, and what is to be known of the process.
//
// Property tests draw the same values in every run, so that a commit either always passes or always
// fails. Rare outcomes that a test insists on are always reached, or never.
//
// To search further, give a seed or take a random one: RAPID_SEED=7 go test -count=1 ./..., or
// -rapid.seed=0 for one package. More checks help as well: RAPID_CHECKS=5000. Without -count=1 the
// cache may give the result of another seed: rapid reads the environment before go test watches
// what is read.
package testkit

import (
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strconv"
	"testing"
)

const seed = 20260310

// Main is for TestMain: it runs the tests with the seed of the project, unless the environment or
// the command line says otherwise. The heap may grow to four times of what is in use: drawn worlds
// are garbage soon, and tests take a fifth less time. Benchmarks measure what hosts get.
func Main(m *testing.M) {
	if os.Getenv("RAPID_SEED") == "" {
		Reset(seed)
	}
	flag.Parse()
	if bench := flag.Lookup("test.bench"); os.Getenv("GOGC") == "" && bench.Value.String() == "" {
		debug.SetGCPercent(300)
	}
	os.Exit(m.Run())
}

// Current returns the seed of the next property. 0 stands for a random one, and for a program
// without properties.
func Current() uint64 {
	f := flag.Lookup("rapid.seed")
	if f == nil {
		return 0
	}
	n, err := strconv.ParseUint(f.Value.String(), 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// Reset sets the seed of the properties that follow. It is for tests that do not run in parallel.
func Reset(seed uint64) {
	if f := flag.Lookup("rapid.seed"); f != nil {
		if err := f.Value.Set(strconv.FormatUint(seed, 10)); err != nil {
			panic(err)
		}
	}
}

// Bytes returns input for a target of rapid.MakeFuzz, which reads 64-bit words and skips an input
// that runs out: with less than some thousand bytes it tests nothing.
func Bytes(size int) []byte {
	random := rand.New(rand.NewPCG(seed, uint64(size)))
	data := make([]byte, 0, size+8)
	for len(data) < size {
		data = binary.LittleEndian.AppendUint64(data, random.Uint64())
	}
	return data[:size]
}
