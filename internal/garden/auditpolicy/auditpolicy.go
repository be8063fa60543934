// Package auditpolicy validates audit policies for the API servers of a virtual cluster. It also returns the fields of a Garden that name
// ConfigMaps with audit policies. It reads no cluster.
package auditpolicy

import (
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	auditvalidation "k8s.io/apiserver/pkg/apis/audit/validation"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// Key is the key of the policy in a ConfigMap.
const Key = "policy"

// Reference is a field of a Garden that names a ConfigMap.
type Reference struct {
	Path *field.Path
	Name string
}

// References returns the fields of a Garden that name ConfigMaps with audit policies. Fields without a name are left out.
func References(garden *operatorv1alpha1.Garden) []Reference {
	var all []Reference
	if server := garden.Spec.VirtualCluster.Kubernetes.KubeAPIServer; server != nil {
		all = references(field.NewPath("spec", "virtualCluster", "kubernetes", "kubeAPIServer"), server.AuditConfig)
	}
	return append(all, ReferencesOfGardener(garden)...)
}

// ReferencesOfGardener returns the part of References that is for gardener-apiserver.
func ReferencesOfGardener(garden *operatorv1alpha1.Garden) []Reference {
	server := garden.Spec.VirtualCluster.Gardener.APIServer
	if server == nil {
		return nil
	}
	return references(field.NewPath("spec", "virtualCluster", "gardener", "gardenerAPIServer"), server.AuditConfig)
}

func references(at *field.Path, config *operatorv1alpha1.AuditConfig) []Reference {
	if config == nil || config.AuditPolicy == nil || config.AuditPolicy.ConfigMapRef == nil || config.AuditPolicy.ConfigMapRef.Name == "" {
		return nil
	}
	at = at.Child("auditConfig", "auditPolicy", "configMapRef", "name")
	return []Reference{{Path: at, Name: config.AuditPolicy.ConfigMapRef.Name}}
}

// Problem returns the fault of the policy in a ConfigMap as text for users, or "" if the policy is valid. The parameter configMap is nil
// if the ConfigMap does not exist.
func Problem(configMap *corev1.ConfigMap) string {
	if configMap == nil {
		return "there is no ConfigMap of this name in the namespace of the Garden"
	}
	text, present := configMap.Data[Key]
	if !present {
		return fmt.Sprintf("the ConfigMap has no key %q", Key)
	}
	if err := Check(text); err != nil {
		return fmt.Sprintf("the ConfigMap has a policy that API servers cannot use: %v", err)
	}
	return ""
}

var decoder = sync.OnceValues(func() (runtime.Decoder, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{audit.AddToScheme, auditv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("build scheme: %w", err)
		}
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(audit.SchemeGroupVersion), nil
})

// Check returns an error if API servers cannot use the text as a policy. Check also returns an error for unknown fields. API servers
// accept them, and then a misspelt field would leave requests out of the audit log unnoticed.
func Check(text string) error {
	reader, err := decoder()
	if err != nil {
		return err
	}
	object, _, err := reader.Decode([]byte(text), nil, nil)
	if err != nil {
		return fmt.Errorf("decode audit policy: %w", err)
	}
	policy, ok := object.(*audit.Policy)
	if !ok {
		return fmt.Errorf("must be a Policy of %s", auditv1.SchemeGroupVersion)
	}
	if len(policy.Rules) == 0 {
		return field.Required(field.NewPath("rules"), "must have at least one rule")
	}
	return auditvalidation.ValidatePolicy(policy).ToAggregate()
}
