package istio

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/network"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/pods"
	"github.com/espalier-dev/espalier/internal/garden/component/rights"
	"github.com/espalier-dev/espalier/internal/garden/component/system"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

const (
	istiod         = "istiod"
	sdsPort        = 15012
	webhookPort    = 10250
	monitoringPort = 15014
	readyPort      = 8080

	// By default, mesh exports Services and objects of Istio to no namespace.
	mesh = `accessLogFile: ""
defaultConfig:
  discoveryAddress: istiod.istio-system.svc:15012
defaultDestinationRuleExportTo:
- "~"
defaultServiceExportTo:
- "~"
defaultVirtualServiceExportTo:
- "~"
enablePrometheusMerge: true
ingressControllerMode: "OFF"
rootNamespace: istio-system
trustDomain: cluster.local
`
	meshNetworks = "networks: {}\n"
)

// Objects returns the objects of the ManagedResource for istiod.
func Objects(v values.Values) ([]client.Object, error) {
	image, err := v.ExternalImage("istio-istiod")
	if err != nil {
		return nil, err
	}
	owner := object.Owner{Namespace: Namespace, Labels: map[string]string{"app": istiod, "istio": "pilot"}}
	return append(istiodRoles(owner),
		owner.ServiceAccount(istiod), owner.ConfigMap("istio", map[string]string{"mesh": mesh, "meshNetworks": meshNetworks}),
		istiodService(v, owner), istiodDeployment(v, owner, image), owner.AvailabilityBudget(istiod),
		object.Autoscaler{
			Name: istiod, Labels: owner.Labels, Container: "discovery", MinAllowed: pods.Memory("128Mi"), WithLimits: true,
		}.Object(v, Namespace),
		validation(owner),
	), nil
}

func istiodService(v values.Values, owner object.Owner) *corev1.Service {
	annotations := object.Union(
		network.From(network.SeedScrapeTargets, monitoringPort), network.FromWorld(webhookPort),
		network.FromNamespaces(`[{"matchLabels":{"gardener.cloud/role":"istio-ingress"}},`+
			`{"matchExpressions":[{"key":"handler.exposureclass.gardener.cloud/name","operator":"Exists"}]},`+
			`{"matchLabels":{"kubernetes.io/metadata.name":"`+v.Namespace+`"}}]`),
	)
	return owner.Service(istiod, annotations,
		object.ServicePort("https-sds", sdsPort, sdsPort), object.ServicePort("https-webhook", 443, webhookPort),
		object.ServicePort("metrics", monitoringPort, monitoringPort))
}

func istiodDeployment(v values.Values, owner object.Owner, image string) *appsv1.Deployment {
	m := istiodMounts()
	d := owner.Deployment(istiod, 2, owner.Labels, network.Clients(), corev1.PodSpec{
		ServiceAccountName: istiod, PriorityClassName: system.Critical, Affinity: apart(owner.Labels),
		SecurityContext: &corev1.PodSecurityContext{FSGroup: ptr.To[int64](1337)}, Volumes: m.Volumes,
		Containers: []corev1.Container{{
			Name: "discovery", Image: image,
			Args: []string{
				"discovery", "--monitoringAddr=:15014", "--httpsAddr=:10250", "--grpcAddr=", "--log_output_level=default:info,ads:error",
				"--domain", "cluster.local", "--keepaliveMaxServerConnectionAge", "30m",
			},
			Ports: []corev1.ContainerPort{
				pods.ContainerPort("", sdsPort),
				pods.ContainerPort("", webhookPort),
				pods.ContainerPort("", readyPort),
			},
			ReadinessProbe: &corev1.Probe{
				ProbeHandler: pods.HTTPGet("/ready", readyPort, ""), InitialDelaySeconds: 1, PeriodSeconds: 3, TimeoutSeconds: 5,
			},
			Env: append(istiodEnvironment(), dualStack(v)...), VolumeMounts: m.Paths, SecurityContext: restricted(),
			Resources: pods.Requests("250m", "256Mi"),
		}},
	})
	complete(d, intstr.FromString("100%"), intstr.FromString("25%"), "istio-config", mesh+meshNetworks)
	return d
}

func istiodEnvironment() []corev1.EnvVar {
	return []corev1.EnvVar{
		variable("REVISION", "default"), variable("PILOT_CERT_PROVIDER", istiod),
		pods.FieldVariable("POD_NAME", "metadata.name"), pods.FieldVariable("POD_NAMESPACE", "metadata.namespace"),
		pods.FieldVariable("SERVICE_ACCOUNT", "spec.serviceAccountName"),
		variable("KUBECONFIG", "/var/run/secrets/remote/config"), variable("PILOT_TRACE_SAMPLING", "1"),
		variable("PILOT_ENABLE_ANALYSIS", "false"), variable("CLUSTER_ID", "Kubernetes"),
	}
}

// dualStack returns the variable that makes istiod and the gateway use both families of addresses, if the runtime cluster has both.
func dualStack(v values.Values) []corev1.EnvVar {
	if !v.DualStack {
		return nil
	}
	return []corev1.EnvVar{variable("ISTIO_DUAL_STACK", "true")}
}

func istiodMounts() pods.Mounts {
	var m pods.Mounts
	m.Add("mesh", "/etc/istio/config", false, pods.ConfigMapSource("istio"))
	m.Add("token", "/var/run/secrets/tokens", true, token())
	m.Add("certificates", "/var/run/secrets/istio-dns", false, emptyDir(corev1.StorageMediumMemory))
	m.Add("authority", "/etc/cacerts", true, optional(pods.SecretSource("cacerts", false)))
	m.Add("kubeconfig", "/var/run/secrets/remote", true, optional(pods.SecretSource("istio-kubeconfig", false)))
	m.Add("server-certificate", "/var/run/secrets/istiod/tls", true, optional(pods.SecretSource("istiod-tls", false)))
	m.Add("root-certificate", "/var/run/secrets/istiod/ca", true, optional(pods.ConfigMapSource("istio-ca-root-cert")))
	return m
}

// validation returns the configuration of the webhook for objects of Istio. istiod sets the CA bundle and the failure policy of the
// webhook, and managedresource-controller would reset both each time. Because of the annotation resourcesv1alpha1.Ignore,
// managedresource-controller creates the object and does not update it. The disadvantage is that changes of this function do not reach a
// cluster that has the object, and changes by users stay, until the object is deleted.
func validation(owner object.Owner) *admissionregistrationv1.ValidatingWebhookConfiguration {
	meta := owner.WithLabels(map[string]string{"istio.io/rev": "default"}).Meta(istiod)
	meta.Namespace = ""
	meta.Annotations = map[string]string{resourcesv1alpha1.Ignore: "true"}
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		TypeMeta: object.Type(admissionregistrationv1.SchemeGroupVersion.String(), "ValidatingWebhookConfiguration"), ObjectMeta: meta,
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "rev.validation.istio.io", AdmissionReviewVersions: []string{"v1"}, FailurePolicy: ptr.To(admissionregistrationv1.Ignore),
			MatchPolicy: ptr.To(admissionregistrationv1.Exact), SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone),
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				Service: &admissionregistrationv1.ServiceReference{Namespace: Namespace, Name: istiod, Path: ptr.To("/validate")},
			},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				Rule: admissionregistrationv1.Rule{
					APIGroups:   []string{"security.istio.io", "networking.istio.io", "telemetry.istio.io", "extensions.istio.io"},
					APIVersions: []string{"*"}, Resources: []string{"*"},
				},
			}},
		}},
	}
}

// istiodRoles returns the rights of istiod. It may neither deploy gateways for objects of the Gateway API, nor read such objects, nor
// change the status of Ingresses: the definitions of the Gateway API are not deployed, and the mesh has no ingress controller.
func istiodRoles(owner object.Owner) []client.Object {
	return []client.Object{
		owner.ClusterRole(istiod, clusterRules()...), owner.ClusterRoleBinding(istiod, istiod, istiod),
		owner.RoleIn(istiod,
			rights.Rule("", "configmaps", "delete"),
			rights.Rule("", "secrets", rights.Read("create", "update", "delete")...),
			rights.Rule("", "serviceaccounts", rights.Read()...),
			rights.Rule(rights.LeasesGroup, "leases", "get", "create", "update", "patch"),
			rights.Rule("networking.istio.io", "gateways", "create"),
		),
		owner.RoleBinding(istiod, istiod, istiod),
	}
}

// clusterRules are sorted by API group and resource. Rules for importing and exporting services of other clusters are left out too.
func clusterRules() []rbacv1.PolicyRule {
	core, admission, networking := "", "admissionregistration.k8s.io", "networking.istio.io"
	return []rbacv1.PolicyRule{
		rights.Rule(core, "configmaps", rights.Read("create", "update")...),
		rights.Rule(core, "endpoints;namespaces;nodes;pods;secrets;services", rights.Read()...),
		rights.Rule(admission, "mutatingwebhookconfigurations", rights.Read("update", "patch")...),
		rights.Rule(admission, "validatingwebhookconfigurations", rights.Read("update")...),
		rights.Rule("apiextensions.k8s.io", "customresourcedefinitions", rights.Read()...),
		rights.Rule("authentication.k8s.io", "tokenreviews", "create"),
		rights.Rule("authorization.k8s.io", "subjectaccessreviews", "create"),
		rights.Rule(rights.CertificatesGroup, "certificatesigningrequests;certificatesigningrequests/approval;certificatesigningrequests/status",
			"get", "watch", "create", "update", "delete"),
		rights.Named(rights.Rule(rights.CertificatesGroup, "signers", "approve"), "kubernetes.io/legacy-unknown"),
		rights.Rule("discovery.k8s.io", "endpointslices", rights.Read()...),
		rights.Rule("extensions.istio.io;networking.istio.io;security.istio.io;telemetry.istio.io", "*", rights.Read()...),
		rights.Rule(networking, "workloadentries;workloadentries/status", "create", "update", "patch", "delete"),
		rights.Rule("networking.k8s.io", "ingresses", rights.Read()...),
	}
}
