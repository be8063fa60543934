package requestor_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/test/binary"
)

func TestMetricsTellHowLongTokensLast(t *testing.T) {
	s := newScene(t, binary.Options{})
	s.create(s.secret("a", annotated(durationKey, "2h")))
	s.create(s.secret("b", annotated(durationKey, "3h")))
	s.token("a", "")
	s.token("b", "")
	s.Eventually(func() float64 { return s.gauge("espalier_token_until_first_expiry_seconds") }).
		Should(And(BeNumerically(">", 7000), BeNumerically("<=", 7201)))
}
