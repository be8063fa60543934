package resourcemanager

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/api/managedresources"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/internal/garden/component/network"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/system"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/gardenaccess"
	"github.com/espalier-dev/espalier/internal/secrets"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// The resource manager of the virtual cluster consists of managedresource-controller, for ManagedResources without a class, and of
// token-controllers, for the token requestor. Both read the namespace of the Garden in the runtime cluster, and work in certain namespaces
// of the virtual cluster. There is no webhook-server: the virtual cluster has no Pods, and no static tokens to invalidate, because
// kube-controller-manager does not issue any.
//
// Both have the same ServiceAccount in the virtual cluster. The token requestor can get a token of every ServiceAccount, so a
// ServiceAccount of its own would not limit its rights.
//
// They need a token that they request themselves, and rights that they grant themselves. Until they have both, they use a certificate that
// is valid for ten minutes: see BootstrapReason.

// Names of the resource manager of the virtual cluster.
const (
	// VirtualName is the name of the first Deployment, and the beginning of the name of the other one.
	VirtualName = "virtual-garden-" + Name
	// VirtualTokens is the name of the Deployment that renews tokens.
	VirtualTokens = VirtualName + "-tokens"
	// VirtualManagedResource is the name of the ManagedResource with TargetObjects.
	VirtualManagedResource = "shoot-core-" + Name
	// AccessSecret is the name of the Secret with the token for the virtual cluster.
	AccessSecret = "shoot-access-" + Name
	// BootstrapSecret is the logical name of the Secret with the certificate that is used until there is a token.
	BootstrapSecret = AccessSecret + "-bootstrap"
)

const (
	// account is the ServiceAccount in the virtual cluster.
	account = Name
	// tokenExpiration is longer than outages of the virtual cluster, after which a token must still be valid to be renewed.
	tokenExpiration = 24 * time.Hour
	// bootstrapValidity is the validity of the certificate.
	bootstrapValidity = 10 * time.Minute
	// renewalDelay is the time after the planned renewal of a token from which on the token counts as not renewed.
	renewalDelay = time.Minute
)

// Credentials are the names of the Secrets with which the resource manager of the virtual cluster reaches it.
type Credentials struct {
	// Kubeconfig is the Secret with the generic token kubeconfig.
	Kubeconfig string
	// Bootstrap is the name of the Secret with the kubeconfig of BootstrapRequest. If Bootstrap is not empty, the resource manager uses this
	// kubeconfig instead of its token, and renews the token.
	Bootstrap string
}

// BootstrapRequest returns the request for a kubeconfig with all rights. Bundle is the CA bundle of kube-apiserver. The garbage collector
// deletes the Secret if the operator does not.
func BootstrapRequest(bundle []byte) secrets.Request {
	return secrets.Request{
		SignedBy: rotation.ClientAuthority, Labels: map[string]string{resourcesv1alpha1.GarbageCollectableReference: "true"},
		Config: secretconfig.ControlPlane{
			Name: BootstrapSecret,
			Certificate: &secretconfig.Certificate{
				Name: BootstrapSecret, CommonName: "gardener.cloud:system:" + Name, Organization: []string{"system:masters"},
				Type: secretconfig.Client, Validity: ptr.To(bootstrapValidity),
			},
			Kubeconfigs: []secretconfig.KubeconfigRequest{{ClusterName: "garden", APIServerHost: network.VirtualAPIServer, CAData: bundle}},
		},
	}
}

// VirtualObjects returns the objects of the resource manager of the virtual cluster in the runtime cluster, in the order in which they are
// deployed. The ManagedResource with TargetObjects is deployed before them.
func VirtualObjects(v values.Values, credentials Credentials) ([]client.Object, error) {
	own, err := objects(v, virtualParts(v, credentials))
	return append([]client.Object{accessSecret(v.Namespace, credentials.Bootstrap != "")}, own...), err
}

// TargetObjects returns the objects in the virtual cluster. They are kept when the ManagedResource is deleted, because the deletion needs
// the rights.
func TargetObjects() []client.Object {
	binding := object.Owner{Namespace: metav1.NamespaceSystem}.ClusterRoleBinding(
		"gardener.cloud:target:resource-manager", deployable.ClusterAdmin, account,
	)
	binding.Annotations = map[string]string{resourcesv1alpha1.KeepObject: "true"}
	return []client.Object{binding}
}

func accessSecret(namespace string, renew bool) *corev1.Secret {
	o := gardenaccess.Secret(namespace, AccessSecret, account)
	o.Annotations[resourcesv1alpha1.ServiceAccountTokenExpirationDuration] = tokenExpiration.String()
	if renew {
		// The virtual cluster may not accept the token any more, although it is not time to renew it.
		o.Annotations[resourcesv1alpha1.ServiceAccountTokenRenewTimestamp] = ""
	}
	return o
}

// virtualParts returns the parts of the resource manager of the virtual cluster. The token requestor has no class of Secrets: in
// Gardener's documentation, the label for the purpose is enough. Gardener's resource manager writes all objects again in each period
// (alwaysUpdate). managedresource-controller does not, because it repairs changes when they happen.
func virtualParts(v values.Values, credentials Credentials) []part {
	all := []part{
		{binary: managedResourceController, name: VirtualName, config: section{"controllers": section{
			"managedResource":  section{"concurrentSyncs": 20, "syncPeriod": "1h"},
			"health":           section{"concurrentSyncs": 10, "syncPeriod": "1m"},
			"garbageCollector": section{"enabled": true, "syncPeriod": "12h"},
		}}},
		{binary: tokenControllers, name: VirtualTokens, config: section{"controllers": section{
			"tokenRequestor": section{"enabled": true, "concurrentSyncs": 5},
		}}},
	}
	for i := range all {
		each := &all[i]
		each.lease, each.selector, each.roles = VirtualName, map[string]string{app: each.name, object.Role: "controlplane"}, sourceRoles
		each.config["sourceClientConnection"] = section{"namespaces": []string{v.Namespace}}
		each.config["targetClientConnection"] = section{"kubeconfig": gardenaccess.KubeconfigPath, "namespaces": targetNamespaces(v)}
		each.complete = func(d *appsv1.Deployment) { adaptVirtual(d, credentials) }
		each.autoscaler = object.Autoscaler{Name: each.name + "-vpa", Target: each.name, Container: each.binary}.Object(v, v.Namespace)
	}
	return all
}

// targetNamespaces returns the namespaces of the virtual cluster in which the resource manager works, sorted.
func targetNamespaces(v values.Values) []string {
	names := slices.Concat(
		[]string{"garden", "gardener-system-public", "gardener-system-shoot-issuer", metav1.NamespaceSystem}, v.TargetNamespaces,
	)
	slices.Sort(names)
	return slices.Compact(names)
}

// sourceRoles returns the roles that replace a role of a binary in the runtime cluster. A Role in the namespace of the binary becomes a
// Role in the namespace of the Garden, and a ClusterRole for the source cluster becomes such a Role and a ClusterRole. The other roles are
// left out, because they are for the virtual cluster or for other namespaces.
func sourceRoles(r deployable.Role) []deployable.Role {
	switch {
	case r.Namespace == deployable.Namespace:
		return []deployable.Role{r}
	case r.Namespace == "" && strings.HasSuffix(r.Name, "-source"):
		return []deployable.Role{{Name: r.Name, Namespace: deployable.Namespace}, r}
	}
	return nil
}

// adaptVirtual changes a Deployment as the namespace of the Garden requires. It removes the spread constraints, because the webhook that
// spreads Pods sets them.
func adaptVirtual(d *appsv1.Deployment, credentials Credentials) {
	d.Labels[object.AvailabilityType] = object.Server
	template := &d.Spec.Template
	template.Labels = object.Union(template.Labels, network.VirtualClients(), map[string]string{skipTokenMount: "true"})
	template.Spec.PriorityClassName = system.Class400
	template.Spec.TopologySpreadConstraints = nil
	if credentials.Bootstrap == "" {
		gardenaccess.MountKubeconfig(&template.Spec, credentials.Kubeconfig, AccessSecret)
		return
	}
	gardenaccess.MountAtKubeconfig(&template.Spec, corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: credentials.Bootstrap,
		Items:      []corev1.KeyToPath{{Key: secretconfig.DataKeyKubeconfig, Path: secretconfig.DataKeyKubeconfig}},
	}})
}

// BootstrapReason returns why the resource manager of the virtual cluster needs the kubeconfig of BootstrapRequest, or "" if it can renew
// its token and has its rights. Access is the Secret with the token, set is the ManagedResource, and tokens is the Deployment that renews
// the token. Each is nil if it does not exist.
//
// If there is a reason, VirtualObjects are deployed twice: with that kubeconfig, until Bootstrapped returns nil, and then without it.
func BootstrapReason(
	access *corev1.Secret, set *resourcesv1alpha1.ManagedResource, tokens *appsv1.Deployment, now time.Time,
) string {
	if problem := tokenProblem(access, now.Add(-renewalDelay)); problem != "" {
		return problem
	}
	if set == nil {
		return "there is no ManagedResource " + VirtualManagedResource
	}
	applied := corev1beta1.GetCondition(set.Status.Conditions, resourcesv1alpha1.ResourcesApplied)
	if applied != nil && applied.Status == corev1beta1.ConditionFalse && isRefused(applied.Message) {
		return "the virtual cluster refuses its requests: " + applied.Message
	}
	if tokens != nil && isUnavailable(tokens) {
		return "Deployment " + VirtualTokens + " has too few available replicas; they do not start if the virtual cluster refuses its token"
	}
	return ""
}

// isUnavailable reports whether the controller of Deployments has found that too few of the present Pods are available.
func isUnavailable(d *appsv1.Deployment) bool {
	return d.Status.ObservedGeneration >= d.Generation && slices.ContainsFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
		return c.Type == appsv1.DeploymentAvailable && c.Status == corev1.ConditionFalse
	})
}

// Bootstrapped returns nil if the resource manager of the virtual cluster can work with its own token, and otherwise an error that names
// the missing condition.
func Bootstrapped(access *corev1.Secret, set *resourcesv1alpha1.ManagedResource, now time.Time) error {
	if problem := tokenProblem(access, now); problem != "" {
		return errors.New(problem)
	}
	if set == nil {
		return fmt.Errorf("there is no ManagedResource %s", VirtualManagedResource)
	}
	return managedresources.CheckAppliedAndHealthy(set)
}

// tokenProblem returns the reason why the access Secret has no token, or why its token was not renewed in time. It returns "" if there is
// no such problem.
func tokenProblem(access *corev1.Secret, now time.Time) string {
	if access == nil {
		return "there is no Secret " + AccessSecret
	}
	renewal, err := time.Parse(time.RFC3339, access.Annotations[resourcesv1alpha1.ServiceAccountTokenRenewTimestamp])
	switch {
	case len(access.Data[resourcesv1alpha1.DataKeyToken]) == 0:
		return fmt.Sprintf("Secret %s has no token", AccessSecret)
	case err != nil:
		return fmt.Sprintf("Secret %s does not say when its token is renewed", AccessSecret)
	case !renewal.After(now):
		return fmt.Sprintf("the token in Secret %s was not renewed at %s", AccessSecret, renewal.Format(time.RFC3339))
	}
	return ""
}

// isRefused reports whether the API server did not accept the ServiceAccount, or did not allow it something.
func isRefused(message string) bool {
	return strings.Contains(message, fmt.Sprintf("forbidden: User %q cannot", "system:serviceaccount:"+metav1.NamespaceSystem+":"+account)) ||
		strings.Contains(message, ": Unauthorized")
}
