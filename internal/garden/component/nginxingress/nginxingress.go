// Package nginxingress returns the objects of the ingress controller of the runtime cluster. The ingress controller is behind the gateway
// of Istio: for the domains below the ingress domains, the gateway passes TLS connections through to the ingress controller.
package nginxingress

import (
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/api/references"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/istio"
	"github.com/espalier-dev/espalier/internal/garden/component/network"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/pods"
	"github.com/espalier-dev/espalier/internal/garden/component/system"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// ManagedResource is the name of the ManagedResource with these objects.
const ManagedResource = "nginx-ingress"

// Class is the name of the IngressClass.
const Class = "nginx-ingress-gardener"

const (
	app         = "nginx-ingress"
	controller  = "nginx-ingress-controller"
	backend     = "nginx-ingress-k8s-backend"
	backendPort = 8080
	healthPort  = 10254
	leader      = "ingress-controller-seed-leader"
	class       = "k8s.io/" + Class
	priority    = system.Class300
	grace       = 60
)

// Objects returns the objects of the ManagedResource.
func Objects(v values.Values) ([]client.Object, error) {
	owner := controllerOwner(v)
	configuration := owner.UniqueConfigMap(controller, object.Union(map[string]string{
		"enable-vts-status": "false", "server-name-hash-bucket-size": "256", "use-proxy-protocol": "false", "worker-processes": "2",
		"allow-snippet-annotations": "false",
	}, v.Ingress.Settings))
	own, err := controllerDeployment(v, configuration.Name)
	if err != nil {
		return nil, err
	}
	other, err := backendDeployment(v)
	if err != nil {
		return nil, err
	}
	objects := []client.Object{
		object.Owner{Namespace: v.Namespace, Labels: map[string]string{"app": app}}.ServiceAccount(app),
	}
	objects = append(objects, roles(owner)...)
	objects = append(objects,
		configuration, ingressClass(owner), controllerService(v), own,
		owner.AvailabilityBudget(controller),
		object.Autoscaler{
			Name: controller, Labels: owner.Labels, Container: controller, MinAllowed: pods.Memory("100Mi"), WithLimits: true,
		}.Object(v, v.Namespace),
		backendOwner(v).Service(backend, nil, object.ServicePort("", 80, backendPort)), other, backendPolicy(v),
	)
	return append(objects, exposure(v)...), nil
}

func controllerOwner(v values.Values) object.Owner {
	return object.Owner{Namespace: v.Namespace, Labels: map[string]string{"app": app, "component": "controller"}}
}

func backendOwner(v values.Values) object.Owner {
	return object.Owner{Namespace: v.Namespace, Labels: map[string]string{"app": app, "component": backend}}
}

// controllerSelector returns the labels that select the Pods of the controller. One of them is on no other object.
func controllerSelector(v values.Values) map[string]string {
	return object.Union(controllerOwner(v).Labels, map[string]string{"release": "addons"})
}

func ingressClass(owner object.Owner) *networkingv1.IngressClass {
	return &networkingv1.IngressClass{
		TypeMeta:   object.Type(networkingv1.SchemeGroupVersion.String(), "IngressClass"),
		ObjectMeta: metav1.ObjectMeta{Name: Class, Labels: owner.Meta("").Labels}, Spec: networkingv1.IngressClassSpec{Controller: class},
	}
}

func controllerService(v values.Values) *corev1.Service {
	service := controllerOwner(v).Service(controller, object.Union(
		network.FromNamespaces(istio.GatewayNamespaceSelector), map[string]string{istio.ExportTo: istio.GatewayNamespace},
	), object.ServicePort("http", 80, 80), object.ServicePort("https", 443, 443))
	service.Spec.Selector = controllerSelector(v)
	return service
}

func controllerDeployment(v values.Values, configMap string) (*appsv1.Deployment, error) {
	image, err := v.ExternalImage(controller)
	if err != nil {
		return nil, err
	}
	probe := &corev1.Probe{
		ProbeHandler:  pods.HTTPGet("/healthz", healthPort, ""),
		PeriodSeconds: 10, TimeoutSeconds: 1, FailureThreshold: 3,
	}
	c := corev1.Container{
		Name: controller, Image: image, Args: args(v, configMap),
		Env: []corev1.EnvVar{pods.FieldVariable("POD_NAME", "metadata.name"), pods.FieldVariable("POD_NAMESPACE", "metadata.namespace")},
		Ports: []corev1.ContainerPort{
			pods.ContainerPort("http", 80), pods.ContainerPort("https", 443),
		},
		StartupProbe: pods.StartupProbe(probe), LivenessProbe: probe, ReadinessProbe: probe.DeepCopy(),
		Resources: pods.RequestsAndLimit("100m", "375Mi", "1500Mi"),
		// The program of the image uses chroot, and listens on low ports as a user that is not root.
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(true), RunAsUser: ptr.To[int64](101), RunAsNonRoot: ptr.To(true),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined},
			Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"NET_BIND_SERVICE", "SYS_CHROOT"}},
		},
	}
	further := object.Union(network.Clients(), network.ClientsOf(backend+"-tcp-"+strconv.Itoa(backendPort)),
		map[string]string{"seccompprofile.resources.gardener.cloud/skip": "true"})
	d := controllerOwner(v).Deployment(controller, 2, controllerSelector(v), further, podSpec(c))
	d.Spec.Template.Spec.ServiceAccountName = app
	// The controller reads the ConfigMap from the API server, so no volume refers to the ConfigMap.
	reference := map[string]string{references.AnnotationKey(references.KindConfigMap, configMap): configMap}
	d.Annotations, d.Spec.Template.Annotations = reference, object.Union(reference)
	return d, nil
}

func args(v values.Values, configMap string) []string {
	own := func(name string) string { return v.Namespace + "/" + name }
	return []string{
		"/nginx-ingress-controller", "--default-backend-service=" + own(backend), "--enable-ssl-passthrough=true",
		"--publish-service=" + own(controller), "--election-id=" + leader, "--update-status=true",
		"--annotations-prefix=nginx.ingress.kubernetes.io", "--configmap=" + own(configMap), "--ingress-class=" + Class,
		"--controller-class=" + class, "--enable-annotation-validation=true", "--watch-namespace=" + v.Namespace,
	}
}

func backendDeployment(v values.Values) (*appsv1.Deployment, error) {
	image, err := v.ExternalImage("ingress-default-backend")
	if err != nil {
		return nil, err
	}
	owner := backendOwner(v)
	d := owner.Deployment(backend, 1, owner.Labels, nil, podSpec(corev1.Container{
		Name: backend, Image: image, Ports: []corev1.ContainerPort{pods.ContainerPort("", backendPort)},
		LivenessProbe: &corev1.Probe{ProbeHandler: pods.HTTPGet("/healthy", backendPort, ""), InitialDelaySeconds: 30, TimeoutSeconds: 5},
		Resources:     pods.RequestsAndLimit("20m", "20Mi", "100Mi"),
	}))
	d.Spec.Template.Spec.SecurityContext = &corev1.PodSecurityContext{
		RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](65534), FSGroup: ptr.To[int64](65534),
	}
	return d, nil
}

// backendPolicy keeps the backend from connecting to anything. Without a policy for its egress it could connect to every Pod without a
// policy, and to all networks.
func backendPolicy(v values.Values) *networkingv1.NetworkPolicy {
	owner := backendOwner(v)
	meta := owner.Meta(backend)
	meta.Annotations = map[string]string{
		resourcesv1alpha1.GardenerDescription: "Denies all egress traffic of the default backend, which only answers requests.",
	}
	return &networkingv1.NetworkPolicy{
		TypeMeta: object.Type(networkingv1.SchemeGroupVersion.String(), "NetworkPolicy"), ObjectMeta: meta,
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: owner.Labels}, PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
		},
	}
}

func podSpec(c corev1.Container) corev1.PodSpec {
	return corev1.PodSpec{
		PriorityClassName: priority, TerminationGracePeriodSeconds: ptr.To[int64](grace), Containers: []corev1.Container{c},
	}
}

// exposure returns the objects with which the gateway of Istio passes connections through.
func exposure(v values.Values) []client.Object {
	service := istio.Exposed{Owner: controllerOwner(v), Service: controller}
	hosts := make([]any, 0, len(v.Ingress.Domains))
	for _, domain := range v.Ingress.Domains {
		hosts = append(hosts, "*."+domain)
	}
	objects := []client.Object{service.Gateway(hosts)}
	for i, each := range hosts {
		objects = append(objects, service.Route(fmt.Sprintf("%s-%d", controller, i), []any{each}))
	}
	return append(objects, service.Destination(map[string]any{"tls": map[string]any{"mode": "DISABLE"}}))
}
