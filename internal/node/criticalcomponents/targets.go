package criticalcomponents

import (
	"errors"
	"slices"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// shouldRunOn reports whether a Pod of the DaemonSet belongs on the Node, by the rules of Kubernetes' DaemonSet controller: node name, node
// selector and required affinity match, and the Pod tolerates every taint with the effect NoSchedule or NoExecute. An affinity that cannot
// be parsed matches no Node: the DaemonSet controller creates no Pod for it.
func shouldRunOn(node *corev1.Node, daemonSet *appsv1.DaemonSet) bool {
	spec := &daemonSet.Spec.Template.Spec
	if spec.NodeName != "" && spec.NodeName != node.Name {
		return false
	}
	if matches, err := nodeaffinity.NewRequiredNodeAffinity(spec.NodeSelector, spec.Affinity).Match(node); err != nil || !matches {
		return false
	}
	_, keptAway := corev1helpers.FindMatchingUntoleratedTaint(logr.Discard(), node.Spec.Taints, daemonTolerations(spec),
		func(taint *corev1.Taint) bool {
			return taint.Effect == corev1.TaintEffectNoExecute || taint.Effect == corev1.TaintEffectNoSchedule
		}, true)
	return !keptAway
}

// daemonTolerations returns the tolerations of the DaemonSet's Pods: the tolerations of the template, and the tolerations that the
// DaemonSet controller adds.
func daemonTolerations(spec *corev1.PodSpec) []corev1.Toleration {
	tolerations := slices.Clone(spec.Tolerations)
	add := func(key string, effect corev1.TaintEffect) {
		tolerations = append(tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect})
	}
	add(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute)
	add(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)
	for _, key := range []string{
		corev1.TaintNodeDiskPressure, corev1.TaintNodeMemoryPressure, corev1.TaintNodePIDPressure, corev1.TaintNodeUnschedulable,
	} {
		add(key, corev1.TaintEffectNoSchedule)
	}
	if spec.HostNetwork {
		add(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule)
	}
	return tolerations
}

// affinityFault returns an error that names the field of the DaemonSet's required node affinity that cannot be parsed; nil if every field
// can be parsed. The API server accepts some values that cannot be parsed, for example a value for "Gt" that is not a number.
func affinityFault(daemonSet *appsv1.DaemonSet) error {
	affinity := daemonSet.Spec.Template.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	at := field.NewPath("spec", "template", "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
	_, err := nodeaffinity.NewNodeSelector(affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution, field.WithPath(at))
	if err == nil {
		return nil
	}
	return errors.New(bounded(err.Error(), maxFault))
}
