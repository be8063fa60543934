package validation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/versions"
)

// Admission plugins of kube-apiserver with rules of their own.
const (
	podSecurity         = "PodSecurity"
	podSecurityPolicy   = "PodSecurityPolicy"
	securityContextDeny = "SecurityContextDeny"
)

var (
	requiredPlugins = []string{
		"MutatingAdmissionWebhook", "NamespaceLifecycle", "NodeRestriction", podSecurity, "Priority", "StorageObjectInUseProtection",
		"ValidatingAdmissionWebhook",
	}
	kubeconfigPlugins = []string{"ImagePolicyWebhook", "MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"}
	// formerPlugins are plugins that no supported version has. They are refused as plugins of other versions, not as unknown.
	formerPlugins = []string{"PersistentVolumeLabel", podSecurityPolicy}
)

func admissionPlugins(path *field.Path, plugins []operatorv1alpha1.AdmissionPlugin, kubernetes versions.Kubernetes) field.ErrorList {
	var found field.ErrorList
	for i, plugin := range plugins {
		at, disabled := path.Index(i), plugin.Disabled != nil && *plugin.Disabled
		found = append(found, pluginName(at.Child("name"), plugin.Name, disabled, kubernetes)...)
		if disabled && slices.Contains(requiredPlugins, plugin.Name) {
			found = append(found, field.Forbidden(at, fmt.Sprintf("admission plugin %q cannot be disabled", plugin.Name)))
		}
		if plugin.KubeconfigSecretName != nil && plugin.Name != "" && !slices.Contains(kubeconfigPlugins, plugin.Name) {
			found = append(found, field.Forbidden(at.Child("kubeconfigSecretName"),
				fmt.Sprintf("admission plugin %q does not read a kubeconfig", plugin.Name)))
		}
		if plugin.Name == podSecurity && plugin.Config != nil {
			found = append(found, podSecurityConfig(at.Child("config"), plugin.Config)...)
		}
	}
	return found
}

func pluginName(path *field.Path, name string, disabled bool, kubernetes versions.Kubernetes) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, nameRequired)}
	}
	if name == securityContextDeny {
		return field.ErrorList{field.Forbidden(path, fmt.Sprintf("admission plugin %q cannot be used", name))}
	}
	if name == podSecurityPolicy && disabled || !kubernetes.Supported() {
		return nil
	}
	knowledge := kubernetes.AdmissionPlugin(name)
	if slices.Contains(formerPlugins, name) {
		knowledge = versions.Elsewhere
	}
	switch knowledge {
	case versions.Unknown:
		return field.ErrorList{field.Invalid(path, name, fmt.Sprintf("unknown admission plugin %q", name))}
	case versions.Elsewhere:
		detail := fmt.Sprintf("admission plugin %q is not supported in Kubernetes version %s", name, kubernetes)
		return field.ErrorList{field.Forbidden(path, detail)}
	case versions.Present:
	}
	return nil
}

// podSecurityConfiguration has all fields of a PodSecurityConfiguration. They are the same in all versions of the kind.
type podSecurityConfiguration struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Defaults   struct {
		Enforce        string `json:"enforce"`
		EnforceVersion string `json:"enforce-version"`
		Audit          string `json:"audit"`
		AuditVersion   string `json:"audit-version"`
		Warn           string `json:"warn"`
		WarnVersion    string `json:"warn-version"`
	} `json:"defaults"`
	Exemptions struct {
		Usernames      []string `json:"usernames"`
		Namespaces     []string `json:"namespaces"`
		RuntimeClasses []string `json:"runtimeClasses"`
	} `json:"exemptions"`
}

func podSecurityConfig(path *field.Path, config *runtime.RawExtension) field.ErrorList {
	const group, kind = "pod-security.admission.config.k8s.io/", "PodSecurityConfiguration"
	var decoded podSecurityConfiguration
	decoder := json.NewDecoder(bytes.NewReader(config.Raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&decoded); err != nil {
		return field.ErrorList{field.Invalid(path, string(config.Raw), fmt.Sprintf("cannot decode a %s: %v", kind, err))}
	}
	if decoded.Kind != kind || !slices.Contains([]string{group + "v1alpha1", group + "v1beta1", group + "v1"}, decoded.APIVersion) {
		return field.ErrorList{field.Invalid(path, string(config.Raw), fmt.Sprintf("must be a %s of %sv1, v1beta1 or v1alpha1", kind, group))}
	}
	return nil
}

func hasPlugin(plugins []operatorv1alpha1.AdmissionPlugin, plugin operatorv1alpha1.AdmissionPlugin) bool {
	return slices.ContainsFunc(plugins, func(each operatorv1alpha1.AdmissionPlugin) bool {
		return equality.Semantic.DeepEqual(each, plugin)
	})
}
