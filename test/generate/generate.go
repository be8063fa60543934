// Package generate runs tests with generated cases.
//
// The name of such a test begins with TestGenerated. `make test` runs a sample of its cases, which is the same each time and takes at most
// 20 seconds. `make generators` runs it for the duration of GENERATE, with cases that GENERATE_SEED chooses.
package generate

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// Cases calls test with a source of randomness, as many times as sample says, and then until the duration of GENERATE is over. It stops at
// the first failure.
func Cases(t *testing.T, sample int, test func(t *testing.T, random *rand.Rand)) {
	t.Helper()
	g := NewWithT(t)
	seed, duration := uint64(1), time.Duration(0)
	var err error
	if text := os.Getenv("GENERATE_SEED"); text != "" {
		seed, err = strconv.ParseUint(text, 10, 64)
		g.Expect(err).NotTo(HaveOccurred(), "GENERATE_SEED")
	}
	if text := os.Getenv("GENERATE"); text != "" {
		duration, err = time.ParseDuration(text)
		g.Expect(err).NotTo(HaveOccurred(), "GENERATE")
	}
	number, begin := 0, time.Now()
	for ; number < sample || time.Since(begin) < duration; number++ {
		passed := t.Run(fmt.Sprintf("case %d", number), func(t *testing.T) { test(t, rand.New(rand.NewPCG(seed, uint64(number)))) })
		if !passed {
			t.Fatalf("GENERATE_SEED=%d repeats these cases; case %d failed", seed, number)
		}
	}
	t.Logf("GENERATE_SEED=%d repeats these %d cases", seed, number)
}
