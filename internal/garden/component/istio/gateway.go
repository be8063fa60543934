package istio

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/network"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/observability"
	"github.com/espalier-dev/espalier/internal/garden/component/pods"
	"github.com/espalier-dev/espalier/internal/garden/component/rights"
	"github.com/espalier-dev/espalier/internal/garden/component/system"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

const (
	// Gateway is the name of the Deployment of the gateway and of its Service, whose load balancer is the address of the virtual cluster.
	Gateway        = "istio-ingressgateway"
	gatewayAccount = Gateway + "-service-account"
	gatewayRole    = Gateway + "-sds"
	gatewayPort    = 9443
	metricsPort    = 15090
	// PasswordPort is the port of the server that checks passwords.
	PasswordPort = 10000
	statusPort   = 15021
	// version is the version of Istio that the objects are for.
	version = "1.29.6"

	bootstrapName = "istio-custom-bootstrap-config"
	bootstrapKey  = "custom_bootstrap.yaml"
	bootstrapPath = "/etc/istio/custom-bootstrap"
	bootstrap     = `layered_runtime:
  layers:
  - name: static-layer
    static_layer:
      overload.global_downstream_max_connections: 750000
`
)

// GatewayObjects returns the objects of the ManagedResource for the gateway.
func GatewayObjects(v values.Values) ([]client.Object, error) {
	image, err := v.ExternalImage("istio-proxy")
	if err != nil {
		return nil, err
	}
	owner := gatewayOwner()
	objects := []client.Object{
		owner.ServiceAccount(gatewayAccount),
		owner.RoleIn(gatewayRole, rights.Rule("", "secrets", "get", "watch", "list")),
		owner.RoleBinding(gatewayRole, gatewayRole, gatewayAccount),
		owner.ConfigMap(bootstrapName, map[string]string{bootstrapKey: bootstrap}), gatewayService(v, owner),
		gatewayDeployment(v, owner, image), horizontalAutoscaler(v, owner), owner.AvailabilityBudget(Gateway),
		connectionFilter(owner), accessLogFilter(owner),
	}
	if protocol := v.LoadBalancers.ProxyProtocol; protocol != nil && protocol.Allowed {
		objects = append(objects, proxyProtocolFilter(owner))
	}
	return objects, nil
}

func gatewayOwner() object.Owner {
	return object.Owner{Namespace: GatewayNamespace, Labels: map[string]string{
		"app": Gateway, "istio": "ingressgateway", "istio-role": "garden",
	}}
}

func gatewayService(v values.Values, owner object.Owner) *corev1.Service {
	service := owner.Service(Gateway, object.Union(
		v.LoadBalancers.Annotations, network.FromWorld(8132, 8443, gatewayPort), network.From(network.SeedScrapeTargets, metricsPort),
		network.FromNamespaces(`[{"matchLabels":{"gardener.cloud/role":"shoot"}},`+
			`{"matchLabels":{"kubernetes.io/metadata.name":"`+v.Namespace+`"}}]`),
		map[string]string{resourcesv1alpha1.NetworkingPodLabelSelectorNamespaceAlias: "all-istio-ingresses"},
	), object.ServicePort("tcp", 443, gatewayPort))
	service.Spec.Type = corev1.ServiceTypeLoadBalancer
	if policy := v.LoadBalancers.ExternalTrafficPolicy; policy != nil {
		service.Spec.ExternalTrafficPolicy = *policy
	}
	if v.DualStack {
		// The API server chooses the order of the families: the first one of an existing Service cannot change.
		service.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyPreferDualStack)
	}
	return service
}

// perZone multiplies a number of replicas by the number of zones, or by 1 if the Garden names no zones.
func perZone(v values.Values, replicas int32) int32 {
	total := replicas
	for i := range v.Zones {
		if i > 0 {
			total += replicas
		}
	}
	return total
}

func horizontalAutoscaler(v values.Values, owner object.Owner) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		TypeMeta: object.Type(autoscalingv2.SchemeGroupVersion.String(), "HorizontalPodAutoscaler"), ObjectMeta: owner.Meta(Gateway),
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{
				APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment", Name: Gateway,
			},
			MinReplicas: ptr.To(perZone(v, 2)), MaxReplicas: perZone(v, 16),
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
				Name:   corev1.ResourceCPU,
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](80)},
			}}},
		},
	}
}

func gatewayDeployment(v values.Values, owner object.Owner, image string) *appsv1.Deployment {
	m := gatewayMounts()
	// netpol-controller makes policies from Services, not from VirtualServices, so the destinations are listed.
	further := object.Union(network.DNSClients(), network.ClientsOf(
		"istio-system-istiod-tcp-15012", v.Namespace+"-virtual-garden-kube-apiserver-tcp-443", v.Namespace+"-nginx-ingress-controller-tcp-443",
	), network.ClientsOf(targets(v)...), map[string]string{
		"service.istio.io/canonical-name": Gateway, "service.istio.io/canonical-revision": "1.7",
	})
	d := owner.WithLabels(map[string]string{"app.kubernetes.io/version": version}).
		Deployment(Gateway, perZone(v, 2), owner.Labels, further, corev1.PodSpec{
			ServiceAccountName: gatewayAccount, PriorityClassName: system.Critical, Affinity: apart(owner.Labels), Volumes: m.Volumes,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](1337), RunAsGroup: ptr.To[int64](1337), FSGroup: ptr.To[int64](1337),
				Sysctls: []corev1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "0"}},
			},
			Containers: []corev1.Container{gatewayContainer(v, image, m.Paths)},
		})
	complete(d, intstr.FromInt32(1), intstr.FromInt32(0), bootstrapName, bootstrap)
	return d
}

// targets returns the ports of the web UIs that users reach through the gateway, and of the server that checks their passwords, as
// netpol-controller names them in labels.
func targets(v values.Values) []string {
	exposed := observability.Exposed(v)
	if len(exposed) == 0 {
		return nil
	}
	all := []string{fmt.Sprintf("%s-%s-tcp-%d", v.Namespace, component.BasicAuthServer, PasswordPort)}
	for _, ui := range exposed {
		all = append(all, fmt.Sprintf("%s-%s-tcp-%d", v.Namespace, ui.Service, ui.PodPort))
	}
	return all
}

func gatewayContainer(v values.Values, image string, paths []corev1.VolumeMount) corev1.Container {
	return corev1.Container{
		Name: "istio-proxy", Image: image,
		Args: []string{
			"proxy", "router", "--domain=" + GatewayNamespace + ".svc.cluster.local", "--proxyLogLevel=warning",
			"--proxyComponentLogLevel=misc:error", "--log_output_level=all:warn,ads:error", "--serviceCluster=" + Gateway, "--concurrency=4",
		},
		Ports: []corev1.ContainerPort{pods.ContainerPort("", gatewayPort)},
		ReadinessProbe: &corev1.Probe{
			ProbeHandler:     pods.HTTPGet("/healthz/ready", statusPort, ""),
			FailureThreshold: 30, InitialDelaySeconds: 1, PeriodSeconds: 2, TimeoutSeconds: 1,
		},
		Env: append(gatewayEnvironment(), dualStack(v)...), VolumeMounts: paths, SecurityContext: restricted(),
		Resources: pods.RequestsAndLimit("1", "2Gi", "8Gi"),
	}
}

func gatewayEnvironment() []corev1.EnvVar {
	return []corev1.EnvVar{
		pods.FieldVariable("NODE_NAME", "spec.nodeName"), pods.FieldVariable("POD_NAME", "metadata.name"),
		pods.FieldVariable("POD_NAMESPACE", "metadata.namespace"), pods.FieldVariable("INSTANCE_IP", "status.podIP"),
		pods.FieldVariable("HOST_IP", "status.hostIP"), pods.FieldVariable("SERVICE_ACCOUNT", "spec.serviceAccountName"),
		pods.FieldVariable("ISTIO_META_POD_NAME", "metadata.name"), pods.FieldVariable("ISTIO_META_CONFIG_NAMESPACE", "metadata.namespace"),
		pods.FieldVariable("ISTIO_META_NODE_NAME", "spec.nodeName"),
		variable("JWT_POLICY", "third-party-jwt"), variable("PILOT_CERT_PROVIDER", istiod),
		variable("ISTIO_META_USER_SDS", "true"), variable("CA_ADDR", "istiod.istio-system.svc:15012"),
		variable("ISTIO_META_WORKLOAD_NAME", Gateway),
		variable("ISTIO_META_OWNER", "kubernetes://apis/apps/v1/namespaces/"+GatewayNamespace+"/deployments/"+Gateway),
		variable("ISTIO_AUTO_MTLS_ENABLED", "true"), variable("ISTIO_META_ROUTER_MODE", "standard"),
		variable("ISTIO_META_CLUSTER_ID", "Kubernetes"), variable("ISTIO_BOOTSTRAP_OVERRIDE", bootstrapPath+"/"+bootstrapKey),
	}
}

func gatewayMounts() pods.Mounts {
	item := func(name string) corev1.DownwardAPIVolumeFile {
		return corev1.DownwardAPIVolumeFile{Path: name, FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata." + name}}
	}
	var m pods.Mounts
	m.Add("workload-socket", "/var/run/secrets/workload-spiffe-uds", false, emptyDir(""))
	m.Add("credential-socket", "/var/run/secrets/credential-uds", false, emptyDir(""))
	m.Add("workload-certs", "/var/run/secrets/workload-spiffe-credentials", false, emptyDir(""))
	m.Add("istio-envoy", "/etc/istio/proxy", false, emptyDir(""))
	m.Add("istio-data", "/var/lib/istio/data", false, emptyDir(""))
	m.Add("root-certificate", "/var/run/secrets/istio", false, pods.ConfigMapSource("istio-ca-root-cert"))
	m.Add("bootstrap", bootstrapPath, false, pods.ConfigMapSource(bootstrapName))
	m.Add("token", "/var/run/secrets/tokens", true, token())
	m.Add("podinfo", "/etc/istio/pod", false, corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
		Items: []corev1.DownwardAPIVolumeFile{item("labels"), item("annotations")},
	}})
	return m
}

func filter(owner object.Owner, name string, patches ...any) client.Object {
	return networkingObject(owner, "v1alpha3", "EnvoyFilter", name, map[string]any{
		"workloadSelector": map[string]any{"labels": selectorOf(owner)}, "configPatches": patches,
	})
}

// networkingObject returns an object of Istio's group networking.istio.io. It is untyped: the objects of that group have no Go types in
// the modules that the product links.
func networkingObject(owner object.Owner, version, kind, name string, spec map[string]any) client.Object {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "networking.istio.io/" + version, "kind": kind, "spec": spec}}
	o.SetNamespace(owner.Namespace)
	o.SetName(name)
	o.SetLabels(owner.Labels)
	return o
}

func selectorOf(owner object.Owner) map[string]any {
	labels := map[string]any{}
	for key, value := range owner.Labels {
		labels[key] = value
	}
	return labels
}

// connectionFilter bounds the buffers of connections, and sends keep-alive probes so that load balancers do not end idle connections.
func connectionFilter(owner object.Owner) client.Object {
	const buffer = 32768
	option := func(level, name, value int64) any {
		return map[string]any{"level": level, "name": name, "int_value": value, "state": "STATE_LISTENING"}
	}
	return filter(owner, Gateway,
		map[string]any{
			"applyTo": "LISTENER",
			"match":   map[string]any{"context": "GATEWAY", "listener": map[string]any{"portNumber": int64(gatewayPort)}},
			"patch": map[string]any{"operation": "MERGE", "value": map[string]any{
				"per_connection_buffer_limit_bytes": int64(buffer),
				"socket_options":                    []any{option(1, 9, 1), option(6, 4, 55), option(6, 5, 55)},
			}},
		},
		map[string]any{
			"applyTo": "CLUSTER", "match": map[string]any{"context": "GATEWAY"},
			"patch": map[string]any{"operation": "MERGE", "value": map[string]any{"per_connection_buffer_limit_bytes": int64(buffer)}},
		},
	)
}

// proxyProtocolFilter makes the gateway read headers of the PROXY protocol, if there are any, before it reads the server name of TLS.
func proxyProtocolFilter(owner object.Owner) client.Object {
	const filters = "type.googleapis.com/envoy.extensions.filters.listener."
	return filter(owner, "proxy-protocol-sni", map[string]any{
		"applyTo": "LISTENER",
		"match":   map[string]any{"context": "GATEWAY", "listener": map[string]any{"portNumber": int64(gatewayPort)}},
		"patch": map[string]any{"operation": "MERGE", "value": map[string]any{"listener_filters": []any{
			map[string]any{"name": "proxy_protocol", "typed_config": map[string]any{
				"@type": filters + "proxy_protocol.v3.ProxyProtocol", "allow_requests_without_proxy_protocol": true,
			}},
			map[string]any{"name": "envoy.filters.listener.tls_inspector", "typed_config": map[string]any{
				"@type": filters + "tls_inspector.v3.TlsInspector",
			}},
		}}},
	})
}

// accessLogFilter makes the gateway log connections and requests to its standard output.
func accessLogFilter(owner object.Owner) client.Object {
	const extensions = "type.googleapis.com/envoy.extensions."
	patch := func(name, kind string) any {
		return map[string]any{
			"applyTo": "NETWORK_FILTER",
			"match": map[string]any{"context": "GATEWAY", "listener": map[string]any{
				"filterChain": map[string]any{"filter": map[string]any{"name": "envoy.filters.network." + name}},
			}},
			"patch": map[string]any{"operation": "MERGE", "value": map[string]any{"typed_config": map[string]any{
				"@type": extensions + "filters.network." + name + ".v3." + kind,
				"access_log": []any{map[string]any{
					"name":         "envoy.access_loggers.stdout",
					"typed_config": map[string]any{"@type": extensions + "access_loggers.stream.v3.StdoutAccessLog"},
				}},
			}}},
		}
	}
	return filter(owner, "access-log", patch("tcp_proxy", "TcpProxy"), patch("http_connection_manager", "HttpConnectionManager"))
}
