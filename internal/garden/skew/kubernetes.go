package skew

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
)

// kubernetesField is the field of a Garden with the version of the virtual cluster.
const kubernetesField = "spec.virtualCluster.kubernetes.version"

// CheckKubernetes returns an error unless the virtual cluster may get a version of Kubernetes: it is that of kube-apiserver or a later
// patch of it, or one of the next minor version. Unfinished is why kube-apiserver is not rolled out, or "": until it is, some of its Pods
// may have the minor version before the current one.
func CheckKubernetes(current, wanted *version.Version, unfinished string) error {
	const remedy = "; correct " + kubernetesField + ", or skip this check with the annotation espalier.dev/skipped-checks=kubernetes-version"
	switch minors := int(wanted.Minor()) - int(current.Minor()); {
	case wanted.LessThan(current):
		return fmt.Errorf("%s is %s, but kube-apiserver has %s, and a downgrade is not supported"+remedy, kubernetesField, wanted, current)
	case wanted.Major() != current.Major() || minors > 1:
		return fmt.Errorf("%s is %s, but kube-apiserver has %s, and an upgrade cannot skip a minor version"+remedy,
			kubernetesField, wanted, current)
	case minors == 1 && unfinished != "":
		return fmt.Errorf("%s is %s, but kube-apiserver %s is not rolled out: %s; the upgrade goes on in a later attempt, when it is",
			kubernetesField, wanted, current, unfinished)
	}
	return nil
}
