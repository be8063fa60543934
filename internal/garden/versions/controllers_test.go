package versions

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestControllersOfAVirtualCluster(t *testing.T) {
	always := []string{
		"attachdetach", "cloud-node-lifecycle", "endpoint", "ephemeral-volume", "nodeipam", "nodelifecycle", "persistentvolume-binder",
		"persistentvolume-expander", "pv-protection", "serviceaccount-token", "ttl",
	}
	with := func(others ...string) []string { return append(others, always...) }
	for sentence, tc := range map[string]struct {
		version       string
		runtimeConfig map[string]bool
		want          []string
	}{
		"the first version": {version: "1.32.1", want: always},
		"1.33":              {version: "1.33.1", want: with("device-taint-eviction-controller")},
		"1.35": {
			version: "1.35.1", want: with("device-taint-eviction-controller", "podcertificaterequest-cleaner-controller"),
		},
		"the last version": {version: "1.36.1", want: with(
			"device-taint-eviction-controller", "podcertificaterequest-cleaner-controller", "podgroup-protection-controller",
			"resourcepoolstatusrequest-controller",
		)},
		"an unknown version": {version: "1.31.1"},
		"an API that is off": {
			version: "1.32.1", runtimeConfig: map[string]bool{"policy/v1": false, "batch/v1": true}, want: with("disruption"),
		},
		"controllers of two APIs that are off": {
			version: "1.32.1", runtimeConfig: map[string]bool{"authorization.k8s.io/v1": false, "certificates.k8s.io/v1": false},
			want: with("csrapproving", "csrcleaner", "csrsigning"),
		},
		"a resource that is off": {version: "1.32.1", runtimeConfig: map[string]bool{"policy/v1/poddisruptionbudgets": false}, want: always},
		"the former version of an API, in which it was": {
			version: "1.32.1", runtimeConfig: map[string]bool{"networking.k8s.io/v1beta1": false}, want: with("service-cidr-controller"),
		},
		"the later version of an API, in which it was not yet": {
			version: "1.32.1", runtimeConfig: map[string]bool{"networking.k8s.io/v1": false}, want: always,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			NewWithT(t).Expect(read(t, tc.version).DisabledControllers(tc.runtimeConfig)).To(ConsistOf(tc.want))
		})
	}
}

func TestControllersAreSortedAndThereOnce(t *testing.T) {
	NewWithT(t).Expect(read(t, "1.32.1").DisabledControllers(map[string]bool{
		"autoscaling/v1": false, "autoscaling/v2": false, "apps/v1": false,
	})).To(Equal([]string{
		"attachdetach", "cloud-node-lifecycle", "daemonset", "deployment", "endpoint", "ephemeral-volume", "horizontalpodautoscaling",
		"nodeipam", "nodelifecycle", "persistentvolume-binder", "persistentvolume-expander", "pv-protection", "replicaset",
		"serviceaccount-token", "statefulset", "ttl",
	}))
}

func TestControllersDependOnAPIVersionsThatAreKnown(t *testing.T) {
	for _, row := range switchedOff {
		g := NewWithT(t)
		g.Expect(row.columns).To(HaveLen(len(supported)), row.api)
		for i, column := range row.columns {
			if column == '+' && row.api != "" {
				g.Expect(read(t, supported[i]).API(row.api)).To(Equal(Present), row.api+" in "+supported[i])
			}
		}
	}
}
