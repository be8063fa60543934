package chart

import (
	"fmt"
	"slices"
	"strings"
)

// runs are the verbs by which a client chooses what a Pod runs.
var runs = []string{"create", "update", "patch"}

// borrowers are some of the resources by which a client acts with any ServiceAccount of a namespace, with the verbs that it needs: the
// client gets a token, starts Pods itself or by the controller of a kind, or runs commands in Pods of other programs. Nil stands for every
// verb.
var borrowers = []struct {
	group, resource string
	verbs           []string
}{
	{"", "serviceaccounts/token", []string{"create"}},
	{"", "pods", runs},
	{"", "pods/ephemeralcontainers", []string{"update", "patch"}},
	{"", "pods/exec", nil},
	{"", "pods/attach", nil},
	{"", "replicationcontrollers", runs},
	{"apps", "replicasets", runs},
	{"apps", "deployments", runs},
	{"apps", "statefulsets", runs},
	{"apps", "daemonsets", runs},
	{"batch", "jobs", runs},
	{"batch", "cronjobs", runs},
	{"resources.gardener.cloud", "managedresources", runs},
	{"druid.gardener.cloud", "etcds", runs},
	{"monitoring.coreos.com", "prometheuses", runs},
	{"monitoring.coreos.com", "prometheusagents", runs},
	{"monitoring.coreos.com", "alertmanagers", runs},
	{"monitoring.coreos.com", "thanosrulers", runs},
}

// borrowing returns the rights of a rule to act with the ServiceAccounts of other programs. A resource with the name of a borrower is
// refused in every API group, a wildcard only in the group of a borrower. Rights to Secrets are not refused, although a client that may
// create and read Secrets gets the token of any ServiceAccount: admission controllers of Gardener keep their certificates in Secrets of
// namespace garden.
func borrowing(i int, rule map[string]any) []finding {
	groups, verbs := list(rule["apiGroups"]), list(rule["verbs"])
	var findings []finding
	for _, each := range list(rule["resources"]) {
		resource := fmt.Sprint(each)
		for _, b := range borrowers {
			covers := resource == b.resource ||
				coversByWildcard(resource, b.resource) && (slices.Contains(groups, "*") || slices.Contains(groups, any(b.group)))
			gives := b.verbs == nil && len(verbs) > 0 || slices.ContainsFunc(verbs, func(verb any) bool {
				return verb == "*" || slices.Contains(b.verbs, fmt.Sprint(verb))
			})
			if covers && gives {
				findings = append(findings, finding{
					fmt.Sprintf("rules[%d].resources", i), "gives the rights of other programs by " + resource,
				})
				break
			}
		}
	}
	return findings
}

// coversByWildcard reports whether a resource of a rule, "*" or "*/subresource", contains another resource.
func coversByWildcard(pattern, resource string) bool {
	subresource, isWildcard := strings.CutPrefix(pattern, "*/")
	return pattern == "*" || isWildcard && strings.HasSuffix(resource, "/"+subresource)
}

// usesOwnAccounts refuses Pods with the ServiceAccount of another program in a shared namespace. The account "default" has no rights,
// unless an administrator gives them to all Pods.
func usesOwnAccounts(d document) []finding {
	if !d.policy.Shared {
		return nil
	}
	return eachPod("", d.object, func(path string, pod map[string]any) (findings []finding) {
		for _, field := range []string{"serviceAccountName", "serviceAccount"} {
			name := text(pod, field)
			if name != "" && name != "default" && !d.own[identity("ServiceAccount", d.namespace(), name)] {
				findings = append(findings, finding{join(path, field), "is not a ServiceAccount of this chart"})
			}
		}
		return findings
	})
}

// secretIsNoToken refuses Secrets that the API server fills with the token of any ServiceAccount of a shared namespace.
func secretIsNoToken(d document) []finding {
	if d.policy.Shared && d.kind == "Secret" && text(d.object, "type") == "kubernetes.io/service-account-token" {
		return []finding{{"type", "gets the token of a ServiceAccount"}}
	}
	return nil
}

// reservedLabels are the labels by which the programs of a Garden find their Secrets and ConfigMaps: the token requestor, which fills a
// Secret with the token of any ServiceAccount, the secrets manager, and the operator.
var reservedLabels = []string{
	"resources.gardener.cloud/purpose", "managed-by", "manager-identity", "gardener.cloud/role", "espalier.dev/kept-credential",
}

// encryptionRole is the end of the label role of Secrets with the encryption configurations of API servers.
const encryptionRole = "-etcd-encryption-configuration"

// leavesLabelsToOthers refuses Secrets and ConfigMaps with labels by which other programs of a shared namespace find their own objects. It
// allows these labels on objects of other kinds, on which they have no such effect.
func leavesLabelsToOthers(d document) []finding {
	if !d.policy.Shared || d.kind != "Secret" && d.kind != "ConfigMap" {
		return nil
	}
	var findings []finding
	labels := child(d.object, "metadata", "labels")
	for _, label := range reservedLabels {
		if _, isReserved := labels[label]; isReserved {
			findings = append(findings, finding{"metadata.labels", "has " + label + ", by which other programs find their objects"})
		}
	}
	if strings.HasSuffix(text(labels, "role"), encryptionRole) {
		findings = append(findings, finding{"metadata.labels", "makes it the encryption configuration of an API server"})
	}
	return findings
}

// selectsSomePods refuses policies for all Pods of a shared namespace. A policy/v1 budget without a selector selects no Pods.
func selectsSomePods(d document) []finding {
	if !d.policy.Shared {
		return nil
	}
	spec := child(d.object, "spec")
	switch {
	case d.kind == "NetworkPolicy.networking.k8s.io" && isEmptySelector(child(spec, "podSelector")):
		return []finding{{"spec.podSelector", "selects the Pods of all programs"}}
	case d.kind == "PodDisruptionBudget.policy" && spec["selector"] != nil && isEmptySelector(child(spec, "selector")):
		return []finding{{"spec.selector", "selects the Pods of all programs"}}
	}
	return nil
}

func isEmptySelector(selector map[string]any) bool {
	return len(child(selector, "matchLabels")) == 0 && len(list(selector["matchExpressions"])) == 0
}

// scalesOwnWorkload refuses autoscalers of workloads of other programs in a shared namespace.
func scalesOwnWorkload(d document) []finding {
	field, isAutoscaler := map[string]string{
		"HorizontalPodAutoscaler.autoscaling": "scaleTargetRef", "VerticalPodAutoscaler.autoscaling.k8s.io": "targetRef",
	}[d.kind]
	if !d.policy.Shared || !isAutoscaler {
		return nil
	}
	target := child(d.object, "spec", field)
	if !d.own[identity(kindOf(target), d.namespace(), text(target, "name"))] {
		return []finding{{"spec." + field, "is not an object of this chart"}}
	}
	return nil
}
