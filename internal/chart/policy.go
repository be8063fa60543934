package chart

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/excerpt"
)

// Policy describes the objects that a chart may contain. Its zero value is the safe default: objects of usual kinds in the namespace of the
// release, with rights that the chart itself lists, without access to nodes.
type Policy struct {
	// Kinds are additional namespaced kinds, "Kind" or "Kind.group".
	Kinds []string
	// ClusterKinds are additional kinds without a namespace, "Kind" or "Kind.group".
	ClusterKinds []string
	// Namespaces are allowed for objects, subjects of bindings and Services of webhooks, besides the namespace of the release.
	Namespaces []string
	// ClusterRoles are names of ClusterRoles outside the chart to which its bindings may refer.
	ClusterRoles []string
	// Wildcards allows "*" in rules of roles.
	Wildcards bool
	// Escalation allows the verbs escalate, bind and impersonate, roles that collect the rights of other roles or extend roles of Kubernetes,
	// and, in a shared namespace, rights by which a Pod acts with the ServiceAccounts of other programs.
	Escalation bool
	// Webhooks allows configurations of admission webhooks.
	Webhooks bool
	// HostAccess allows Pods that use the files, network or processes of a node, and Services that take over addresses.
	HostAccess bool
	// SignatureKeys are public keys in PEM format. If there are any, one of them must have signed the chart with cosign.
	SignatureKeys []string
	// Reserved are objects that the caller itself keeps in the namespace of the release, "Kind/name".
	Reserved []string
	// Accounts are ServiceAccounts of other namespaces that bindings may name, "namespace/name".
	Accounts []string
	// TrustedRoles are the names of Roles and ClusterRoles of the chart that may give any rights.
	TrustedRoles []string
	// Shared is true if the namespace of the release also belongs to other programs. Then Roles of the chart are judged like ClusterRoles,
	// the chart must not use Roles and ServiceAccounts that are not its own, and its objects must not act on objects of other programs.
	Shared bool
}

// PolicyOf returns the policy of a configuration.
func PolicyOf(c config.EspalierChartPolicy) Policy {
	return Policy{
		Kinds: c.Kinds, ClusterKinds: c.ClusterKinds, Namespaces: c.Namespaces, ClusterRoles: c.ClusterRoles, Wildcards: c.Wildcards,
		Escalation: c.Escalation, Webhooks: c.Webhooks, HostAccess: c.HostAccess, SignatureKeys: c.SignatureKeys,
	}
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

// maxBreaches is the number of breaches that Summary names.
const maxBreaches = 10

// Summary returns breaches in the order of their sentences as one text, which names at most ten of them; "" if there are none.
func Summary(breaches []Breach) string {
	texts := make([]string, 0, len(breaches))
	for _, each := range breaches {
		texts = append(texts, each.String())
	}
	slices.Sort(texts)
	if more := len(texts) - maxBreaches; more > 0 {
		texts = append(texts[:maxBreaches], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}

// Breaches returns all violations of the policy, in the order of the objects. The argument namespace is the namespace of the release.
func (p Policy) Breaches(namespace string, manifests Manifests) []Breach {
	var breaches []Breach
	own, seen := identities(manifests), map[string]bool{}
	for _, manifest := range manifests {
		for _, object := range manifest.Objects {
			d := document{policy: p, release: namespace, own: own, object: object, kind: kindOf(object)}
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

// document is an object with the inputs of its checks.
type document struct {
	policy  Policy
	release string
	// own are the identities of the objects of the chart.
	own    map[string]bool
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

func (d document) isAllowedAccount(namespace, name string) bool {
	if slices.Contains(d.policy.Accounts, namespace+"/"+name) {
		return true
	}
	return d.isAllowedNamespace(namespace) && (!d.policy.Shared || d.own[identity("ServiceAccount", namespace, name)])
}

type finding struct{ field, reason string }

var checks = []func(document) []finding{
	kindIsAllowed, staysInNamespace, nameIsFree, roleIsModest, bindingIsModest, webhookIsLocal, staysOffHost,
	usesOwnAccounts, secretIsNoToken, leavesLabelsToOthers, selectsSomePods, scalesOwnWorkload,
}

// namespacedKinds and clusterKinds are allowed by every policy, and webhookKinds only by a policy with Webhooks. They do not contain other
// kinds by which a chart would reach beyond itself, such as Namespaces, definitions, ManagedResources and PersistentVolumes.
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
	case !d.isNamespaced() && !d.isClusterScoped():
		return []finding{{"kind", "is not allowed"}}
	}
	return nil
}

func (d document) isNamespaced() bool {
	return slices.Contains(namespacedKinds, d.kind) || slices.Contains(d.policy.Kinds, d.kind)
}

func (d document) isClusterScoped() bool {
	return slices.Contains(clusterKinds, d.kind) || slices.Contains(webhookKinds, d.kind) || slices.Contains(d.policy.ClusterKinds, d.kind)
}

// staysInNamespace refuses namespaces that the policy does not allow, a missing namespace, and a namespace of a cluster-scoped object. The
// applier removes the namespace of a cluster-scoped object. With a namespace, the object would look to these checks like an object in the
// namespace of the release, and could replace an object of another program.
func staysInNamespace(d document) []finding {
	switch {
	case d.isClusterScoped():
		if d.namespace() != "" {
			return []finding{{"metadata.namespace", "is set on an object without a namespace"}}
		}
		return nil
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
	id := identity(d.kind, d.namespace(), d.name())
	if seen[id] {
		return []finding{{"metadata.name", "is the name of another object of this chart"}}
	}
	seen[id] = true
	return nil
}

// identity identifies an object of a kind, "Kind" or "Kind.group".
func identity(kind, namespace, name string) string { return kind + "/" + namespace + "/" + name }

// identities returns the identities of all objects.
func identities(manifests Manifests) map[string]bool {
	all := map[string]bool{}
	for _, manifest := range manifests {
		for _, object := range manifest.Objects {
			metadata := child(object, "metadata")
			all[identity(kindOf(object), text(metadata, "namespace"), text(metadata, "name"))] = true
		}
	}
	return all
}

// isJudgedRole reports whether the rules of a role are checked. Trusted roles are not checked, nor are Roles in the namespace of the
// release unless it is shared: they give rights only on objects of the installation.
func (d document) isJudgedRole() bool {
	isJudged := d.kind == "ClusterRole."+rbac || d.kind == "Role."+rbac && (d.namespace() != d.release || d.policy.Shared)
	return isJudged && !slices.Contains(d.policy.TrustedRoles, d.name())
}

func roleIsModest(d document) []finding {
	if !d.isJudgedRole() {
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
		if d.policy.Shared && !d.policy.Escalation {
			findings = append(findings, borrowing(i, rule)...)
		}
	}
	if d.policy.Escalation {
		return findings
	}
	return append(findings, aggregation(d)...)
}

// aggregation returns the ways in which a role collects rights of other roles, or extends them.
func aggregation(d document) []finding {
	var findings []finding
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
	if !d.isAllowedRole(child(d.object, "roleRef")) {
		findings = append(findings, finding{"roleRef", "is not a role of this chart"})
	}
	for i, subject := range objectsOf(d.object["subjects"]) {
		if text(subject, "kind") != "ServiceAccount" || !d.isAllowedAccount(text(subject, "namespace"), text(subject, "name")) {
			reason := fmt.Sprintf("is not a ServiceAccount in %q", d.release)
			if d.policy.Shared {
				reason = "is not a ServiceAccount of this chart"
			}
			findings = append(findings, finding{fmt.Sprintf("subjects[%d]", i), reason})
		}
	}
	return findings
}

// isAllowedRole reports whether a binding may refer to a role. References to Roles of other programs are refused only in a shared
// namespace, where such a Role may give access to Secrets of other programs.
func (d document) isAllowedRole(ref map[string]any) bool {
	name := text(ref, "name")
	if text(ref, "kind") == "Role" {
		return !d.policy.Shared || d.own[identity("Role."+rbac, d.namespace(), name)]
	}
	return d.own[identity("ClusterRole."+rbac, "", name)] || slices.Contains(d.policy.ClusterRoles, name)
}

// webhookIsLocal refuses a webhook whose Service is in a namespace that the policy does not allow. It allows URLs: a webhook that serves
// another cluster has no Service there.
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
