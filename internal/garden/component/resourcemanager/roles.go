package resourcemanager

import (
	"bytes"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/deploy"
	"github.com/espalier-dev/espalier/internal/deployable"
)

// roles returns the generated roles of a binary under the names that they have at a place.
func (p part) roles(binary deployable.Binary, place deployable.Place) ([]client.Object, error) {
	content, err := deploy.Files.ReadFile(p.binary + "/rbac/role.yaml")
	if err != nil {
		return nil, fmt.Errorf("read roles: %w", err)
	}
	var roles []client.Object
	for document := range bytes.SplitSeq(content, []byte("\n---\n")) {
		// A Role and a ClusterRole have the same fields here.
		read := &rbacv1.Role{}
		if err := yaml.Unmarshal(document, read); err != nil {
			return nil, fmt.Errorf("decode role: %w", err)
		}
		declared := deployable.Role{Name: read.Name, Namespace: read.Namespace}
		if !slices.Contains(binary.Roles, declared) {
			continue
		}
		at := binary.RoleAt(place, declared)
		meta := metav1.ObjectMeta{Name: at.Name, Namespace: at.Namespace}
		rules := renamed(read.Rules, binary, place)
		if at.Namespace == "" {
			roles = append(roles, &rbacv1.ClusterRole{TypeMeta: read.TypeMeta, ObjectMeta: meta, Rules: rules})
			continue
		}
		roles = append(roles, &rbacv1.Role{TypeMeta: read.TypeMeta, ObjectMeta: meta, Rules: rules})
	}
	return roles, nil
}

// renamed replaces names of the binary's own objects in rules.
func renamed(rules []rbacv1.PolicyRule, binary deployable.Binary, place deployable.Place) []rbacv1.PolicyRule {
	for i := range rules {
		for j, name := range rules[i].ResourceNames {
			rules[i].ResourceNames[j] = binary.AtPlace(place, name)
			if name != rules[i].ResourceNames[j] && slices.Contains(rules[i].APIGroups, admissionregistrationv1.GroupName) {
				rules[i].ResourceNames[j] = Name
			}
		}
	}
	return rules
}

// WebhookConfigurations returns the identities of the webhook configurations that webhook-server maintains.
func WebhookConfigurations() []*unstructured.Unstructured {
	mutating, validating := &unstructured.Unstructured{}, &unstructured.Unstructured{}
	mutating.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"))
	mutating.SetName(Name)
	validating.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"))
	validating.SetName(Name)
	return []*unstructured.Unstructured{mutating, validating}
}

// CertificateSecret returns the identity of the Secret with the certificate of webhook-server, which maintains it.
func CertificateSecret(namespace string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("v1")
	o.SetKind("Secret")
	o.SetNamespace(namespace)
	o.SetName(webhooksName)
	return o
}
