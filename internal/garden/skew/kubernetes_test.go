package skew_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/espalier-dev/espalier/internal/garden/skew"
)

func TestCheckKubernetes(t *testing.T) {
	const field = "spec.virtualCluster.kubernetes.version is "
	for name, tc := range map[string]struct {
		current, wanted, unfinished, manager string
		want                                 string // "" allows
	}{
		"the same version":                       {current: "1.35.1", wanted: "1.35.1", unfinished: "1 of 2"},
		"a later patch version during a rollout": {current: "1.35.1", wanted: "1.35.2", unfinished: "1 of 2"},
		"the next minor version":                 {current: "1.35.1", wanted: "1.36.0", manager: "1.35.0"},
		"another kube-controller-manager":        {current: "1.35.1", wanted: "1.35.2", manager: "1.34.9"},
		"an earlier patch version":               {current: "1.35.1", wanted: "1.35.0", want: downgrade("1.35.0", "1.35.1")},
		"an earlier minor version":               {current: "1.35.1", wanted: "1.34.9", want: downgrade("1.34.9", "1.35.1")},
		"the next minor version during a rollout": {
			current: "1.35.1", wanted: "1.36.0", unfinished: "1 of 2",
			want: field + "1.36.0, but kube-apiserver 1.35.1 is not rolled out: 1 of 2; the upgrade goes on in a later attempt, when it is",
		},
		"the next minor version before kube-controller-manager has the current one": {
			current: "1.35.1", wanted: "1.36.0", manager: "1.34.9",
			want: field + "1.36.0, but kube-controller-manager still has 1.34.9; set it to 1.35.1 until kube-controller-manager has that " +
				"version too",
		},
		"two minor versions later": {
			current: "1.34.1", wanted: "1.36.0",
			want: field + "1.36.0, but kube-apiserver has 1.34.1, and an upgrade cannot skip a minor version" + remedy,
		},
		"the next major version": {
			current: "1.34.1", wanted: "2.35.0",
			want: field + "2.35.0, but kube-apiserver has 1.34.1, and an upgrade cannot skip a minor version" + remedy,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			current := skew.Kubernetes{APIServer: version.MustParseSemantic(tc.current), Unfinished: tc.unfinished}
			if tc.manager != "" {
				current.ControllerManager = version.MustParseSemantic(tc.manager)
			}
			err := skew.CheckKubernetes(current, version.MustParseSemantic(tc.wanted))
			if tc.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(tc.want))
		})
	}
}

const remedy = "; correct spec.virtualCluster.kubernetes.version, or skip this check with the annotation " +
	"espalier.dev/skipped-checks=kubernetes-version"

func downgrade(wanted, current string) string {
	return "spec.virtualCluster.kubernetes.version is " + wanted + ", but kube-apiserver has " + current +
		", and a downgrade is not supported" + remedy
}
