package extension_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/extension"
)

func TestFormerVersionsOfGardenerInjectAlways(t *testing.T) {
	for version, want := range map[string]bool{
		"1.84.0": true, "v1.103.2": true, "1.114.9": true, "1.115.0-dev": false, "v1.115.0": false, "1.149.3": false,
	} {
		t.Run(version, func(t *testing.T) {
			always, err := extension.AlwaysInjects(version)
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			NewWithT(t).Expect(always).To(Equal(want))
		})
	}
	_, err := extension.AlwaysInjects("next")
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring(`version "next"`)))
}
