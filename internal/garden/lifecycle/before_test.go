package lifecycle

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenerapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/judgement"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/garden/images"
	"github.com/espalier-dev/espalier/internal/garden/runtime"
	"github.com/espalier-dev/espalier/internal/garden/skew"
	"github.com/espalier-dev/espalier/internal/garden/validation"
	"github.com/espalier-dev/espalier/internal/garden/values"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// variant is a value of one or several fields of a Garden.
type variant struct {
	name  string
	apply func(*operatorv1alpha1.Garden)
}

// variants are values of the fields that rules for changes are about.
func variants() []variant {
	networking := func(change func(*operatorv1alpha1.RuntimeNetworking)) func(*operatorv1alpha1.Garden) {
		return func(g *operatorv1alpha1.Garden) { change(&g.Spec.RuntimeCluster.Networking) }
	}
	encrypted := func(provider operatorv1alpha1.EncryptionProviderType, resources ...string) func(*operatorv1alpha1.Garden) {
		return func(g *operatorv1alpha1.Garden) {
			config := &operatorv1alpha1.EncryptionConfig{Resources: resources}
			if provider != "" {
				config.Provider = &operatorv1alpha1.EncryptionProvider{Type: &provider}
			}
			g.Spec.VirtualCluster.Kubernetes.KubeAPIServer = &operatorv1alpha1.KubeAPIServer{}
			g.Spec.VirtualCluster.Kubernetes.KubeAPIServer.EncryptionConfig = config
		}
	}
	etcds := func(settings operatorv1alpha1.ETCD) func(*operatorv1alpha1.Garden) {
		return func(g *operatorv1alpha1.Garden) { g.Spec.VirtualCluster.ETCD = settings.DeepCopy() }
	}
	bucket := func(name *string) operatorv1alpha1.ETCD {
		return operatorv1alpha1.ETCD{Main: &operatorv1alpha1.ETCDMain{Backup: &operatorv1alpha1.Backup{
			Provider: "S3", BucketName: name, SecretRef: corev1.LocalObjectReference{Name: "backup"},
		}}}
	}
	domains := func(names ...string) (all []operatorv1alpha1.Domain) {
		for _, each := range names {
			all = append(all, operatorv1alpha1.Domain{Name: each})
		}
		return all
	}
	return []variant{
		{"plain", func(*operatorv1alpha1.Garden) {}},
		{"ingress domain", func(g *operatorv1alpha1.Garden) { g.Spec.RuntimeCluster.Ingress.Domains = domains("other.example.com") }},
		{"ingress domains", func(g *operatorv1alpha1.Garden) {
			g.Spec.RuntimeCluster.Ingress.Domains = domains("ingress.example.com", "a.b")
		}},
		{"nodes", networking(func(n *operatorv1alpha1.RuntimeNetworking) { n.Nodes = operatorv1alpha1.CIDRList{"10.11.0.0/16"} })},
		{"pods", networking(func(n *operatorv1alpha1.RuntimeNetworking) { n.Pods = operatorv1alpha1.CIDRList{"10.12.0.0/16"} })},
		{"more pods", networking(func(n *operatorv1alpha1.RuntimeNetworking) { n.Pods = append(n.Pods, "10.12.0.0/16") })},
		{"services", networking(func(n *operatorv1alpha1.RuntimeNetworking) { n.Services = operatorv1alpha1.CIDRList{"10.13.0.0/16"} })},
		{"blocked", networking(func(n *operatorv1alpha1.RuntimeNetworking) { n.BlockCIDRs = []string{"10.99.0.0/16"} })},
		{"domain", func(g *operatorv1alpha1.Garden) {
			g.Spec.VirtualCluster.DNS.Domains = domains("example.org", "example.com")
		}},
		{"domains", func(g *operatorv1alpha1.Garden) {
			g.Spec.VirtualCluster.DNS.Domains = domains("example.com", "example.org")
		}},
		{"virtual services", func(g *operatorv1alpha1.Garden) {
			g.Spec.VirtualCluster.Networking.Services = operatorv1alpha1.CIDRList{"100.96.0.0/13"}
		}},
		{"two virtual services", func(g *operatorv1alpha1.Garden) {
			g.Spec.VirtualCluster.Networking.Services = append(g.Spec.VirtualCluster.Networking.Services, "2001:DB8::/112")
		}},
		{"high availability", func(g *operatorv1alpha1.Garden) {
			g.Spec.VirtualCluster.ControlPlane = &operatorv1alpha1.ControlPlane{HighAvailability: &operatorv1alpha1.HighAvailability{}}
		}},
		{"a bucket", etcds(bucket(ptr.To("a")))},
		{"a folder in a bucket", etcds(bucket(ptr.To("a/b/c/")))},
		{"another bucket", etcds(bucket(ptr.To("b")))},
		{"the default bucket", etcds(bucket(ptr.To("garden-uid")))},
		{"a class of main", etcds(operatorv1alpha1.ETCD{Main: &operatorv1alpha1.ETCDMain{
			Storage: &operatorv1alpha1.Storage{ClassName: ptr.To("fast")},
		}})},
		{"a class of events", etcds(operatorv1alpha1.ETCD{Events: &operatorv1alpha1.ETCDEvents{
			Storage: &operatorv1alpha1.Storage{ClassName: ptr.To("fast")},
		}})},
		{"an earlier patch", func(g *operatorv1alpha1.Garden) { g.Spec.VirtualCluster.Kubernetes.Version = "1.33.0" }},
		{"an earlier minor", func(g *operatorv1alpha1.Garden) { g.Spec.VirtualCluster.Kubernetes.Version = "1.32.5" }},
		{"a later minor", func(g *operatorv1alpha1.Garden) { g.Spec.VirtualCluster.Kubernetes.Version = "1.34.0" }},
		{"two minors later", func(g *operatorv1alpha1.Garden) { g.Spec.VirtualCluster.Kubernetes.Version = "1.35.0" }},
		{"aescbc", encrypted(operatorv1alpha1.EncryptionProviderAESCBC)},
		{"secretbox", encrypted(operatorv1alpha1.EncryptionProviderSecretbox)},
		{"aesgcm", encrypted(operatorv1alpha1.EncryptionProviderAESGCM)},
		{"configmaps", encrypted("", "configmaps")},
		{"two resources", encrypted("", "deployments.apps", "configmaps")},
		{"configmaps with secretbox", encrypted(operatorv1alpha1.EncryptionProviderSecretbox, "configmaps")},
		{"shoots", func(g *operatorv1alpha1.Garden) {
			g.Spec.VirtualCluster.Gardener.APIServer = &operatorv1alpha1.GardenerAPIServer{
				EncryptionConfig: &operatorv1alpha1.EncryptionConfig{Resources: []string{"shoots.core.gardener.cloud"}},
			}
		}},
	}
}

// progress is a state of the reconciliation of a Garden, as its status shows it.
type progress struct {
	name  string
	apply func(*operatorv1alpha1.Garden)
}

// reconciledStatus is the status of a Garden after a reconciliation.
func reconciledStatus(g *operatorv1alpha1.Garden) {
	v, _ := values.New(g, values.Operator{})
	provider := operatorv1alpha1.EncryptionProviderAESCBC
	var resources []string
	if config := v.KubeAPIServer.EncryptionConfig; config != nil {
		resources = config.Resources
		if config.Provider != nil {
			provider = *config.Provider.Type
		}
	}
	if config := v.GardenerAPIServer.EncryptionConfig; config != nil {
		resources = slices.Concat(resources, config.Resources)
	}
	g.Status = operatorv1alpha1.GardenStatus{
		ObservedGeneration:  1,
		AdvertisedAddresses: advertisedAddresses(g),
		LastOperation:       &operatorv1alpha1.LastOperation{State: operatorv1alpha1.LastOperationSucceeded},
		Credentials: &operatorv1alpha1.Credentials{EncryptionAtRest: &operatorv1alpha1.EncryptionAtRest{
			Resources: resources, Provider: &operatorv1alpha1.EncryptionProviderStatus{Type: provider},
		}},
	}
}

func progresses() []progress {
	rotating := func(phase operatorv1alpha1.RotationPhase) func(*operatorv1alpha1.Garden) {
		return func(g *operatorv1alpha1.Garden) {
			reconciledStatus(g)
			g.Status.Credentials.Rotation = &operatorv1alpha1.CredentialsRotation{
				ETCDEncryptionKey: &operatorv1alpha1.ETCDEncryptionKeyRotation{
					Rotation: operatorv1alpha1.Rotation{Phase: phase, LastInitiationTime: ptr.To(metav1.Unix(1000, 0))},
				},
			}
		}
	}
	return []progress{
		{"reconciled", reconciledStatus},
		{"Preparing", rotating(operatorv1alpha1.RotationPreparing)},
		{"Prepared", rotating(operatorv1alpha1.RotationPrepared)},
		{"Completing", rotating(operatorv1alpha1.RotationCompleting)},
		{"Completed", rotating(operatorv1alpha1.RotationCompleted)},
		// The API servers are deployed, and the status does not name the encrypted resources yet.
		{"rolling out", func(g *operatorv1alpha1.Garden) {
			reconciledStatus(g)
			g.Status.Credentials.EncryptionAtRest.Resources = []string{"pods", "seeds.core.gardener.cloud"}
		}},
		{"changing the provider", func(g *operatorv1alpha1.Garden) {
			rotating(operatorv1alpha1.RotationPreparing)(g)
			g.Status.Credentials.EncryptionAtRest.Provider.Type = operatorv1alpha1.EncryptionProviderAESGCM
		}},
	}
}

// deployedBy returns the objects that a reconciliation of a Garden leaves in the cluster, built by the components.
func deployedBy(t *testing.T, g *operatorv1alpha1.Garden) deployed {
	t.Helper()
	expect := NewWithT(t)
	known, err := images.Embedded()
	expect.Expect(err).NotTo(HaveOccurred())
	v, err := values.New(g, values.Operator{Namespace: "garden", Images: known, Architecture: "amd64"})
	expect.Expect(err).NotTo(HaveOccurred())
	keys := []secretconfig.UsableEncryptionKey{{Provider: secretconfig.AESCBC, Name: "key1", Secret: "c2VjcmV0"}}
	find := func(objects []client.Object, name string) (s server) {
		for _, each := range objects {
			if deployment, is := each.(*appsv1.Deployment); is && deployment.Name == name {
				s.deployment = deployment
			}
		}
		for _, volume := range s.deployment.Spec.Template.Spec.Volumes {
			for _, each := range objects {
				if secret, is := each.(*corev1.Secret); is && volume.Name == "etcd-encryption-secret" && secret.Name == volume.Secret.SecretName {
					s.encryption = secret
				}
			}
		}
		expect.Expect(s.encryption).NotTo(BeNil())
		return s
	}
	kubernetes, err := kubeapiserver.Objects(v, kubeapiserver.Input{Secrets: kubeapiserver.Secrets{EncryptionKeys: keys}})
	expect.Expect(err).NotTo(HaveOccurred())
	gardener, err := gardenerapiserver.Objects(v, gardenerapiserver.Input{EncryptionKeys: keys})
	expect.Expect(err).NotTo(HaveOccurred())
	namespace, err := runtime.Namespace(v, g)
	expect.Expect(err).NotTo(HaveOccurred())
	content, err := json.Marshal(namespace)
	expect.Expect(err).NotTo(HaveOccurred())
	d := deployed{
		namespace: &corev1.Namespace{}, mainEtcd: etcd.Object(v, etcd.Main, etcd.Secrets{}, nil),
		kubernetes: find(kubernetes, kubeapiserver.Name),
		gardener:   find(append(gardener.Direct, gardener.Set...), gardenerapiserver.Name),
	}
	expect.Expect(json.Unmarshal(content, d.namespace)).To(Succeed())
	key := kubeapiserver.EncryptionKey(v).Config.(secretconfig.EncryptionKey) //nolint:errcheck // it has no other type
	label := ""
	if rotationOf(g) != nil {
		label = "1000"
	}
	d.keys = []corev1.Secret{{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"last-rotation-initiation-time": label}},
		Data:       map[string][]byte{"provider": []byte(key.Provider)},
	}}
	return d
}

// refused reports whether a reconciliation refuses a Garden at its start or in the tasks that compare versions and StorageClasses.
func refused(t *testing.T, g *operatorv1alpha1.Garden, d deployed, events *operatorv1alpha1.Garden) bool {
	t.Helper()
	expect := NewWithT(t)
	old, err := before(g, d)
	expect.Expect(err).NotTo(HaveOccurred())
	if validate(g, old) != nil {
		return true
	}
	v, err := values.New(g, values.Operator{})
	expect.Expect(err).NotTo(HaveOccurred())
	was, err := values.New(events, values.Operator{})
	expect.Expect(err).NotTo(HaveOccurred())
	current := skew.Kubernetes{APIServer: judgement.KubernetesVersion(d.kubernetes.deployment, kubeapiserver.Container)}
	return skew.CheckKubernetes(current, v.Kubernetes) != nil || etcd.StorageProblem(v, etcd.Main, d.mainEtcd) != "" ||
		etcd.StorageProblem(v, etcd.Events, etcd.Object(was, etcd.Events, etcd.Secrets{}, nil)) != ""
}

// For each pair of variants, and each state of the old one: the reconciler refuses the changes that the webhook denies, and no others.
func TestReconcilerRefusesTheChangesThatTheWebhookDenies(t *testing.T) {
	base := func(v variant) *operatorv1alpha1.Garden {
		g := &operatorv1alpha1.Garden{ObjectMeta: metav1.ObjectMeta{Name: "garden", UID: "uid"}}
		g.Spec.RuntimeCluster = operatorv1alpha1.RuntimeCluster{
			Ingress: operatorv1alpha1.Ingress{
				Domains: []operatorv1alpha1.Domain{{Name: "ingress.example.com"}}, Controller: operatorv1alpha1.IngressController{Kind: "nginx"},
			},
			Networking: operatorv1alpha1.RuntimeNetworking{
				Nodes: operatorv1alpha1.CIDRList{"10.1.0.0/16"}, Pods: operatorv1alpha1.CIDRList{"10.2.0.0/16"},
				Services: operatorv1alpha1.CIDRList{"10.3.0.0/16"},
			},
			Provider: operatorv1alpha1.Provider{Zones: []string{"a"}},
		}
		g.Spec.VirtualCluster = operatorv1alpha1.VirtualCluster{
			DNS:      operatorv1alpha1.DNS{Domains: []operatorv1alpha1.Domain{{Name: "example.com"}}},
			Gardener: operatorv1alpha1.Gardener{ClusterIdentity: "garden-1"}, Kubernetes: operatorv1alpha1.Kubernetes{Version: "1.33.1"},
			Maintenance: operatorv1alpha1.Maintenance{TimeWindow: operatorv1alpha1.MaintenanceTimeWindow{Begin: "220000+0100", End: "230000+0100"}},
			Networking:  operatorv1alpha1.VirtualNetworking{Services: operatorv1alpha1.CIDRList{"100.64.0.0/13"}},
		}
		v.apply(g)
		return g
	}
	pairs, denials := 0, 0
	var wrong []string
	for _, state := range progresses() {
		for _, from := range variants() {
			old := base(from)
			state.apply(old)
			d := deployedBy(t, old)
			for _, to := range variants() {
				updated := base(to)
				updated.Status = *old.Status.DeepCopy()
				denied := len(validation.Update(updated, old, nil)) > 0
				pairs++
				if denied {
					denials++
				}
				if refused(t, updated, d, old) != denied {
					wrong = append(wrong, fmt.Sprintf("%s: %s to %s, denied by the webhook: %t", state.name, from.name, to.name, denied))
				}
			}
		}
	}
	t.Logf("%d pairs, of which the webhook denies %d", pairs, denials)
	NewWithT(t).Expect(wrong).To(BeEmpty())
}
