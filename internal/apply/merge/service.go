package merge

import (
	"cmp"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// openstackPrefix is the prefix of the annotations that contain the state of OpenStack's load balancer controller.
const openstackPrefix = "loadbalancer.openstack.org"

// trafficPolicyLocal is the external traffic policy that has a health check port.
const trafficPolicyLocal = string(corev1.ServiceExternalTrafficPolicyLocal)

// keepInService keeps the addresses and ports that are allocated for a Service.
func (r kindRules) keepInService() error {
	if err := r.keepOpenStackAnnotations(); err != nil {
		return err
	}
	live, result, err := r.specs()
	if err != nil {
		return err
	}
	liveType, err := serviceType(live)
	if err != nil {
		return fmt.Errorf("live object: spec.%w", err)
	}
	desiredType, err := serviceType(result)
	if err != nil {
		return fmt.Errorf("spec.%w", err)
	}
	if desiredType == corev1.ServiceTypeLoadBalancer || desiredType == corev1.ServiceTypeNodePort {
		if err := keepNodePorts(live, result); err != nil {
			return fmt.Errorf("spec.ports: %w", err)
		}
		keepIfEmpty(live, result, "loadBalancerIP")
	}
	if desiredType == corev1.ServiceTypeExternalName {
		return nil
	}
	if result["clusterIP"] != corev1.ClusterIPNone && liveType != corev1.ServiceTypeExternalName {
		keep(live, result, "clusterIP")
	}
	if liveType == corev1.ServiceTypeLoadBalancer && desiredType == corev1.ServiceTypeLoadBalancer &&
		live["externalTrafficPolicy"] == trafficPolicyLocal && result["externalTrafficPolicy"] == trafficPolicyLocal {
		keepIfEmpty(live, result, "healthCheckNodePort")
	}
	return nil
}

// keepOpenStackAnnotations keeps the annotations of OpenStack, even if annotations are forced.
func (r kindRules) keepOpenStackAnnotations() error {
	annotations, err := textsAt(r.live, "metadata", "annotations")
	if err != nil {
		return fmt.Errorf("live object: %w", err)
	}
	maps.DeleteFunc(annotations, func(key, _ string) bool { return !strings.HasPrefix(key, openstackPrefix) })
	merged, err := ensureMap(r.result, "metadata", "annotations")
	if err != nil {
		return err
	}
	for key, value := range annotations {
		if _, found := merged[key]; !found {
			merged[key] = value
		}
	}
	return nil
}

func serviceType(spec map[string]any) (corev1.ServiceType, error) {
	name, err := textAt(spec, "type")
	return cmp.Or(corev1.ServiceType(name), corev1.ServiceTypeClusterIP), err
}

// keepIfEmpty keeps a field of live if the manifest has no value for it.
func keepIfEmpty(live, result map[string]any, field string) {
	number, isNumber := asNumber(result[field])
	if (isEmpty(result[field]) || isNumber && number == 0) && !isEmpty(live[field]) {
		result[field] = live[field]
	}
}

// port identifies a port of a Service.
type port struct {
	number float64
	name   string
	node   float64
}

func portOf(value map[string]any) (port, error) {
	number, err := numberAt(value, "port")
	if err != nil {
		return port{}, err
	}
	name, err := textAt(value, "name")
	if err != nil {
		return port{}, err
	}
	node, err := numberAt(value, "nodePort")
	return port{number: number, name: name, node: node}, err
}

// keepNodePorts sets the node port of every port without one to that of the last live port with the same number or the same
// name. Two ports without a name have the same name.
func keepNodePorts(live, result map[string]any) error {
	livePorts, err := mapsAt(live, "ports")
	if err != nil {
		return fmt.Errorf("live object: %w", err)
	}
	ports, err := mapsAt(result, "ports")
	if err != nil {
		return err
	}
	for _, value := range ports {
		desired, err := portOf(value)
		if err != nil {
			return err
		}
		if desired.node != 0 {
			continue
		}
		for _, liveValue := range livePorts {
			existing, err := portOf(liveValue)
			if err != nil {
				return fmt.Errorf("live object: %w", err)
			}
			if existing.number != desired.number && existing.name != desired.name {
				continue
			}
			delete(value, "nodePort")
			if existing.node != 0 {
				value["nodePort"] = liveValue["nodePort"]
			}
		}
	}
	return nil
}
