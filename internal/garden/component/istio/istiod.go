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
	"github.com/espalier-dev/espalier/internal/garden/component/shared"
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
	owner := shared.Owner{Namespace: Namespace, Labels: map[string]string{"app": istiod, "istio": "pilot"}}
	return append(istiodRoles(owner),
		owner.ServiceAccount(istiod), owner.ConfigMap("istio", map[string]string{"mesh": mesh, "meshNetworks": meshNetworks}),
		istiodService(v, owner), istiodDeployment(owner, image), owner.AvailabilityBudget(istiod),
		shared.Autoscaler{
			Name: istiod, Labels: owner.Labels, Container: "discovery", MinAllowed: shared.Memory("128Mi"), WithLimits: true,
		}.Object(v, Namespace),
		validation(owner),
	), nil
}

func istiodService(v values.Values, owner shared.Owner) *corev1.Service {
	annotations := shared.Union(
		network.From(network.SeedScrapeTargets, monitoringPort), network.FromWorld(webhookPort),
		network.FromNamespaces(`[{"matchLabels":{"gardener.cloud/role":"istio-ingress"}},`+
			`{"matchExpressions":[{"key":"handler.exposureclass.gardener.cloud/name","operator":"Exists"}]},`+
			`{"matchLabels":{"kubernetes.io/metadata.name":"`+v.Namespace+`"}}]`),
	)
	return owner.Service(istiod, annotations,
		shared.ServicePort("https-sds", sdsPort, sdsPort), shared.ServicePort("https-webhook", 443, webhookPort),
		shared.ServicePort("metrics", monitoringPort, monitoringPort))
}

func istiodDeployment(owner shared.Owner, image string) *appsv1.Deployment {
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
				shared.ContainerPort("", sdsPort),
				shared.ContainerPort("", webhookPort),
				shared.ContainerPort("", readyPort),
			},
			ReadinessProbe: &corev1.Probe{
				ProbeHandler: shared.HTTPGet("/ready", readyPort, ""), InitialDelaySeconds: 1, PeriodSeconds: 3, TimeoutSeconds: 5,
			},
			Env: istiodEnvironment(), VolumeMounts: m.Paths, SecurityContext: restricted(), Resources: shared.Requests("250m", "256Mi"),
		}},
	})
	complete(d, intstr.FromString("100%"), intstr.FromString("25%"), "istio-config", mesh+meshNetworks)
	return d
}

func istiodEnvironment() []corev1.EnvVar {
	return []corev1.EnvVar{
		variable("REVISION", "default"), variable("PILOT_CERT_PROVIDER", istiod),
		shared.FieldVariable("POD_NAME", "metadata.name"), shared.FieldVariable("POD_NAMESPACE", "metadata.namespace"),
		shared.FieldVariable("SERVICE_ACCOUNT", "spec.serviceAccountName"),
		variable("KUBECONFIG", "/var/run/secrets/remote/config"), variable("PILOT_TRACE_SAMPLING", "1"),
		variable("PILOT_ENABLE_ANALYSIS", "false"), variable("CLUSTER_ID", "Kubernetes"),
	}
}

func istiodMounts() shared.Mounts {
	var m shared.Mounts
	m.Add("mesh", "/etc/istio/config", false, shared.ConfigMapSource("istio"))
	m.Add("token", "/var/run/secrets/tokens", true, token())
	m.Add("certificates", "/var/run/secrets/istio-dns", false, emptyDir(corev1.StorageMediumMemory))
	m.Add("authority", "/etc/cacerts", true, optional(shared.SecretSource("cacerts", false)))
	m.Add("kubeconfig", "/var/run/secrets/remote", true, optional(shared.SecretSource("istio-kubeconfig", false)))
	m.Add("server-certificate", "/var/run/secrets/istiod/tls", true, optional(shared.SecretSource("istiod-tls", false)))
	m.Add("root-certificate", "/var/run/secrets/istiod/ca", true, optional(shared.ConfigMapSource("istio-ca-root-cert")))
	return m
}

// validation returns the configuration of the webhook for objects of Istio. istiod sets its CA bundle and its failure policy, which
// managedresource-controller would reset each time. The annotation makes that controller create the object and not update it. The
// disadvantage is that changes of this function do not reach a cluster that has the object, and changes by users stay, until the object is
// deleted.
func validation(owner shared.Owner) *admissionregistrationv1.ValidatingWebhookConfiguration {
	meta := owner.WithLabels(map[string]string{"istio.io/rev": "default"}).Meta(istiod)
	meta.Namespace = ""
	meta.Annotations = map[string]string{resourcesv1alpha1.Ignore: "true"}
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		TypeMeta: shared.Type(admissionregistrationv1.SchemeGroupVersion.String(), "ValidatingWebhookConfiguration"), ObjectMeta: meta,
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
func istiodRoles(owner shared.Owner) []client.Object {
	return []client.Object{
		owner.ClusterRole(istiod, clusterRules()...), owner.ClusterRoleBinding(istiod, istiod, istiod),
		owner.RoleIn(istiod,
			shared.Rule("", "configmaps", "delete"),
			shared.Rule("", "secrets", shared.Read("create", "update", "delete")...),
			shared.Rule("", "serviceaccounts", shared.Read()...),
			shared.Rule(shared.LeasesGroup, "leases", "get", "create", "update", "patch"),
			shared.Rule("networking.istio.io", "gateways", "create"),
		),
		owner.RoleBinding(istiod, istiod, istiod),
	}
}

// clusterRules are sorted by API group and resource. Rules for importing and exporting services of other clusters are left out too.
func clusterRules() []rbacv1.PolicyRule {
	core, admission, networking := "", "admissionregistration.k8s.io", "networking.istio.io"
	return []rbacv1.PolicyRule{
		shared.Rule(core, "configmaps", shared.Read("create", "update")...),
		shared.Rule(core, "endpoints;namespaces;nodes;pods;secrets;services", shared.Read()...),
		shared.Rule(admission, "mutatingwebhookconfigurations", shared.Read("update", "patch")...),
		shared.Rule(admission, "validatingwebhookconfigurations", shared.Read("update")...),
		shared.Rule("apiextensions.k8s.io", "customresourcedefinitions", shared.Read()...),
		shared.Rule("authentication.k8s.io", "tokenreviews", "create"),
		shared.Rule("authorization.k8s.io", "subjectaccessreviews", "create"),
		shared.Rule(shared.CertificatesGroup, "certificatesigningrequests;certificatesigningrequests/approval;certificatesigningrequests/status",
			"get", "watch", "create", "update", "delete"),
		shared.Named(shared.Rule(shared.CertificatesGroup, "signers", "approve"), "kubernetes.io/legacy-unknown"),
		shared.Rule("discovery.k8s.io", "endpointslices", shared.Read()...),
		shared.Rule("extensions.istio.io;networking.istio.io;security.istio.io;telemetry.istio.io", "*", shared.Read()...),
		shared.Rule(networking, "workloadentries;workloadentries/status", "create", "update", "patch", "delete"),
		shared.Rule("networking.k8s.io", "ingresses", shared.Read()...),
	}
}
