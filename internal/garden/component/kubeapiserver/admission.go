package kubeapiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/shared"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/garden/versions"
)

const (
	admissionFolder            = "/etc/kubernetes/admission"
	admissionFile              = "admission-configuration.yaml"
	admissionKubeconfigsFolder = "/etc/kubernetes/admission-kubeconfigs"

	podSecurity        = "PodSecurity"
	imagePolicyWebhook = "ImagePolicyWebhook"
)

// defaultPlugins are enabled in addition to those that kube-apiserver enables itself.
var defaultPlugins = []string{"NodeRestriction"}

// webhookPlugins are the plugins that ask webhooks, so that they read a kubeconfig.
var webhookPlugins = []string{"ValidatingAdmissionWebhook", "MutatingAdmissionWebhook", imagePolicyWebhook}

// plugins returns the names of the plugins that are enabled and disabled, and the settings of those that are enabled. A plugin that the
// version does not have is left out, because kube-apiserver would not start with it; Ignored names it.
func plugins(v values.Values) (enabled, disabled []string, settings []operatorv1alpha1.AdmissionPlugin) {
	enabled = slices.Clone(defaultPlugins)
	for _, each := range v.KubeAPIServer.AdmissionPlugins {
		own := func(name string) bool { return name == each.Name }
		settings = slices.DeleteFunc(settings, func(other operatorv1alpha1.AdmissionPlugin) bool { return own(other.Name) })
		disabled = slices.DeleteFunc(disabled, own)
		switch {
		case kubernetes(v).AdmissionPlugin(each.Name) != versions.Present:
		case ptr.Deref(each.Disabled, false):
			enabled = slices.DeleteFunc(enabled, own)
			disabled = append(disabled, each.Name)
		default:
			if !slices.Contains(enabled, each.Name) {
				enabled = append(enabled, each.Name)
			}
			settings = append(settings, each)
		}
	}
	return enabled, disabled, settings
}

// admissionParts configures admission plugins, and the kubeconfigs of those that ask webhooks.
func admissionParts(v values.Values, refs References) ([]part, error) {
	enabled, disabled, settings := plugins(v)
	index := admissionConfiguration{TypeMeta: shared.Type(inV1, admissionKind), Plugins: []admissionPlugin{}}
	files, kubeconfigs := map[string]string{}, map[string][]byte{}
	for _, each := range settings {
		file := strings.ToLower(each.Name)
		kubeconfig, hasKubeconfig := refs.AdmissionKubeconfigs[each.Name]
		if hasKubeconfig {
			kubeconfigs[file+"-"+kubeconfigFile] = kubeconfig
		}
		config, err := pluginConfig(each, hasKubeconfig)
		if err != nil {
			return nil, fmt.Errorf("%s.admissionPlugins: config of plugin %q: %w", settingsPath, each.Name, err)
		}
		if config == nil {
			continue
		}
		text, err := yaml.Marshal(config)
		if err != nil {
			return nil, fmt.Errorf("encode configuration of admission plugin %q: %w", each.Name, err)
		}
		files[file+".yaml"] = string(text)
		index.Plugins = append(index.Plugins, admissionPlugin{Name: each.Name, Path: admissionFolder + "/" + file + ".yaml"})
	}
	text, err := yaml.Marshal(index)
	if err != nil {
		return nil, fmt.Errorf("encode admission configuration: %w", err)
	}
	files[admissionFile] = string(text)
	args := []string{"--enable-admission-plugins=" + strings.Join(enabled, ",")}
	if len(disabled) > 0 {
		args = append(args, "--disable-admission-plugins="+strings.Join(disabled, ","))
	}
	parts := []part{{
		volume: "admission-config", folder: admissionFolder, object: configMap(v, "kube-apiserver-admission-config", files),
		args: append(args, "--admission-control-config-file="+admissionFolder+"/"+admissionFile),
	}}
	if len(kubeconfigs) > 0 {
		parts = append(parts, part{
			volume: "admission-kubeconfigs", folder: admissionKubeconfigsFolder, private: true,
			object: secret(v, "kube-apiserver-admission-kubeconfigs", nil, kubeconfigs),
		})
	}
	return parts, nil
}

// pluginConfig returns the configuration of a plugin, nil if there is none. A plugin that asks webhooks finds its kubeconfig where it is
// mounted, whatever its configuration says.
func pluginConfig(plugin operatorv1alpha1.AdmissionPlugin, hasKubeconfig bool) (map[string]any, error) {
	var config map[string]any
	if plugin.Config != nil && len(plugin.Config.Raw) > 0 {
		if err := json.Unmarshal(plugin.Config.Raw, &config); err != nil {
			return nil, fmt.Errorf("it must be an object: %w", err)
		}
	}
	if plugin.Name == podSecurity && config != nil {
		return withExemption(config)
	}
	if !slices.Contains(webhookPlugins, plugin.Name) || config == nil && !hasKubeconfig {
		return config, nil
	}
	if config == nil {
		config = map[string]any{"apiVersion": inV1, "kind": "WebhookAdmissionConfiguration"}
		if plugin.Name == imagePolicyWebhook {
			config = map[string]any{"imagePolicy": map[string]any{}}
		}
	}
	path := ""
	if hasKubeconfig {
		path = admissionKubeconfigsFolder + "/" + strings.ToLower(plugin.Name) + "-" + kubeconfigFile
	}
	fields := []string{"kubeConfigFile"}
	if plugin.Name == imagePolicyWebhook {
		fields = []string{"imagePolicy", "kubeConfigFile"}
	}
	if err := unstructured.SetNestedField(config, path, fields...); err != nil {
		return nil, errors.New("imagePolicy must be an object")
	}
	return config, nil
}

// withExemption exempts the namespace kube-system, in which Gardener runs Pods that Pod security would reject. All versions of the kind
// have the same fields.
func withExemption(config map[string]any) (map[string]any, error) {
	const namespace = "kube-system"
	config["apiVersion"] = "pod-security.admission.config.k8s.io/v1"
	exempted, _, err := unstructured.NestedStringSlice(config, "exemptions", "namespaces")
	if err != nil {
		return nil, errors.New("exemptions.namespaces must be a list of strings")
	}
	if slices.Contains(exempted, namespace) {
		return config, nil
	}
	if err := unstructured.SetNestedStringSlice(config, append(exempted, namespace), "exemptions", "namespaces"); err != nil {
		return nil, errors.New("exemptions must be an object")
	}
	return config, nil
}
