package gardenerapiserver

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/manifest"
	"github.com/espalier-dev/espalier/internal/garden/component/gardener"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/rights"
	"github.com/espalier-dev/espalier/internal/garden/component/virtualsystem"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/garden/versions"
)

const apiServiceKind = "APIService"

// served returns the API versions of Gardener.
func served() []metav1.GroupVersion {
	return []metav1.GroupVersion{
		{Group: rights.CoreGroup, Version: "v1"},
		{Group: rights.CoreGroup, Version: "v1beta1"},
		{Group: rights.SeedManagementGroup, Version: "v1alpha1"},
		{Group: rights.OperationsGroup, Version: "v1alpha1"},
		{Group: rights.SecurityGroup, Version: "v1alpha1"},
	}
}

// ServesAPIs reports whether the APIServices of VirtualManagedResource exist in the virtual cluster. The ManagedResource is nil if it does
// not exist.
func ServesAPIs(set *resourcesv1alpha1.ManagedResource) bool {
	return gardener.Has(set, apiServiceKind)
}

// Address returns the address of the Service in the runtime cluster, or an error as long as it has none.
func Address(service *corev1.Service) (netip.Addr, error) {
	address, err := netip.ParseAddr(service.Spec.ClusterIP)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("there is no cluster IP of Service %s/%s yet: its spec.clusterIP is %q",
			service.Namespace, service.Name, service.Spec.ClusterIP)
	}
	return address, nil
}

// AccessObjects returns the rights in the virtual cluster. gardener-apiserver has all rights, because it reads all objects that its
// admission plugins need, and may grant rights to other clients.
func AccessObjects() []client.Object {
	owner := gardener.VirtualOwner(role)
	const (
		clusterRole   = "gardener.cloud:system:apiserver"
		authenticator = "extension-apiserver-authentication-reader"
	)
	return []client.Object{
		owner.ClusterRole(clusterRole, rights.Rule("*", "*", "*")),
		owner.ClusterRoleBinding(clusterRole, clusterRole, Name),
		owner.ClusterRoleBinding("gardener.cloud:apiserver:auth-delegator", "system:auth-delegator", Name),
		owner.RoleBinding("gardener.cloud:apiserver:auth-reader", authenticator, Name),
	}
}

// VirtualObjects returns the objects in the virtual cluster. Bundle is the CA bundle of gardener.Authority, and address is the address of
// the Service in the runtime cluster.
func VirtualObjects(v values.Values, bundle []byte, address netip.Addr) []client.Object {
	objects := AccessObjects()
	for _, each := range served() {
		objects = append(objects, apiService(each, bundle))
	}
	objects = append(objects, service())
	kubernetes := versions.KubernetesOf(v.Kubernetes)
	if !kubernetes.AtLeast(slicesOnlyFrom) {
		objects = append(objects, endpoints(address))
	}
	if kubernetes.AtLeast(slicesFrom) {
		objects = append(objects, endpointSlice(address))
	}
	return objects
}

// VersionURL returns the address at which gardener-apiserver reports its version.
func VersionURL(namespace string) string {
	return fmt.Sprintf("https://%s.%s:%d/version", Name, namespace, servicePort)
}

// ParseVersion returns the version of an answer of VersionURL.
func ParseVersion(answer []byte) (string, error) {
	var reported apimachineryversion.Info
	if err := json.Unmarshal(answer, &reported); err != nil {
		return "", fmt.Errorf("decode version of gardener-apiserver: %w", err)
	}
	if _, err := version.ParseSemantic(reported.GitVersion); err != nil {
		return "", fmt.Errorf("gardener-apiserver reports a version that is none: %w", err)
	}
	return reported.GitVersion, nil
}

// Info returns a ConfigMap for all users of the virtual cluster: the version of gardener-apiserver, and the issuer of tokens of workload
// identities. Reported is the version that gardener-apiserver reports. If reported is empty, Info takes the version from the tag of the
// image, because users may deploy other images. If the tag is not a version, Info takes builtIn.
func Info(v values.Values, reported, builtIn string) (*corev1.ConfigMap, error) {
	if reported == "" {
		tag, err := imageTag(v)
		if err != nil {
			return nil, err
		}
		reported = builtIn
		if _, isNone := version.ParseSemantic(tag); isNone == nil {
			reported = tag
		}
	}
	issuer, err := Issuer(v)
	if err != nil {
		return nil, err
	}
	text, err := manifest.Encode(map[string]string{"version": reported, "workloadIdentityIssuerURL": issuer})
	if err != nil {
		return nil, err
	}
	public := object.Owner{Namespace: virtualsystem.PublicNamespace}
	return public.ConfigMap("gardener-info", map[string]string{"gardenerAPIServer": string(text)}), nil
}

// imageTag returns the tag of the image of gardener-apiserver.
func imageTag(v values.Values) (string, error) {
	image, err := v.ExternalImage(Name)
	if err != nil {
		return "", err
	}
	name, _, _ := strings.Cut(image, "@")
	return name[strings.LastIndex(name, ":")+1:], nil
}

// slicesFrom is the first minor version of Kubernetes whose kube-apiserver finds the servers of APIServices in EndpointSlices instead of
// Endpoints. slicesOnlyFrom is the next minor version. While kube-apiserver is updated to slicesOnlyFrom, the old Pods already read
// EndpointSlices, so that Endpoints are needed only for versions before slicesOnlyFrom.
const (
	slicesFrom     = 33
	slicesOnlyFrom = 34
)

func apiService(of metav1.GroupVersion, bundle []byte) *apiregistrationv1.APIService {
	meta := gardener.VirtualOwner(role).Meta(of.Version + "." + of.Group)
	meta.Namespace = ""
	return &apiregistrationv1.APIService{
		TypeMeta: object.Type(apiregistrationv1.SchemeGroupVersion.String(), apiServiceKind), ObjectMeta: meta,
		Spec: apiregistrationv1.APIServiceSpec{
			Service: &apiregistrationv1.ServiceReference{Namespace: metav1.NamespaceSystem, Name: Name, Port: ptr.To[int32](servicePort)},
			Group:   of.Group, Version: of.Version, CABundle: bundle, GroupPriorityMinimum: 10000, VersionPriority: 20,
		},
	}
}

// service returns the Service in the virtual cluster. The Service has no selector, because there are no Pods in the virtual cluster: with
// a selector, kube-controller-manager would replace the endpoints by an empty list.
func service() *corev1.Service {
	service := gardener.VirtualOwner(role).Service(Name, nil, object.ServicePort("", servicePort, Port))
	service.Spec.Selector = nil
	return service
}

func endpointSlice(address netip.Addr) *discoveryv1.EndpointSlice {
	family := discoveryv1.AddressTypeIPv4
	if address.Is6() {
		family = discoveryv1.AddressTypeIPv6
	}
	meta := gardener.VirtualOwner(role).WithLabels(map[string]string{discoveryv1.LabelServiceName: Name}).Meta(Name)
	return &discoveryv1.EndpointSlice{
		TypeMeta: object.Type(discoveryv1.SchemeGroupVersion.String(), "EndpointSlice"), ObjectMeta: meta, AddressType: family,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{address.String()}}},
		Ports:     []discoveryv1.EndpointPort{{Port: ptr.To[int32](servicePort), Protocol: ptr.To(corev1.ProtocolTCP)}},
	}
}

// endpoints returns the Endpoints that kube-apiserver of Kubernetes 1.32 reads. While kube-apiserver is updated to 1.33, the old Pods still
// read them.
//
//nolint:staticcheck // later versions of Kubernetes deprecate the kind
func endpoints(address netip.Addr) client.Object {
	return &corev1.Endpoints{
		TypeMeta: object.Type("v1", "Endpoints"), ObjectMeta: gardener.VirtualOwner(role).Meta(Name),
		Subsets: []corev1.EndpointSubset{{
			Addresses: []corev1.EndpointAddress{{IP: address.String()}},
			Ports:     []corev1.EndpointPort{{Port: servicePort, Protocol: corev1.ProtocolTCP}},
		}},
	}
}
