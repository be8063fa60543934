// Package plutono returns the objects of Plutono 7.5, a web UI with dashboards. It reads dashboards and data sources from ConfigMaps, which
// two sidecars load by their labels, so that users and extensions can add some of their own.
package plutono

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/deploy"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/istio"
	"github.com/espalier-dev/espalier/internal/garden/component/network"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/observability"
	"github.com/espalier-dev/espalier/internal/garden/component/pods"
	"github.com/espalier-dev/espalier/internal/garden/component/rights"
	"github.com/espalier-dev/espalier/internal/garden/component/system"
	"github.com/espalier-dev/espalier/internal/garden/component/vali"
	"github.com/espalier-dev/espalier/internal/garden/values"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// Name is the name of the component, of its ManagedResource and of most objects.
const Name = component.Plutono

// AdminSecret is the logical name of the Secret with the user and the password of the administrator.
const AdminSecret = "plutono-admin"

const (
	port = 3000
	// refresherRole is the name of the Role of the sidecars.
	refresherRole = "plutono-data-refresher"
	refresher     = "plutono-data-refresher"

	storagePath     = "/var/lib/plutono"
	dashboardsPath  = storagePath + "/dashboards"
	datasourcesPath = "/etc/plutono/provisioning/datasources"
	providersPath   = "/etc/plutono/provisioning/dashboards"
	configPath      = "/usr/local/etc/plutono"
	configFile      = "plutono.ini"
	adminPath       = "/etc/data-refresher/plutono-admin"
)

// The keys of the labels of ConfigMaps that the sidecars load. The value is "true".
const (
	dashboardLabel  = "dashboard.monitoring.gardener.cloud/garden"
	datasourceLabel = "datasource.monitoring.gardener.cloud/garden"
)

// Objects returns the objects of the ManagedResource. Admin is the Secret of AdminSecret.
func Objects(v values.Values, admin *corev1.Secret) ([]client.Object, error) {
	image, err := v.ExternalImage(Name)
	if err != nil {
		return nil, err
	}
	sidecar, err := v.ExternalImage(refresher)
	if err != nil {
		return nil, err
	}
	owner := object.Owner{Namespace: v.Namespace, Labels: map[string]string{"component": Name}}
	config := object.UniqueSecret(v.Namespace, "plutono-config", owner.Labels, map[string][]byte{configFile: configuration(admin)})
	providers, err := providers(owner)
	if err != nil {
		return nil, err
	}
	sources, err := datasources(v, owner)
	if err != nil {
		return nil, err
	}
	boards, err := dashboards(owner)
	if err != nil {
		return nil, err
	}
	return []client.Object{
		owner.ServiceAccount(Name),
		owner.RoleIn(refresherRole, rights.Rule("", "configmaps", rights.Read()...)),
		owner.RoleBinding(refresherRole, refresherRole, Name),
		config, providers, sources, boards, service(v, owner),
		deployment(v, owner, image, sidecar, files{config: config.Name, providers: providers.Name, admin: admin.Name}),
	}, nil
}

func service(v values.Values, owner object.Owner) *corev1.Service {
	s := owner.Service(Name, istio.Reachable(v, Name), object.ServicePort("web", port, port))
	s.Labels = observability.Labels(s.Labels)
	return s
}

// configuration returns the configuration with the user and the password of the administrator. The passwords that the operator generates
// consist of letters and digits, so they need no quotes.
func configuration(admin *corev1.Secret) []byte {
	return fmt.Appendf(nil, "[auth.basic]\nenabled = true\n\n[security]\nadmin_user = %s\nadmin_password = %s\n",
		admin.Data[secretconfig.DataKeyUsername], admin.Data[secretconfig.DataKeyPassword])
}

// providers returns the ConfigMap that makes the program read dashboards from files.
func providers(owner object.Owner) (*corev1.ConfigMap, error) {
	content, err := yaml.Marshal(map[string]any{"apiVersion": 1, "providers": []any{map[string]any{
		"name": "default", "orgId": 1, "folder": "", "type": "file", "disableDeletion": false, "editable": false,
		"options": map[string]any{"path": dashboardsPath},
	}}})
	if err != nil {
		return nil, fmt.Errorf("encode providers of dashboards: %w", err)
	}
	return owner.UniqueConfigMap("plutono-dashboard-providers", map[string]string{"default.yaml": string(content)}), nil
}

// datasources returns the ConfigMap with the data sources of the components that the operator deploys. There is none for VictoriaLogs: the
// program has no plugin for it.
func datasources(v values.Values, owner object.Owner) (*corev1.ConfigMap, error) {
	source := func(name, kind, url string, settings map[string]any) map[string]any {
		return map[string]any{"name": name, "type": kind, "access": "proxy", "url": url, "editable": false, "jsonData": settings}
	}
	sources := []any{}
	if observability.Deploys(v, component.PrometheusGarden) {
		garden := source(component.PrometheusGarden, "prometheus", "http://prometheus-garden:80", map[string]any{"timeInterval": "1m"})
		garden["isDefault"] = true
		sources = append(sources, garden)
	}
	if observability.Deploys(v, component.PrometheusLongterm) {
		sources = append(sources,
			source(component.PrometheusLongterm, "prometheus", "http://prometheus-longterm:81", map[string]any{"timeInterval": "30s"}))
	}
	if vali.Component.Unwanted(v) == "" {
		sources = append(sources, source(vali.Name, vali.Name, vali.URL(v), map[string]any{"maxLines": 5000}))
	}
	content, err := yaml.Marshal(map[string]any{"apiVersion": 1, "datasources": sources})
	if err != nil {
		return nil, fmt.Errorf("encode data sources: %w", err)
	}
	return owner.WithLabels(map[string]string{datasourceLabel: "true"}).
		ConfigMap("plutono-datasources", map[string]string{"datasources.yaml": string(content)}), nil
}

// dashboards returns the ConfigMap with the dashboards of Espalier.
func dashboards(owner object.Owner) (*corev1.ConfigMap, error) {
	files, err := fs.Glob(deploy.Dashboards, deploy.DashboardsFolder+"/*.json")
	if err != nil {
		return nil, fmt.Errorf("find dashboards: %w", err)
	}
	data := map[string]string{}
	for _, file := range files {
		content, err := deploy.Dashboards.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read dashboard: %w", err)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, content); err != nil {
			return nil, fmt.Errorf("decode dashboard %s: %w", file, err)
		}
		data[path.Base(file)] = compact.String()
	}
	return owner.WithLabels(map[string]string{dashboardLabel: "true"}).ConfigMap("plutono-dashboards-garden", data), nil
}

// files are the names of the Secrets and ConfigMaps that the Pod mounts.
type files struct{ config, providers, admin string }

func deployment(v values.Values, owner object.Owner, image, sidecar string, f files) *appsv1.Deployment {
	var m pods.Mounts
	m.Add("storage", storagePath, false, emptyDir("100Mi"))
	m.Add("datasources", datasourcesPath, false, emptyDir("10Mi"))
	m.Add("dashboard-providers", providersPath, true, pods.ConfigMapSource(f.providers))
	m.AddSecret("config", configPath, f.config, true)
	var admin pods.Mounts
	admin.AddSecret("admin-user", adminPath, f.admin, true)
	admin.Add("tmp", "/tmp", false, emptyDir("10Mi"))
	admin.Paths = append(admin.Paths,
		corev1.VolumeMount{Name: "storage", MountPath: storagePath}, corev1.VolumeMount{Name: "datasources", MountPath: datasourcesPath})
	clients := object.Union(network.Clients(), network.ClientsOf(
		vali.Service+"-tcp-3100", "prometheus-garden-tcp-9090", "prometheus-longterm-tcp-9091", "prometheus-aggregate-tcp-9090",
		"prometheus-seed-tcp-9090",
	), map[string]string{"observability.gardener.cloud/app": Name})
	d := owner.Deployment(Name, 1, owner.Labels, observability.Labels(clients), corev1.PodSpec{
		ServiceAccountName: Name, PriorityClassName: system.Class100, Volumes: append(m.Volumes, admin.Volumes...),
		Containers: []corev1.Container{
			{
				Name: Name, Image: image, Env: environment(), VolumeMounts: m.Paths, Resources: pods.Requests("5m", "45Mi"),
				Ports: []corev1.ContainerPort{pods.ContainerPort("web", port)},
			},
			refresherContainer(v, sidecar, "dashboard", dashboardsPath, dashboardLabel, admin.Paths),
			refresherContainer(v, sidecar, "datasource", datasourcesPath, datasourceLabel, admin.Paths),
		},
	})
	d.Labels = observability.Labels(d.Labels)
	object.AnnotateReferences(d)
	return d
}

func environment() []corev1.EnvVar {
	settings := []string{
		"PL_AUTH_ANONYMOUS_ENABLED=true", "PL_USERS_VIEWERS_CAN_EDIT=true", "PL_DATE_FORMATS_DEFAULT_TIMEZONE=UTC",
		"PL_AUTH_DISABLE_LOGIN_FORM=true", "PL_AUTH_DISABLE_SIGNOUT_MENU=true", "PL_ALERTING_ENABLED=false",
		"PL_SNAPSHOTS_EXTERNAL_ENABLED=false", "PL_PATHS_CONFIG=" + configPath + "/" + configFile,
	}
	all := make([]corev1.EnvVar, 0, len(settings))
	for _, each := range settings {
		name, value, _ := strings.Cut(each, "=")
		all = append(all, corev1.EnvVar{Name: name, Value: value})
	}
	return all
}

// refresherContainer returns a sidecar. The sidecar writes the data of the ConfigMaps with a label to files, and then makes Plutono read
// the files.
func refresherContainer(v values.Values, image, subject, folder, label string, mounts []corev1.VolumeMount) corev1.Container {
	return corev1.Container{
		Name: subject + "-refresher", Image: image, VolumeMounts: mounts, Resources: pods.Requests("5m", "85M"),
		Command: []string{
			"python", "-u", "-m", "sidecar", "--req-username-file=" + adminPath + "/" + secretconfig.DataKeyUsername,
			"--req-password-file=" + adminPath + "/" + secretconfig.DataKeyPassword,
		},
		Env: []corev1.EnvVar{
			{Name: "LOG_LEVEL", Value: "INFO"},
			{Name: "RESOURCE", Value: "configmap"},
			{Name: "NAMESPACE", Value: v.Namespace},
			{Name: "FOLDER", Value: folder},
			{Name: "LABEL", Value: label},
			{Name: "LABEL_VALUE", Value: "true"},
			{Name: "METHOD", Value: "WATCH"},
			{Name: "REQ_METHOD", Value: "POST"},
			{Name: "REQ_URL", Value: fmt.Sprintf("http://localhost:%d/api/admin/provisioning/%ss/reload", port, subject)},
		},
	}
}

func emptyDir(limit string) corev1.VolumeSource {
	return corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: ptr.To(resource.MustParse(limit))}}
}
