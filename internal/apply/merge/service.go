package merge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// openstackPrefix is the prefix of the annotations that contain the state of OpenStack's load balancer controller.
const openstackPrefix = "loadbalancer.openstack.org"

// trafficPolicyLocal is the external traffic policy for which the API server allocates a health check port.
const trafficPolicyLocal = string(corev1.ServiceExternalTrafficPolicyLocal)

// ofService returns the rule of Services. A Service keeps its cluster IP, unless the manifest sets clusterIP to None.
func (r kindRules) ofService() rule {
	if valueAt(r.result, []string{"spec", "clusterIP"}) == corev1.ClusterIPNone {
		return rule{keep: r.keepInService}
	}
	return rule{keep: r.keepInService, instead: [][]string{{"spec", "clusterIP"}}}
}

// keepInService keeps the addresses and ports that are allocated for a Service, the class of its load balancer, and its annotations of
// OpenStack.
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
	if liveType == corev1.ServiceTypeLoadBalancer && desiredType == corev1.ServiceTypeLoadBalancer {
		keepIfEmpty(live, result, "loadBalancerClass") // a webhook may set it at the creation, and it cannot be removed
		if live["externalTrafficPolicy"] == trafficPolicyLocal && result["externalTrafficPolicy"] == trafficPolicyLocal {
			keepIfEmpty(live, result, "healthCheckNodePort")
		}
	}
	return nil
}

// keepOpenStackAnnotations keeps the annotations of OpenStack, even if ForceAnnotations is true.
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

// keepIfEmpty copies a field from live, if live has it, and if the value in result is missing, empty or 0.
func keepIfEmpty(live, result map[string]any, field string) {
	number, isNumber := asNumber(result[field])
	if (isEmpty(result[field]) || isNumber && number == 0) && !isEmpty(live[field]) {
		result[field] = live[field]
	}
}

// port is a port of a Service. node is its node port, 0 if it has none.
type port struct {
	number   float64
	protocol string
	name     string
	node     float64
}

func portOf(value map[string]any) (port, error) {
	number, err := numberAt(value, "port")
	if err != nil {
		return port{}, err
	}
	protocol, err := textAt(value, "protocol")
	if err != nil {
		return port{}, err
	}
	name, err := textAt(value, "name")
	if err != nil {
		return port{}, err
	}
	node, err := numberAt(value, "nodePort")
	return port{number: number, protocol: cmp.Or(protocol, string(corev1.ProtocolTCP)), name: name, node: node}, err
}

func portsOf(values []map[string]any) ([]port, error) {
	ports := make([]port, 0, len(values))
	for _, value := range values {
		next, err := portOf(value)
		if err != nil {
			return nil, err
		}
		ports = append(ports, next)
	}
	return ports, nil
}

// keepNodePorts gives each port without a node port the node port of a live port: of the port with the same number and protocol, otherwise
// of the port with the same name. It gives each live node port to at most one port, and to none if the manifest itself sets that node port.
// Two ports without a name have the same name.
func keepNodePorts(live, result map[string]any) error {
	liveValues, err := mapsAt(live, "ports")
	if err != nil {
		return fmt.Errorf("live object: %w", err)
	}
	livePorts, err := portsOf(liveValues)
	if err != nil {
		return fmt.Errorf("live object: %w", err)
	}
	values, err := mapsAt(result, "ports")
	if err != nil {
		return err
	}
	ports, err := portsOf(values)
	if err != nil {
		return err
	}
	used := make([]bool, len(livePorts))
	for number, existing := range livePorts {
		used[number] = existing.node == 0 || slices.ContainsFunc(ports, func(desired port) bool {
			return desired.node == existing.node && desired.protocol == existing.protocol
		})
	}
	for _, same := range []func(a, b port) bool{
		func(a, b port) bool { return a.number == b.number && a.protocol == b.protocol },
		func(a, b port) bool { return a.name == b.name },
	} {
		for number, desired := range ports {
			if desired.node != 0 {
				continue
			}
			delete(values[number], "nodePort")
			if at := unusedPort(livePorts, used, func(existing port) bool { return same(desired, existing) }); at >= 0 {
				used[at], ports[number].node = true, livePorts[at].node
				values[number]["nodePort"] = liveValues[at]["nodePort"]
			}
		}
	}
	return nil
}

// unusedPort returns the index of the first matching port that is not used; -1 if there is none.
func unusedPort(ports []port, used []bool, matches func(port) bool) int {
	for number, each := range ports {
		if !used[number] && matches(each) {
			return number
		}
	}
	return -1
}
