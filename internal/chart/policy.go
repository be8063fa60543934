package chart

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/excerpt"
)

// Policy describes the objects that a chart may contain. Its zero value is the safe default: objects of usual kinds in the namespace of the
// release, with rights that the chart itself lists, without access to nodes.
type Policy struct {
	// Kinds are additional namespaced kinds, "Kind" or "Kind.group".
	Kinds []string `json:"kinds,omitempty"`
	// ClusterKinds are additional kinds without a namespace, "Kind" or "Kind.group".
	ClusterKinds []string `json:"clusterKinds,omitempty"`
	// Namespaces are allowed for objects, subjects of bindings and Services of webhooks, besides the namespace of the release.
	Namespaces []string `json:"namespaces,omitempty"`
	// ClusterRoles are names of existing roles that bindings may refer to, besides roles of the chart.
	ClusterRoles []string `json:"clusterRoles,omitempty"`
	// Wildcards allows "*" in rules of roles.
	Wildcards bool `json:"wildcards,omitempty"`
	// Escalation allows the verbs escalate, bind and impersonate, and roles that collect the rights of others or extend them.
	Escalation bool `json:"escalation,omitempty"`
	// Webhooks allows configurations of admission webhooks.
	Webhooks bool `json:"webhooks,omitempty"`
	// HostAccess allows Pods that use the files, network or processes of a node, and Services that take over addresses.
	HostAccess bool `json:"hostAccess,omitempty"`
	// SignatureKeys are public keys in PEM format. If there are any, one of them must have signed the chart with cosign.
	SignatureKeys []string `json:"signatureKeys,omitempty"`
	// Reserved are objects that the caller itself keeps in the namespace of the release, "Kind/name".
	Reserved []string `json:"-"`
}

// Breach is a contradiction between an object and the policy.
type Breach struct {
	// Template is the path of the template that produced the object.
	Template string
	// Object is its kind, namespace and name.
	Object string
	// Field is the path of the field.
	Field string
	// Reason is the end of a sentence that begins with the field. It contains no values but names, kinds and verbs.
	Reason string
}

// String returns the breach as a sentence.
func (b Breach) String() string {
	return fmt.Sprintf("%s in %s: %s %s", b.Object, b.Template, b.Field, b.Reason)
}

// Breaches returns all contradictions in the order of the objects. Namespace is the namespace of the release.
func (p Policy) Breaches(namespace string, manifests Manifests) []Breach {
	var breaches []Breach
	roles, seen := ownRoles(manifests), map[string]bool{}
	for _, manifest := range manifests {
		for _, object := range manifest.Objects {
			d := document{policy: p, release: namespace, roles: roles, object: object, kind: kindOf(object)}
			findings := duplicate(d, seen)
			for _, check := range checks {
				findings = append(findings, check(d)...)
			}
			for _, f := range findings {
				breaches = append(breaches, Breach{Template: manifest.Template, Object: d.String(), Field: f.field, Reason: f.reason})
			}
		}
	}
	return breaches
}

// document is an object with all that its checks need.
type document struct {
	policy  Policy
	release string
	// roles are the names of the ClusterRoles of the chart.
	roles  map[string]bool
	object map[string]any
	// kind is "Kind" or "Kind.group"; "" if it cannot be read.
	kind string
}

func (d document) namespace() string { return text(child(d.object, "metadata"), "namespace") }
func (d document) name() string      { return text(child(d.object, "metadata"), "name") }

// String names the object.
func (d document) String() string {
	name := d.name()
	if d.namespace() != "" {
		name = d.namespace() + "/" + name
	}
	return excerpt.Of(d.kind+" "+name, maxName)
}

func (d document) isAllowedNamespace(name string) bool {
	return name == d.release || slices.Contains(d.policy.Namespaces, name)
}

type finding struct{ field, reason string }

var checks = []func(document) []finding{
	kindIsAllowed, staysInNamespace, nameIsFree, roleIsModest, bindingIsModest, webhookIsLocal, staysOffHost,
}

// namespacedKinds and clusterKinds are allowed by every policy. They do not contain kinds by which a chart would reach beyond itself, such
// as Namespaces, definitions, ManagedResources and PersistentVolumes.
var (
	namespacedKinds = []string{
		"ConfigMap", "Secret", "Service", "ServiceAccount", "Pod", "PersistentVolumeClaim", "Deployment.apps", "StatefulSet.apps",
		"DaemonSet.apps", "Job.batch", "CronJob.batch", "PodDisruptionBudget.policy", "HorizontalPodAutoscaler.autoscaling",
		"VerticalPodAutoscaler.autoscaling.k8s.io", "NetworkPolicy.networking.k8s.io", "Lease.coordination.k8s.io",
		"Role." + rbac, "RoleBinding." + rbac, "ServiceMonitor.monitoring.coreos.com", "PodMonitor.monitoring.coreos.com",
		"PrometheusRule.monitoring.coreos.com", "ScrapeConfig.monitoring.coreos.com",
	}
	clusterKinds = []string{"ClusterRole." + rbac, "ClusterRoleBinding." + rbac}
	webhookKinds = []string{
		"MutatingWebhookConfiguration.admissionregistration.k8s.io", "ValidatingWebhookConfiguration.admissionregistration.k8s.io",
	}
)

const rbac = "rbac.authorization.k8s.io"

func kindIsAllowed(d document) []finding {
	switch {
	case slices.Contains(webhookKinds, d.kind):
		if !d.policy.Webhooks {
			return []finding{{"kind", "is a webhook"}}
		}
	case !d.isNamespaced() && !slices.Contains(clusterKinds, d.kind) && !slices.Contains(d.policy.ClusterKinds, d.kind):
		return []finding{{"kind", "is not allowed"}}
	}
	return nil
}

func (d document) isNamespaced() bool {
	return slices.Contains(namespacedKinds, d.kind) || slices.Contains(d.policy.Kinds, d.kind)
}

func staysInNamespace(d document) []finding {
	switch {
	case !d.isNamespaced() || d.isAllowedNamespace(d.namespace()):
		return nil
	case d.namespace() == "": // a ManagedResource creates it in another namespace than Helm does
		return []finding{{"metadata.namespace", `is missing; the object would be in the namespace "default"`}}
	}
	return []finding{{"metadata.namespace", fmt.Sprintf("is not %q", d.release)}}
}

func nameIsFree(d document) []finding {
	kind, _, _ := strings.Cut(d.kind, ".")
	switch {
	case d.name() == "":
		return []finding{{"metadata.name", "is missing"}}
	case d.namespace() == d.release && slices.Contains(d.policy.Reserved, kind+"/"+d.name()):
		return []finding{{"metadata.name", "is reserved for the object with which the extension is installed"}}
	case strings.HasPrefix(kind, "ClusterRole") &&
		(strings.HasPrefix(d.name(), "system:") || slices.Contains([]string{"cluster-admin", "admin", "edit", "view"}, d.name())):
		return []finding{{"metadata.name", "belongs to Kubernetes"}}
	}
	return nil
}

func duplicate(d document, seen map[string]bool) []finding {
	identity := d.kind + "/" + d.namespace() + "/" + d.name()
	if seen[identity] {
		return []finding{{"metadata.name", "is the name of another object of this chart"}}
	}
	seen[identity] = true
	return nil
}

func ownRoles(manifests Manifests) map[string]bool {
	names := map[string]bool{}
	for _, manifest := range manifests {
		for _, object := range manifest.Objects {
			if kindOf(object) == "ClusterRole."+rbac {
				names[text(child(object, "metadata"), "name")] = true
			}
		}
	}
	return names
}

// roleIsModest does not judge Roles in the namespace of the release: they give nothing that is not part of the installation.
func roleIsModest(d document) []finding {
	if d.kind != "ClusterRole."+rbac && (d.kind != "Role."+rbac || d.namespace() == d.release) {
		return nil
	}
	var findings []finding
	for i, rule := range objectsOf(d.object["rules"]) {
		for _, field := range []string{"apiGroups", "resources", "verbs", "nonResourceURLs"} {
			for _, each := range list(rule[field]) {
				word := fmt.Sprint(each)
				switch {
				case strings.Contains(word, "*") && !d.policy.Wildcards:
					findings = append(findings, finding{fmt.Sprintf("rules[%d].%s", i, field), "has a wildcard"})
				case field == "verbs" && slices.Contains([]string{"escalate", "bind", "impersonate"}, word) && !d.policy.Escalation:
					findings = append(findings, finding{fmt.Sprintf("rules[%d].verbs", i), "has the verb " + word})
				}
			}
		}
	}
	if d.policy.Escalation {
		return findings
	}
	if d.object["aggregationRule"] != nil {
		findings = append(findings, finding{"aggregationRule", "collects the rights of other roles"})
	}
	for label := range child(d.object, "metadata", "labels") {
		if strings.HasPrefix(label, rbac+"/aggregate-to-") {
			findings = append(findings, finding{"metadata.labels", "extends a role of Kubernetes"})
			break
		}
	}
	return findings
}

func bindingIsModest(d document) []finding {
	if d.kind != "ClusterRoleBinding."+rbac && d.kind != "RoleBinding."+rbac {
		return nil
	}
	var findings []finding
	role := child(d.object, "roleRef")
	if name := text(role, "name"); text(role, "kind") != "Role" && !d.roles[name] && !slices.Contains(d.policy.ClusterRoles, name) {
		findings = append(findings, finding{"roleRef", "is not a role of this chart"})
	}
	for i, subject := range objectsOf(d.object["subjects"]) {
		if text(subject, "kind") != "ServiceAccount" || !d.isAllowedNamespace(text(subject, "namespace")) {
			findings = append(findings, finding{fmt.Sprintf("subjects[%d]", i), fmt.Sprintf("is not a ServiceAccount in %q", d.release)})
		}
	}
	return findings
}

// webhookIsLocal allows URLs: a webhook that serves another cluster has no Service there.
func webhookIsLocal(d document) []finding {
	if !slices.Contains(webhookKinds, d.kind) {
		return nil
	}
	var findings []finding
	for i, webhook := range objectsOf(d.object["webhooks"]) {
		if service := child(webhook, "clientConfig", "service"); service != nil && !d.isAllowedNamespace(text(service, "namespace")) {
			findings = append(findings, finding{
				fmt.Sprintf("webhooks[%d].clientConfig.service.namespace", i), fmt.Sprintf("is not %q", d.release),
			})
		}
	}
	return findings
}

// kindOf returns "Kind" or "Kind.group"; "" for an object without a readable apiVersion.
func kindOf(object map[string]any) string {
	version, err := schema.ParseGroupVersion(text(object, "apiVersion"))
	if err != nil {
		return ""
	}
	return version.WithKind(text(object, "kind")).GroupKind().String()
}

// list returns a list; nil if the value is none.
func list(value any) []any {
	items, _ := value.([]any)
	return items
}

// objectsOf returns the objects of a list. Items that are no objects are nil, so that the others keep their index.
func objectsOf(value any) []map[string]any {
	items := list(value)
	objects := make([]map[string]any, len(items))
	for i, item := range items {
		objects[i], _ = item.(map[string]any)
	}
	return objects
}
