package prometheus

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/internal/egress"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/alertmanager"
	"github.com/espalier-dev/espalier/internal/garden/component/gardener"
	"github.com/espalier-dev/espalier/internal/garden/component/network"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/observability"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/gardenaccess"
)

// AccessSecret is the name of the Secret with the token of the instance for the virtual cluster.
const AccessSecret = gardener.AccessPrefix + component.PrometheusGarden

const (
	// TargetSet is the name of the ManagedResource with the rights of the token.
	TargetSet = component.PrometheusGarden + "-target"

	scrapeConfigsName = component.PrometheusGarden + "-additional-scrape-configs"
	scrapeConfigsKey  = "prometheus.yaml"
)

// Credentials are the names of the Secrets with which the instance trusts servers, and authenticates to them.
type Credentials struct {
	// Kubernetes, Gardener and ETCD contain the bundles of the certificate authorities of the servers.
	Kubernetes, Gardener, ETCD string
	// ETCDClient contains the certificate of a client of etcds.
	ETCDClient string
}

// Seeds are the Seeds whose Prometheus the instance reads.
type Seeds struct {
	// Hosts are the names of the servers, sorted.
	Hosts []string
	// Data are the user and the password for all these servers: the data of a Secret of global monitoring.
	Data map[string][]byte
}

// Objects returns the objects of the instance garden in the runtime cluster: its access Secret, and the objects of the ManagedResource.
func Objects(v values.Values, credentials Credentials, seeds Seeds) (gardener.Objects, error) {
	image, err := v.ExternalImage(program)
	if err != nil {
		return gardener.Objects{}, err
	}
	additional, err := yaml.Marshal(nodes(v))
	if err != nil {
		return gardener.Objects{}, fmt.Errorf("encode scrape configurations: %w", err)
	}
	rules, err := Rules(v)
	if err != nil {
		return gardener.Objects{}, err
	}
	of := instance(image, observability.Garden)
	of.Size = "200Gi"
	of.PodLabels = object.Union(of.PodLabels, network.Allowed(network.ToPublicNetworks, network.ToPrivateNetworks), network.ClientsOf(
		network.GardenScrapeTargets, "extensions-"+network.GardenScrapeTargets, "istio-system-"+network.SeedScrapeTargets,
		"all-istio-ingresses-"+network.SeedScrapeTargets,
	))
	of.Spec["retention"], of.Spec["retentionSize"] = "30d", "190GB"
	of.Spec["additionalScrapeConfigs"] = observability.KeyOf(scrapeConfigsName, scrapeConfigsKey)
	if v.ClusterIdentity != "" {
		of.Spec["externalLabels"] = map[string]any{"landscape": v.ClusterIdentity}
	}
	if !slices.Contains(v.SkipComponents, component.AlertmanagerGarden) {
		of.Spec["alerting"] = map[string]any{"alertmanagers": []any{map[string]any{
			"namespace": v.Namespace, "name": alertmanager.Name, "port": alertmanager.PortName,
			"alertRelabelings": []any{map[string]any{"action": "drop", "sourceLabels": []any{"ignoreAlerts"}, "regex": "true"}},
		}}}
	}
	owner := of.Owner(v)
	set := append(of.Objects(v), accountOf(v, of)...)
	set = append(set, &corev1.Secret{
		TypeMeta: object.Type("v1", "Secret"), ObjectMeta: owner.Meta(scrapeConfigsName), Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{scrapeConfigsKey: additional},
	}, toBinaries(owner))
	set = append(set, targets(v, credentials)...)
	set = append(set, seeds.objects(v)...)
	return gardener.Objects{
		Direct: []client.Object{gardenaccess.Secret(v.Namespace, AccessSecret, component.PrometheusGarden)}, Set: append(set, rules...),
	}, nil
}

// VirtualObjects returns the objects in the virtual cluster.
func VirtualObjects() []client.Object {
	owner := object.Owner{Namespace: metav1.NamespaceSystem, Labels: observability.Labels(map[string]string{"app": program})}
	const role = "gardener.cloud:monitoring:" + component.PrometheusGarden
	return []client.Object{
		owner.ClusterRole(role, metricsRule()), owner.ClusterRoleBinding(role, role, component.PrometheusGarden),
	}
}

// toBinaries lets the instance connect to the metrics of binaries in the namespace of the operator. The policies of netpol-controller are
// for the namespaces of the Garden only.
func toBinaries(owner object.Owner) client.Object {
	var ports []int32
	known := map[int32]bool{}
	for _, each := range deployable.All() {
		if !known[each.MetricsPort] {
			known[each.MetricsPort], ports = true, append(ports, each.MetricsPort)
		}
	}
	rules := egress.ToPorts([]corev1.Protocol{corev1.ProtocolTCP}, ports...)
	for i := range rules {
		rules[i].To = []networkingv1.NetworkPolicyPeer{{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: deployable.Namespace}},
			PodSelector:       &metav1.LabelSelector{MatchLabels: binaries()},
		}}
	}
	return &networkingv1.NetworkPolicy{
		TypeMeta:   object.Type(networkingv1.SchemeGroupVersion.String(), "NetworkPolicy"),
		ObjectMeta: owner.Meta(component.PrometheusGarden + "-to-binaries"),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{program: observability.Garden}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}, Egress: rules,
		},
	}
}

// binaries returns a label of all of Espalier's own binaries.
func binaries() map[string]string { return map[string]string{"app.kubernetes.io/part-of": "espalier"} }

// objects returns the scrape configuration for the Prometheus of all Seeds, and the Secret with the user and the password. Prometheus does
// not verify the certificates of the servers in Seeds, because only the Seeds know the authorities of these certificates.
func (s Seeds) objects(v values.Values) []client.Object {
	if len(s.Hosts) == 0 {
		return nil
	}
	secret := &corev1.Secret{
		TypeMeta: object.Type("v1", "Secret"), ObjectMeta: metav1.ObjectMeta{Namespace: v.Namespace, Name: component.PrometheusGarden + "-seeds"},
		Type: corev1.SecretTypeOpaque, Data: map[string][]byte{
			corev1.BasicAuthUsernameKey: s.Data[corev1.BasicAuthUsernameKey], corev1.BasicAuthPasswordKey: s.Data[corev1.BasicAuthPasswordKey],
		},
	}
	hosts := make([]any, 0, len(s.Hosts))
	for _, each := range s.Hosts {
		hosts = append(hosts, each)
	}
	return []client.Object{secret, observability.ScrapeConfig(v, observability.Garden, "prometheus-seeds", map[string]any{
		"staticConfigs": []any{map[string]any{"targets": hosts}}, "scheme": "HTTPS", "metricsPath": "/federate", "honorLabels": true,
		"honorTimestamps": false, "params": map[string]any{"match[]": []any{
			`{__name__=~"metering:.+:(sum_by_namespace|sum_by_instance)"}`, `{__name__=~"seed:.+"}`, `{__name__=~"shoot:.+"}`,
			`{__name__="ALERTS",alertstate="firing"}`, `{__name__=~"healthcheck:.+"}`,
		}},
		"basicAuth": map[string]any{
			"username": observability.KeyOf(secret.Name, corev1.BasicAuthUsernameKey),
			"password": observability.KeyOf(secret.Name, corev1.BasicAuthPasswordKey),
		},
		"tlsConfig":   map[string]any{"insecureSkipVerify": true},
		"relabelings": []any{observability.SetLabel("job", "prometheus-seeds")},
	})}
}

// SeedHosts returns the names of the servers of Seeds, sorted. A Seed without an ingress domain has none.
func SeedHosts(seeds []unstructured.Unstructured) []string {
	var hosts []string
	for i := range seeds {
		// A value of another type cannot come from the API server.
		if domain, _, _ := unstructured.NestedString(seeds[i].Object, "spec", "ingress", "domain"); domain != "" {
			hosts = append(hosts, "p-seed."+domain)
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}
