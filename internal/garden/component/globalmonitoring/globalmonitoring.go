// Package globalmonitoring returns the credentials of global monitoring: a user and a password for the monitoring of all Seeds. A managed
// Secret of the runtime cluster contains the credentials, and a ManagedResource deploys a replica of the Secret into the virtual cluster.
// gardener-controller-manager copies the replica for each Seed. gardenlet does not reconcile a Seed without such a copy.
package globalmonitoring

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/virtualsystem"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/secrets"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// ManagedResource is the name of the ManagedResource with the replica.
const ManagedResource = "global-monitoring-virtual"

// SecretName is the logical name of the Secret in the runtime cluster.
const SecretName = "global-observability-ingress"

// seedNamespacePrefix is the beginning of the names of the namespaces for Seeds in the virtual cluster.
const seedNamespacePrefix = "seed-"

// purpose is a label of the replica, by which it differs from Secrets of users.
const (
	purpose = "gardener.cloud/purpose"
	replica = "global-monitoring-secret-replica"
)

// Labels returns the labels of all Secrets with credentials of global monitoring.
func Labels() client.MatchingLabels { return client.MatchingLabels{object.Role: "global-monitoring"} }

// Credentials returns the request for the Secret in the runtime cluster.
func Credentials(values.Values) secrets.Request {
	return secrets.Request{
		Config: secretconfig.BasicAuth{
			Name: SecretName, Format: secretconfig.FormatNormal, Username: "admin", PasswordLength: 32,
		},
		Persist: true, Labels: Labels(),
	}
}

// OfUser returns the Secret that a user has created, out of the Secrets with Labels in the namespace garden of the virtual cluster, nil if
// there is none. This Secret takes the place of the replica. OfUser returns an error if users have created several such Secrets, because
// Seeds would not know which Secret to use.
func OfUser(all []corev1.Secret) (*corev1.Secret, error) {
	var found *corev1.Secret
	for i := range all {
		each := &all[i]
		switch {
		case each.Labels[purpose] == replica:
		case found != nil:
			return nil, fmt.Errorf("there must be one Secret of a user with the label %s=%s in namespace %s of the virtual cluster, but there "+
				"are %s and %s", object.Role, Labels()[object.Role], virtualsystem.Namespace, found.Name, each.Name)
		default:
			found = each
		}
	}
	return found, nil
}

// Outdated returns the sorted names of the Seeds whose namespace has no Secret with the current credentials. The argument all contains the
// Secrets with Labels in all namespaces of the virtual cluster. The current credentials are the content of the Secret of a user, or else
// of the generated Secret.
func Outdated(all []corev1.Secret, generated *corev1.Secret, seeds []string) []string {
	current := generated
	copies := map[string][]*corev1.Secret{}
	for i := range all {
		switch each := &all[i]; {
		case each.Namespace != virtualsystem.Namespace:
			copies[each.Namespace] = append(copies[each.Namespace], each)
		case each.Labels[purpose] != replica:
			current = each
		}
	}
	var outdated []string
	for _, seed := range seeds {
		isCurrent := func(each *corev1.Secret) bool {
			return each.DeletionTimestamp == nil && equality.Semantic.DeepEqual(each.Data, current.Data)
		}
		if !slices.ContainsFunc(copies[seedNamespacePrefix+seed], isCurrent) {
			outdated = append(outdated, seed)
		}
	}
	slices.Sort(outdated)
	return outdated
}

// Replica returns the replica of the Secret of Credentials. The label with the time of the last rotation lets clients see that a copy is
// up to date.
func Replica(of *corev1.Secret) *corev1.Secret {
	labels := object.Union(Labels(), map[string]string{purpose: replica})
	if rotated := of.Labels[secrets.LabelLastRotation]; rotated != "" {
		labels[secrets.LabelLastRotation] = rotated
	}
	return &corev1.Secret{
		TypeMeta: object.Type("v1", "Secret"),
		ObjectMeta: metav1.ObjectMeta{
			Namespace: virtualsystem.Namespace, Name: strings.TrimPrefix(of.Name, "global-"), Labels: labels,
		},
		Type: corev1.SecretTypeOpaque, Data: of.Data,
	}
}
