// Package defaulting sets the defaults of a Garden that the schema of its CRD cannot set.
package defaulting

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/versions"
)

// Defaults for kube-apiserver.
const (
	maxNonMutatingInflight int32 = 400
	maxMutatingInflight    int32 = 200
	verbosity              int32 = 2
	eventTTL                     = time.Hour
)

// anonymousForbiddenFrom is the minor version of Kubernetes from which on enableAnonymousAuthentication must not be set.
const anonymousForbiddenFrom = 35

// Garden sets defaults in the spec. Fields that are set keep their values, and a second call changes nothing. Deprecated forms of fields,
// such as spec.runtimeCluster.ingress.domain, stay as they are, because the webhook patches only fields that this function changes.
//
// One field is removed: an enableAnonymousAuthentication of false, which earlier defaulting has stored, when the version of Kubernetes
// does not allow the field any more.
func Garden(g *operatorv1alpha1.Garden) {
	runtime, virtual := &g.Spec.RuntimeCluster, &g.Spec.VirtualCluster
	if runtime.Settings == nil {
		runtime.Settings = &operatorv1alpha1.Settings{}
	}
	if runtime.Settings.VerticalPodAutoscaler == nil {
		runtime.Settings.VerticalPodAutoscaler = &operatorv1alpha1.VerticalPodAutoscaler{}
	}
	setDefault(&runtime.Settings.VerticalPodAutoscaler.Enabled, true)
	if len(runtime.Networking.IPFamilies) == 0 {
		runtime.Networking.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	}

	if virtual.Kubernetes.KubeAPIServer == nil {
		virtual.Kubernetes.KubeAPIServer = &operatorv1alpha1.KubeAPIServer{}
	}
	kubeAPIServer(virtual.Kubernetes.KubeAPIServer, virtual.Kubernetes.Version)
	if virtual.Kubernetes.KubeControllerManager == nil {
		// The schema sets certificateSigningDuration in it.
		virtual.Kubernetes.KubeControllerManager = &operatorv1alpha1.KubeControllerManager{}
	}
	if virtual.Gardener.APIServer == nil {
		virtual.Gardener.APIServer = &operatorv1alpha1.GardenerAPIServer{}
	}
	virtual.Gardener.APIServer.EncryptionConfig = withProvider(virtual.Gardener.APIServer.EncryptionConfig,
		*virtual.Kubernetes.KubeAPIServer.EncryptionConfig.Provider.Type)
}

func kubeAPIServer(server *operatorv1alpha1.KubeAPIServer, version string) {
	if server.Requests == nil {
		server.Requests = &operatorv1alpha1.APIServerRequests{}
	}
	setDefault(&server.Requests.MaxNonMutatingInflight, maxNonMutatingInflight)
	setDefault(&server.Requests.MaxMutatingInflight, maxMutatingInflight)
	setDefault(&server.EventTTL, metav1.Duration{Duration: eventTTL})
	if server.Logging == nil {
		server.Logging = &operatorv1alpha1.APIServerLogging{}
	}
	setDefault(&server.Logging.Verbosity, verbosity)
	enableAnonymousAuthentication(server, version)
	server.EncryptionConfig = withProvider(server.EncryptionConfig, operatorv1alpha1.EncryptionProviderAESCBC)
}

func enableAnonymousAuthentication(server *operatorv1alpha1.KubeAPIServer, version string) {
	kubernetes, err := versions.ParseKubernetes(version)
	if err != nil {
		return // validation refuses the version
	}
	if !kubernetes.AtLeast(anonymousForbiddenFrom) {
		setDefault(&server.EnableAnonymousAuthentication, false)
		return
	}
	if set := server.EnableAnonymousAuthentication; set != nil && !*set {
		server.EnableAnonymousAuthentication = nil
	}
}

// withProvider returns the configuration with the provider if it has none.
func withProvider(
	config *operatorv1alpha1.EncryptionConfig, provider operatorv1alpha1.EncryptionProviderType,
) *operatorv1alpha1.EncryptionConfig {
	if config == nil {
		config = &operatorv1alpha1.EncryptionConfig{}
	}
	if config.Provider == nil {
		config.Provider = &operatorv1alpha1.EncryptionProvider{}
	}
	if config.Provider.Type == nil || *config.Provider.Type == "" {
		config.Provider.Type = &provider
	}
	return config
}

func setDefault[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}
