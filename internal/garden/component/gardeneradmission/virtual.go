package gardeneradmission

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/gardener"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/rights"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

const validatingKind = "ValidatingWebhookConfiguration"

// VirtualObjects returns the objects in the virtual cluster. Bundle is the CA bundle of gardener.Authority, in PEM. If webhooks is false,
// it returns only the rights of gardener-admission-controller, with which the program becomes ready.
func VirtualObjects(v values.Values, bundle []byte, webhooks bool) []client.Object {
	if !webhooks {
		return accessObjects()
	}
	meta := object.Owner{Labels: gardener.Labels(role)}.Meta(Name)
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{
		TypeMeta: object.Type(admissionregistrationv1.SchemeGroupVersion.String(), validatingKind), ObjectMeta: meta,
	}
	for _, each := range validators(v) {
		validating.Webhooks = append(validating.Webhooks, each.validating(v, bundle))
	}
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{
		TypeMeta: object.Type(admissionregistrationv1.SchemeGroupVersion.String(), "MutatingWebhookConfiguration"), ObjectMeta: *meta.DeepCopy(),
	}
	for _, each := range mutators() {
		mutating.Webhooks = append(mutating.Webhooks, each.mutating(v, bundle))
	}
	return append(accessObjects(), validating, mutating)
}

func accessObjects() []client.Object {
	owner := gardener.VirtualOwner(role)
	const clusterRole = "gardener.cloud:system:admission-controller"
	return []client.Object{
		owner.ClusterRole(clusterRole, rules()...),
		owner.ClusterRoleBinding("gardener.cloud:admission-controller", clusterRole, Name),
	}
}

// rules are the rights. If one of the rights to read is missing, gardener-admission-controller does not become ready.
func rules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rights.Rule(rights.CoreGroup, "backupbuckets;backupentries;controllerdeployments;controllerinstallations;internalsecrets;projects;"+
			"secretbindings;seeds;shoots;shootstates", rights.Read()...),
		rights.Rule(rights.SeedManagementGroup, "gardenlets;managedseeds", rights.Read()...),
		rights.Rule(rights.OperationsGroup, "bastions", rights.Read()...),
		rights.Rule(rights.SecurityGroup, "credentialsbindings", rights.Read()...),
		rights.Rule("", "configmaps;namespaces;secrets;serviceaccounts", rights.Read()...),
		rights.Rule(rights.LeasesGroup, "leases", rights.Read()...),
		rights.Rule(rights.CertificatesGroup, "certificatesigningrequests", rights.Read()...),
		rights.Rule("authorization.k8s.io", "subjectaccessreviews", "create"),
	}
}

// webhook is a webhook for admission. An API server calls it for a request if a rule matches the request, the selectors select the
// namespace and the object, and the condition holds for the user. The request fails if the webhook does not answer.
type webhook struct {
	name, path          string
	rules               []rule
	namespaces, objects *metav1.LabelSelector
	// users selects the users that the webhook is for; nil selects all users.
	users *Authorizer
}

// seconds is the time that an API server waits for an answer.
const seconds = 10

// conditions limits the webhook to the requests of its users, so that other users do not depend on it.
func (w webhook) conditions() []admissionregistrationv1.MatchCondition {
	if w.users == nil {
		return nil
	}
	return []admissionregistrationv1.MatchCondition{{
		Name: w.users.Name + "s", Expression: w.users.Condition("request.userInfo.groups", "request.userInfo.username"),
	}}
}

func (w webhook) validating(v values.Values, bundle []byte) admissionregistrationv1.ValidatingWebhook {
	url := "https://" + Name + "." + v.Namespace + w.path
	return admissionregistrationv1.ValidatingWebhook{
		Name: w.name + ".gardener.cloud", Rules: w.rules, NamespaceSelector: w.namespaces, ObjectSelector: w.objects,
		ClientConfig:  admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: bundle},
		MatchPolicy:   ptr.To(admissionregistrationv1.Equivalent), // requests in other versions of an API are converted
		FailurePolicy: ptr.To(admissionregistrationv1.Fail), SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone),
		TimeoutSeconds:          ptr.To[int32](seconds),
		AdmissionReviewVersions: []string{"v1", "v1beta1"}, MatchConditions: w.conditions(),
	}
}

func (w webhook) mutating(v values.Values, bundle []byte) admissionregistrationv1.MutatingWebhook {
	own := w.validating(v, bundle)
	return admissionregistrationv1.MutatingWebhook{
		Name: own.Name, Rules: own.Rules, NamespaceSelector: own.NamespaceSelector, ObjectSelector: own.ObjectSelector,
		ClientConfig: own.ClientConfig, MatchPolicy: own.MatchPolicy, FailurePolicy: own.FailurePolicy, SideEffects: own.SideEffects,
		TimeoutSeconds: own.TimeoutSeconds, AdmissionReviewVersions: own.AdmissionReviewVersions, MatchConditions: own.MatchConditions,
	}
}
