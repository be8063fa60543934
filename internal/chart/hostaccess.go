package chart

import (
	"fmt"
	"maps"
	"slices"
)

// staysOffHost refuses Pods that use their node, and Services that take over addresses, unless the policy allows HostAccess. It searches
// the whole object for specifications of Pods, so that it covers custom kinds, too.
//
// k8s.io/pod-security-admission would check the whole baseline profile; API servers do so for namespaces that ask for it by a label. These
// checks are the part of that profile which keeps a Pod away from its node. They fail before an object is applied, and name its template.
func staysOffHost(d document) []finding {
	if d.policy.HostAccess {
		return nil
	}
	var findings []finding
	if d.kind == "Service" && len(list(child(d.object, "spec")["externalIPs"])) > 0 {
		findings = append(findings, finding{"spec.externalIPs", "takes over addresses"})
	}
	return append(findings, eachPod("", d.object, podAccess)...)
}

// eachPod returns the findings of a check in the specifications of Pods in a value and below it, in the order of the fields.
func eachPod(path string, value any, check func(path string, pod map[string]any) []finding) []finding {
	var findings []finding
	switch v := value.(type) {
	case map[string]any:
		if _, isPod := v["containers"].([]any); isPod {
			findings = append(findings, check(path, v)...)
		}
		for _, field := range slices.Sorted(maps.Keys(v)) {
			findings = append(findings, eachPod(join(path, field), v[field], check)...)
		}
	case []any:
		for i, item := range v {
			findings = append(findings, eachPod(fmt.Sprintf("%s[%d]", path, i), item, check)...)
		}
	}
	return findings
}

func podAccess(path string, pod map[string]any) []finding {
	var findings []finding
	for _, field := range []string{"hostNetwork", "hostPID", "hostIPC"} {
		if isSet(pod[field]) {
			findings = append(findings, finding{join(path, field), "uses the node"})
		}
	}
	for i, volume := range objectsOf(pod["volumes"]) {
		if volume["hostPath"] != nil {
			findings = append(findings, finding{fmt.Sprintf("%s.volumes[%d].hostPath", path, i), "uses files of the node"})
		}
	}
	for _, field := range []string{"initContainers", "containers", "ephemeralContainers"} {
		for i, container := range objectsOf(pod[field]) {
			findings = append(findings, containerAccess(fmt.Sprintf("%s.%s[%d]", path, field, i), container)...)
		}
	}
	return findings
}

func containerAccess(path string, container map[string]any) []finding {
	var findings []finding
	rights := child(container, "securityContext")
	if isSet(rights["privileged"]) {
		findings = append(findings, finding{path + ".securityContext.privileged", "gives all rights on the node"})
	}
	if text(rights, "procMount") == "Unmasked" {
		findings = append(findings, finding{path + ".securityContext.procMount", "uses the node"})
	}
	for _, added := range list(child(rights, "capabilities")["add"]) {
		if added != "NET_BIND_SERVICE" {
			findings = append(findings, finding{path + ".securityContext.capabilities.add", "gives rights on the node"})
			break
		}
	}
	for i, port := range objectsOf(container["ports"]) {
		if isSet(port["hostPort"]) {
			findings = append(findings, finding{fmt.Sprintf("%s.ports[%d].hostPort", path, i), "uses a port of the node"})
		}
	}
	return findings
}

// isSet reports whether a field has another value than the default.
func isSet(value any) bool { return !slices.Contains([]any{nil, false, int64(0), float64(0)}, value) }

func join(path, field string) string {
	if path == "" {
		return field
	}
	return path + "." + field
}
