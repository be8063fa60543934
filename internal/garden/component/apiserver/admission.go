package apiserver

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
	"github.com/espalier-dev/espalier/internal/apply/manifest"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
)

const (
	admissionFolder            = "/etc/kubernetes/admission"
	admissionFile              = "admission-configuration.yaml"
	admissionKubeconfigsFolder = "/etc/kubernetes/admission-kubeconfigs"

	podSecurity        = "PodSecurity"
	imagePolicyWebhook = "ImagePolicyWebhook"
)

// ConfigGroup is the group of the kinds of configuration files, and configV1 its version v1. The Go types in k8s.io/apiserver are not used,
// because they would add registries of metrics and feature gates, and the libraries for traces, to the binary.
const (
	ConfigGroup = "apiserver.config.k8s.io"
	configV1    = ConfigGroup + "/v1"
)

// webhookPlugins are the plugins that call webhooks, and therefore read a kubeconfig.
var webhookPlugins = []string{"ValidatingAdmissionWebhook", "MutatingAdmissionWebhook", imagePolicyWebhook}

// Plugins are admission plugins.
type Plugins struct {
	// Enabled and Disabled are the names of plugins for --enable-admission-plugins and --disable-admission-plugins.
	Enabled, Disabled []string
	// Settings are the settings of the plugins in Enabled. If a Garden has several settings for a plugin, Settings contains the last one.
	Settings []operatorv1alpha1.AdmissionPlugin
}

// PluginsOf returns the plugins of a Garden. Wanted are the settings of the Garden for plugins. The result enables the plugins in the
// argument enabled, and the plugins with a setting, except for plugins that the Garden disables. A setting for a plugin that the API
// server does not have is left out, because the API server would not start with this plugin.
func PluginsOf(wanted []operatorv1alpha1.AdmissionPlugin, enabled []string, exists func(name string) bool) Plugins {
	p := Plugins{Enabled: slices.Clone(enabled)}
	for _, each := range wanted {
		own := func(name string) bool { return name == each.Name }
		p.Settings = slices.DeleteFunc(p.Settings, func(other operatorv1alpha1.AdmissionPlugin) bool { return own(other.Name) })
		p.Disabled = slices.DeleteFunc(p.Disabled, own)
		switch {
		case !exists(each.Name):
		case ptr.Deref(each.Disabled, false):
			p.Enabled = slices.DeleteFunc(p.Enabled, own)
			p.Disabled = append(p.Disabled, each.Name)
		default:
			if !slices.Contains(p.Enabled, each.Name) {
				p.Enabled = append(p.Enabled, each.Name)
			}
			p.Settings = append(p.Settings, each)
		}
	}
	return p
}

// AdmissionParts returns the configuration of admission plugins, and the kubeconfigs of the plugins that call webhooks.
func (s Server) AdmissionParts(p Plugins, refs References) ([]Part, error) {
	plugins := []any{}
	files, kubeconfigs := map[string]string{}, map[string][]byte{}
	for _, each := range p.Settings {
		file := strings.ToLower(each.Name)
		kubeconfig, hasKubeconfig := refs.AdmissionKubeconfigs[each.Name]
		if hasKubeconfig {
			kubeconfigs[file+"-"+KubeconfigFile] = kubeconfig
		}
		config, err := pluginConfig(each, hasKubeconfig)
		if err != nil {
			return nil, fmt.Errorf("%s.admissionPlugins: config of plugin %q: %w", s.Path, each.Name, err)
		}
		if config == nil {
			continue
		}
		text, err := manifest.Encode(config) // the name of the ConfigMap depends on the text
		if err != nil {
			return nil, fmt.Errorf("encode configuration of admission plugin %q: %w", each.Name, err)
		}
		files[file+".yaml"] = string(text)
		plugins = append(plugins, map[string]any{"name": each.Name, "path": admissionFolder + "/" + file + ".yaml"})
	}
	text, err := yaml.Marshal(map[string]any{"apiVersion": configV1, "kind": "AdmissionConfiguration", "plugins": plugins})
	if err != nil {
		return nil, fmt.Errorf("encode admission configuration: %w", err)
	}
	files[admissionFile] = string(text)
	parts := []Part{{
		Volume: "admission-config", Folder: admissionFolder,
		Object: object.Owner{Namespace: s.Namespace}.UniqueConfigMap(s.Name+"-admission-config", files),
		Args:   append(p.args(), "--admission-control-config-file="+admissionFolder+"/"+admissionFile),
	}}
	if len(kubeconfigs) > 0 {
		parts = append(parts, Part{
			Volume: "admission-kubeconfigs", Folder: admissionKubeconfigsFolder, Private: true,
			Object: object.UniqueSecret(s.Namespace, s.Name+"-admission-kubeconfigs", nil, kubeconfigs),
		})
	}
	return parts, nil
}

func (p Plugins) args() []string {
	var args []string
	if len(p.Enabled) > 0 {
		args = append(args, "--enable-admission-plugins="+strings.Join(p.Enabled, ","))
	}
	if len(p.Disabled) > 0 {
		args = append(args, "--disable-admission-plugins="+strings.Join(p.Disabled, ","))
	}
	return args
}

// pluginConfig returns the configuration of a plugin, or nil if the plugin has none. A plugin that calls webhooks has a configuration if
// the Garden gives a configuration or a kubeconfig. In this configuration, pluginConfig sets the path of the kubeconfig to the path at
// which the kubeconfig is mounted, or to "" if there is no kubeconfig. If the Garden gives a configuration of PodSecurity, pluginConfig
// adds kube-system to the exempted namespaces.
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
		config = map[string]any{}
	}
	if plugin.Name != imagePolicyWebhook { // API servers no longer read the former kind WebhookAdmission, which has the same field
		config["apiVersion"], config["kind"] = configV1, "WebhookAdmissionConfiguration"
	}
	path := ""
	if hasKubeconfig {
		path = admissionKubeconfigsFolder + "/" + strings.ToLower(plugin.Name) + "-" + KubeconfigFile
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

// withExemption exempts the namespace kube-system, in which Gardener runs Pods that Pod security would reject. It sets apiVersion to v1,
// because all versions of the kind have the same fields.
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
