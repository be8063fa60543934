// Package vpa returns the objects of the vertical pod autoscaler 1.8.1: admission controller, recommender and updater. Without the metrics
// API in the runtime cluster, the recommender has nothing to recommend.
package vpa

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/flags"
	"github.com/espalier-dev/espalier/internal/garden/component/network"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/pods"
	"github.com/espalier-dev/espalier/internal/garden/component/system"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/secrets"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// ManagedResource is the name of the ManagedResource that contains the result of Objects.
const ManagedResource = "vpa"

// Authority is the certificate authority of the webhook, and serverSecret the logical name of its certificate.
const (
	Authority    = rotation.RuntimeAuthority
	serverSecret = "vpa-admission-controller-server"
)

const (
	admission   = "vpa-admission-controller"
	recommender = "vpa-recommender"
	updater     = "vpa-updater"

	webhookService = "vpa-webhook"
	webhookPort    = 10250
	// webhookConfiguration is the name of the webhook configuration. It sorts after the names of webhook configurations that add containers,
	// so that API servers call it last.
	webhookConfiguration = "zzz-vpa-webhook-config-source"

	certificatePath = "/etc/tls-certs"
)

// gates are the feature gates of this version. The programs end at their start if they get another gate.
var gates = []string{"CPUStartupBoost", "InPlace", "PerVPAConfig"}

// Credentials are the credentials with which the API server trusts the webhook.
type Credentials struct {
	// Authority is the Secret with the bundle of the certificate authority, and Bundle its content.
	Authority string
	Bundle    []byte
	// Server is the Secret with the certificate of the webhook.
	Server string
}

// ServerCertificate returns the request for the certificate of the webhook.
func ServerCertificate(v values.Values) secrets.Request {
	return secrets.Request{SignedBy: Authority, Signer: secrets.CurrentSigner, Config: secretconfig.Certificate{
		Name: serverSecret, CommonName: webhookService + "." + v.Namespace + ".svc", Type: secretconfig.Server,
		DNSNames: object.DNSNames(v.Namespace, webhookService), SkipPublishingCACertificate: true,
	}}
}

// UnknownGates returns the feature gates of the Garden that this version does not know, sorted. They have no effect.
func UnknownGates(v values.Values) []string {
	var unknown []string
	for _, each := range slices.Sorted(maps.Keys(v.Autoscaling.FeatureGates)) {
		if !slices.Contains(gates, each) {
			unknown = append(unknown, each)
		}
	}
	return unknown
}

// Objects returns the objects of the ManagedResource. A Garden that brings its own vertical pod autoscaler has no such ManagedResource.
func Objects(v values.Values, credentials Credentials) ([]client.Object, error) {
	owner := object.Owner{Namespace: v.Namespace, Labels: map[string]string{object.Role: "vpa"}}
	objects := roles(owner)
	objects = append(objects, webhook(owner, credentials))
	for _, each := range []workload{admissionWorkload(v, credentials), recommenderWorkload(v), updaterWorkload(v)} {
		own, err := each.objects(owner, v)
		if err != nil {
			return nil, err
		}
		objects = append(objects, own...)
	}
	return objects, nil
}

// workload is one of the three programs.
type workload struct {
	name, container, priority, availability string
	args                                    []string
	cpu, memory, limit                      string
	metricsPort                             int32
	ports                                   []corev1.ContainerPort
	// namespaceVariable is true if the program reads its namespace from the environment.
	namespaceVariable bool
	// minMemory is the least memory of the VerticalPodAutoscaler. Empty: the program is not scaled.
	minMemory string
	// service is the name of the Service.
	service string
	// webhookPort is the port of the Pods that API servers call through port 443 of the Service; 0: none.
	webhookPort int32
	// complete changes the Deployment.
	complete func(*appsv1.Deployment)
}

func admissionWorkload(v values.Values, credentials Credentials) workload {
	const metricsPort = 8944
	return workload{
		name: admission, container: "admission-controller", priority: system.Class300, availability: object.Server,
		args: slices.Concat([]string{
			"--v=2", "--stderrthreshold=info", "--client-ca-file=" + certificatePath + "/bundle.crt",
			"--tls-cert-file=" + certificatePath + "/tls.crt", "--tls-private-key=" + certificatePath + "/tls.key",
			"--address=:" + strconv.Itoa(metricsPort), "--port=" + strconv.Itoa(webhookPort), "--register-webhook=false",
			"--kube-api-qps=200", "--kube-api-burst=250",
		}, gateArgs(v)),
		cpu: "30m", memory: "200Mi", limit: "3Gi", metricsPort: metricsPort, namespaceVariable: true, minMemory: "100Mi",
		ports: []corev1.ContainerPort{pods.ContainerPort("webhooks", webhookPort)}, service: webhookService, webhookPort: webhookPort,
		complete: func(d *appsv1.Deployment) { addCertificates(d, credentials) },
	}
}

func recommenderWorkload(v values.Values) workload {
	const metricsPort = 8942
	args := slices.Concat([]string{
		"--v=3", "--stderrthreshold=info", "--pod-recommendation-min-cpu-millicores=10", "--pod-recommendation-min-memory-mb=10",
		"--recommendation-margin-fraction=0.050000", "--recommender-interval=1m0s", "--kube-api-qps=200", "--kube-api-burst=250",
		"--memory-saver=true", "--leader-elect=true", "--leader-elect-resource-name=" + recommender,
		"--leader-elect-resource-namespace=" + v.Namespace,
	}, gateArgs(v))
	for _, each := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if most, found := v.Autoscaling.MaxAllowed[each]; found {
			args = append(args, fmt.Sprintf("--container-recommendation-max-allowed-%s=%s", each, most.String()))
		}
	}
	return workload{
		name: recommender, container: "recommender", priority: system.Class200, availability: object.Controller, args: args,
		cpu: "200m", memory: "800M", limit: "4Gi", metricsPort: metricsPort, ports: []corev1.ContainerPort{pods.ContainerPort("server", 8080)},
		service: recommender,
	}
}

func updaterWorkload(v values.Values) workload {
	const metricsPort = 8943
	return workload{
		name: updater, container: "updater", priority: system.Class200, availability: object.Controller,
		args: slices.Concat([]string{
			"--min-replicas=1", "--eviction-tolerance=1.000000", "--eviction-rate-burst=1", "--eviction-rate-limit=-1.000000",
			"--evict-after-oom-threshold=48h0m0s", "--updater-interval=1m0s", "--stderrthreshold=info", "--v=2",
			"--kube-api-qps=200", "--kube-api-burst=250", "--leader-elect=true", "--leader-elect-resource-namespace=" + v.Namespace,
		}, gateArgs(v)),
		cpu: "30m", memory: "200Mi", limit: "4Gi", metricsPort: metricsPort, ports: []corev1.ContainerPort{pods.ContainerPort("server", 8080)},
		namespaceVariable: true, minMemory: "50Mi", service: updater,
	}
}

// gateArgs returns the flag for the known feature gates of the Garden.
func gateArgs(v values.Values) []string {
	return flags.GateArgs(v.Autoscaling.FeatureGates, func(name string, _ bool) bool { return slices.Contains(gates, name) })
}

func (w workload) objects(owner object.Owner, v values.Values) ([]client.Object, error) {
	image, err := v.ExternalImage(w.name)
	if err != nil {
		return nil, err
	}
	selector := map[string]string{"app": w.name}
	owner = owner.WithLabels(selector)
	d := w.deployment(owner, selector, image)
	if w.complete != nil {
		w.complete(d)
	}
	object.AnnotateReferences(d)
	budget := owner.DisruptionBudget(w.name)
	budget.Spec.Selector.MatchLabels, budget.Spec.UnhealthyPodEvictionPolicy = selector, nil
	objects := append(make([]client.Object, 0, 5), owner.ServiceAccount(w.name), w.serviceObject(owner, selector), d, budget)
	if w.minMemory == "" {
		return objects, nil
	}
	return append(objects, object.Autoscaler{
		Name: w.name, Labels: owner.Labels, Container: w.container, MinAllowed: pods.Memory(w.minMemory),
	}.Object(v, v.Namespace)), nil
}

func (w workload) serviceObject(owner object.Owner, selector map[string]string) *corev1.Service {
	annotations := network.From(network.GardenScrapeTargets, w.metricsPort)
	var ports []corev1.ServicePort
	if w.webhookPort != 0 {
		annotations = object.Union(annotations, network.FromWorld(w.webhookPort))
		ports = append(ports, object.ServicePort("server", 443, w.webhookPort))
	}
	service := owner.Service(w.service, annotations, append(ports, object.ServicePort("metrics", w.metricsPort, w.metricsPort))...)
	service.Spec.Type, service.Spec.Selector = "", selector // without a type, it has the default
	return service
}

func (w workload) deployment(owner object.Owner, selector map[string]string, image string) *appsv1.Deployment {
	c := corev1.Container{
		Name: w.container, Image: image, Args: w.args,
		Ports: append([]corev1.ContainerPort{pods.ContainerPort("metrics", w.metricsPort)}, w.ports...),
		LivenessProbe: &corev1.Probe{
			ProbeHandler: healthCheck(), InitialDelaySeconds: 120, PeriodSeconds: 60, TimeoutSeconds: 30, FailureThreshold: 3,
		},
		Resources: pods.RequestsAndLimit(w.cpu, w.memory, w.limit),
	}
	if w.namespaceVariable {
		c.Env = []corev1.EnvVar{pods.FieldVariable("NAMESPACE", "metadata.namespace")}
	}
	return owner.WithLabels(map[string]string{object.AvailabilityType: w.availability}).
		Deployment(w.name, 1, selector, object.Union(owner.Labels, network.Clients()), corev1.PodSpec{
			ServiceAccountName: w.name, PriorityClassName: w.priority, Containers: []corev1.Container{c},
		})
}

func healthCheck() corev1.ProbeHandler {
	return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/health-check", Port: intstr.FromString("metrics")}}
}

func addCertificates(d *appsv1.Deployment, credentials Credentials) {
	const volume = "vpa-tls-certs"
	pod := &d.Spec.Template.Spec
	pod.Volumes = []corev1.Volume{{Name: volume, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: ptr.To[int32](420), Sources: []corev1.VolumeProjection{
			pods.SecretProjection(credentials.Authority, secretconfig.DataKeyCertificateBundle),
			pods.SecretProjection(credentials.Server, secretconfig.DataKeyCertificate, secretconfig.DataKeyPrivateKey),
		},
	}}}}
	c := &pod.Containers[0]
	c.VolumeMounts = []corev1.VolumeMount{{Name: volume, MountPath: certificatePath, ReadOnly: true}}
	c.ReadinessProbe = &corev1.Probe{ProbeHandler: healthCheck()}
}

// webhook returns the MutatingWebhookConfiguration of the admission controller, which does not register itself.
func webhook(owner object.Owner, credentials Credentials) *admissionregistrationv1.MutatingWebhookConfiguration {
	meta := owner.WithLabels(map[string]string{"remediation.webhook.shoot.gardener.cloud/exclude": "true"}).Meta(webhookConfiguration)
	meta.Namespace = ""
	rule := func(group, resource string, operations ...admissionregistrationv1.OperationType) admissionregistrationv1.RuleWithOperations {
		versions := []string{"v1"}
		if group != "" {
			versions = []string{"*"}
		}
		return admissionregistrationv1.RuleWithOperations{Operations: operations, Rule: admissionregistrationv1.Rule{
			APIGroups: []string{group}, APIVersions: versions, Resources: []string{resource}, Scope: ptr.To(admissionregistrationv1.AllScopes),
		}}
	}
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		TypeMeta: object.Type(admissionregistrationv1.SchemeGroupVersion.String(), "MutatingWebhookConfiguration"), ObjectMeta: meta,
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "vpa.k8s.io", AdmissionReviewVersions: []string{"v1"}, TimeoutSeconds: ptr.To[int32](10),
			FailurePolicy: ptr.To(admissionregistrationv1.Ignore), MatchPolicy: ptr.To(admissionregistrationv1.Exact),
			ReinvocationPolicy: ptr.To(admissionregistrationv1.IfNeededReinvocationPolicy),
			SideEffects:        ptr.To(admissionregistrationv1.SideEffectClassNone),
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				CABundle: credentials.Bundle,
				Service:  &admissionregistrationv1.ServiceReference{Namespace: owner.Namespace, Name: webhookService, Port: ptr.To[int32](443)},
			},
			Rules: []admissionregistrationv1.RuleWithOperations{
				rule("", "pods", admissionregistrationv1.Create),
				rule("autoscaling.k8s.io", "verticalpodautoscalers", admissionregistrationv1.Create, admissionregistrationv1.Update),
			},
		}},
	}
}
