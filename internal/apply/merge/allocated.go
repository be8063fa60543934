package merge

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// DropAllocated removes from successor, the object that replaces a live Service, the addresses and ports that are allocated for the live
// one. As long as the live Service exists, the API server refuses them in a dry run of the creation. Objects of other kinds stay as they
// are.
func DropAllocated(successor, live *unstructured.Unstructured) {
	if successor.GroupVersionKind().GroupKind() != (schema.GroupKind{Kind: "Service"}) {
		return
	}
	spec, err := mapAt(successor.Object, "spec")
	if err != nil {
		return // the API server refuses such a successor with an error
	}
	allocated, err := mapAt(live.Object, "spec")
	if err != nil {
		return
	}
	address := spec["clusterIP"]
	if !isEmpty(address) && address != corev1.ClusterIPNone && address == allocated["clusterIP"] {
		delete(spec, "clusterIP")
		delete(spec, "clusterIPs")
	}
	used := nodePorts(allocated)
	if number, isNumber := asNumber(spec["healthCheckNodePort"]); isNumber && slices.Contains(used, number) {
		delete(spec, "healthCheckNodePort")
	}
	ports, err := mapsAt(spec, "ports")
	if err != nil {
		return
	}
	for _, each := range ports {
		if number, isNumber := asNumber(each["nodePort"]); isNumber && slices.Contains(used, number) {
			delete(each, "nodePort")
		}
	}
}

// nodePorts lists the ports that the spec of a Service occupies on the nodes.
func nodePorts(spec map[string]any) []float64 {
	var used []float64
	ports, _ := mapsAt(spec, "ports") // a spec of an unexpected structure counts as without ports
	for _, each := range append(ports, map[string]any{"nodePort": spec["healthCheckNodePort"]}) {
		if number, isNumber := asNumber(each["nodePort"]); isNumber {
			used = append(used, number)
		}
	}
	return used
}
