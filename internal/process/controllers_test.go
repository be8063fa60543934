package process

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestAReconciliationHasThreeMinutes(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Deadline).To(Equal(3 * time.Minute))
	g.Expect(ControllerOptions(1, Deadline, time.Second, time.Minute).ReconciliationTimeout).To(Equal(Deadline))
}
