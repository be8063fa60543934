package connectivity

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// group is a set of Pods of one workload to which the same policies and rules apply.
type group struct {
	namespace string
	// name is "namespace/workload", followed by a number if policies distinguish Pods of the workload.
	name   string
	labels labels.Set
	named  map[namedPort][]int32
	// sides are the results of the policies, by direction.
	sides map[networkingv1.PolicyType]*side
}

type namedPort struct {
	protocol corev1.Protocol
	name     string
}

// groups returns groups of Pods, sorted by the names of the groups. The Pods of a group belong to the same workload, and have the same
// named ports and the same values of the labels that policies use. Finished Pods are ignored. Pods in the host network, to which policies
// do not apply, are also ignored, and their number is returned.
func groups(pods []corev1.Pod, policies []networkingv1.NetworkPolicy) (found []*group, onHostNetwork int) {
	keys := usedLabels(policies)
	byKey, perName := map[string]*group{}, map[string]int{}
	slices.SortFunc(pods, func(a, b corev1.Pod) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	for i := range pods {
		pod := &pods[i]
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		if pod.Spec.HostNetwork {
			onHostNetwork++
			continue
		}
		g := &group{namespace: pod.Namespace, name: pod.Namespace + "/" + workload(pod), labels: labels.Set{}, named: namedPorts(pod)}
		for _, key := range keys {
			if value, ok := pod.Labels[key]; ok {
				g.labels[key] = value
			}
		}
		key := fmt.Sprint(g.name, g.labels, g.named)
		if byKey[key] != nil {
			continue
		}
		byKey[key] = g
		g.sides = map[networkingv1.PolicyType]*side{networkingv1.PolicyTypeIngress: {}, networkingv1.PolicyTypeEgress: {}}
		perName[g.name]++
		if n := perName[g.name]; n > 1 {
			g.name = fmt.Sprintf("%s#%d", g.name, n)
		}
		found = append(found, g)
	}
	slices.SortFunc(found, func(a, b *group) int { return strings.Compare(a.name, b.name) })
	return found, onHostNetwork
}

// workload returns the name of the Pod's workload: its controller, the Deployment of its ReplicaSet, or the Pod itself.
func workload(pod *corev1.Pod) string {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return pod.Name
	}
	if hash := pod.Labels["pod-template-hash"]; owner.Kind == "ReplicaSet" && hash != "" {
		return strings.TrimSuffix(owner.Name, "-"+hash)
	}
	return owner.Name
}

func namedPorts(pod *corev1.Pod) map[namedPort][]int32 {
	named := map[namedPort][]int32{}
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			if port.Name != "" {
				key := namedPort{port.Protocol, port.Name}
				named[key] = append(named[key], port.ContainerPort)
			}
		}
	}
	return named
}

// usedLabels returns the sorted keys of the Pod labels that selectors of policies use.
func usedLabels(policies []networkingv1.NetworkPolicy) []string {
	used := map[string]bool{}
	add := func(selector *metav1.LabelSelector) {
		if selector == nil {
			return
		}
		for key := range selector.MatchLabels {
			used[key] = true
		}
		for _, expression := range selector.MatchExpressions {
			used[expression.Key] = true
		}
	}
	for i := range policies {
		add(&policies[i].Spec.PodSelector)
		for _, rule := range rulesOf(&policies[i]) {
			for _, peer := range rule.peers {
				add(peer.PodSelector)
			}
		}
	}
	return slices.Sorted(maps.Keys(used))
}
