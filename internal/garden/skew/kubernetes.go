package skew

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
)

// kubernetesField is the field of a Garden with the version of the virtual cluster.
const kubernetesField = "spec.virtualCluster.kubernetes.version"

// Kubernetes is the versions of Kubernetes that the virtual cluster runs.
type Kubernetes struct {
	// APIServer is the version of kube-apiserver, required.
	APIServer *version.Version
	// Unfinished is the reason why the rollout of kube-apiserver is not complete, or "". During a rollout, some of its Pods may run the
	// previous minor version.
	Unfinished string
	// ControllerManager is the version of kube-controller-manager; nil if there is none.
	ControllerManager *version.Version
}

// CheckKubernetes returns an error unless the virtual cluster may be updated to the wanted version of Kubernetes. The version may be the
// version of kube-apiserver, a later patch of this version, or a version of the next minor version. For the next minor version,
// kube-apiserver must be rolled out, and kube-controller-manager, if it exists, must not have an earlier minor version than
// kube-apiserver.
func CheckKubernetes(current Kubernetes, wanted *version.Version) error {
	const remedy = "; correct " + kubernetesField + ", or skip this check with the annotation espalier.dev/skipped-checks=kubernetes-version"
	server, manager := current.APIServer, current.ControllerManager
	switch minors := int(wanted.Minor()) - int(server.Minor()); {
	case wanted.LessThan(server):
		return fmt.Errorf("%s is %s, but kube-apiserver has %s, and a downgrade is not supported"+remedy, kubernetesField, wanted, server)
	case wanted.Major() != server.Major() || minors > 1:
		return fmt.Errorf("%s is %s, but kube-apiserver has %s, and an upgrade cannot skip a minor version"+remedy,
			kubernetesField, wanted, server)
	case minors == 1 && current.Unfinished != "":
		return fmt.Errorf("%s is %s, but kube-apiserver %s is not rolled out: %s; the upgrade goes on in a later attempt, when it is",
			kubernetesField, wanted, server, current.Unfinished)
	case minors == 1 && manager != nil && manager.Minor() < server.Minor():
		return fmt.Errorf("%s is %s, but kube-controller-manager still has %s; set it to %s until kube-controller-manager has that version too",
			kubernetesField, wanted, manager, server)
	}
	return nil
}
