package v1alpha1_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

func TestNetworkingClientLabel(t *testing.T) {
	for name, tc := range map[string]struct{ tail, want string }{
		"a Service of the same namespace": {tail: "db-tcp-5432", want: "networking.resources.gardener.cloud/to-db-tcp-5432"},
		"a name of 63 characters stays": {
			tail: strings.Repeat("a", 60), want: "networking.resources.gardener.cloud/to-" + strings.Repeat("a", 60),
		},
		// printf 'to-%061d' 0 | sha256sum
		"a name of 64 characters is cut": {
			tail: strings.Repeat("0", 61), want: "networking.resources.gardener.cloud/to-" + strings.Repeat("0", 54) + "-b58ad",
		},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(resourcesv1alpha1.NetworkingClientLabel(tc.tail)).To(Equal(tc.want))
		})
	}
}
