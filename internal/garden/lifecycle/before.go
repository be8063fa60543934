package lifecycle

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenerapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/runtime"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/rollout"
	"github.com/espalier-dev/espalier/internal/secrets"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// deployed is the part of the cluster that shows the settings of the Garden at its last reconciliation. Objects that do not exist are nil.
type deployed struct {
	namespace *corev1.Namespace
	mainEtcd  *druidcorev1alpha1.Etcd
	// kubernetes and gardener are kube-apiserver and gardener-apiserver.
	kubernetes, gardener server
	// keys are the Secrets with encryption keys of kube-apiserver.
	keys []corev1.Secret
}

// server is an API server: its Deployment, and the Secret with the encryption configuration that it mounts.
type server struct {
	deployment *appsv1.Deployment
	encryption *corev1.Secret
}

// facts find the former values of fields for which there are rules about changes. Each of them restores one field in a copy of the Garden
// from its source: the part of the cluster that shows the value at the last reconciliation. If the source is missing, the field keeps its
// current value. Tasks check the changes of three other fields. One task compares the version of Kubernetes (the user can skip this) and
// resourcesToStoreInETCDEvents with Deployment virtual-garden-kube-apiserver. Another task compares StorageClasses with the Etcds.
//
// A removed bucketName is not restored, because the Etcd keeps the name of the bucket (field container). A condition or the error of a
// task names the missing field.
var facts = []struct {
	field   string
	restore func(before *operatorv1alpha1.Garden, d deployed) error
}{
	{"spec.runtimeCluster.ingress.domains[0]", restoreIngressDomain},
	{"spec.runtimeCluster.networking.{nodes,pods,services}", restoreRuntimeNetworks},
	{"spec.virtualCluster.dns.domains[0]", restoreDomain},
	{"spec.virtualCluster.networking.services", restoreServices},
	{"spec.virtualCluster.controlPlane.highAvailability", restoreHighAvailability},
	{"spec.virtualCluster.etcd.main.backup", restoreBackup},
	{"spec.virtualCluster.…encryptionConfig.resources", restoreEncryptedResources},
	{"spec.virtualCluster.…encryptionConfig.provider", restoreProvider},
}

// before returns the Garden with the values that its fields had at the last reconciliation, as far as the cluster shows them.
func before(g *operatorv1alpha1.Garden, d deployed) (*operatorv1alpha1.Garden, error) {
	old := g.DeepCopy()
	for _, each := range facts {
		if err := each.restore(old, d); err != nil {
			return nil, fmt.Errorf("find former value of %s: %w", each.field, err)
		}
	}
	return old, nil
}

func restoreIngressDomain(old *operatorv1alpha1.Garden, d deployed) error {
	rest, found := strings.CutPrefix(argument(d.gardener, "--workload-identity-token-issuer="), "https://discovery.")
	domain, isOurs := strings.CutSuffix(rest, "/garden/workload-identity/issuer")
	if found && isOurs {
		old.Spec.RuntimeCluster.Ingress.Domain = nil //nolint:staticcheck // the former form of the field must not win
		old.Spec.RuntimeCluster.Ingress.Domains = []operatorv1alpha1.Domain{{Name: domain}}
	}
	return nil
}

func restoreRuntimeNetworks(old *operatorv1alpha1.Garden, d deployed) error {
	if d.namespace == nil || d.namespace.Annotations[operatorv1alpha1.AnnotationRuntimeNetworks] == "" {
		return nil
	}
	var was runtime.Networks
	if err := json.Unmarshal([]byte(d.namespace.Annotations[operatorv1alpha1.AnnotationRuntimeNetworks]), &was); err != nil {
		return fmt.Errorf("read annotation %s of Namespace %s: %w; remove it", operatorv1alpha1.AnnotationRuntimeNetworks, d.namespace.Name, err)
	}
	networks := &old.Spec.RuntimeCluster.Networking
	networks.Nodes, networks.Pods, networks.Services = was.Nodes, was.Pods, was.Services
	return nil
}

func restoreDomain(old *operatorv1alpha1.Garden, _ deployed) error {
	for _, each := range old.Status.AdvertisedAddresses {
		if domain, found := strings.CutPrefix(each.URL, "https://api."); found && each.Name == virtualGardenAddress {
			old.Spec.VirtualCluster.DNS.Domains = []operatorv1alpha1.Domain{{Name: domain}}
		}
	}
	return nil
}

// restoreServices keeps the current text of a network if the former network is the same in another notation.
func restoreServices(old *operatorv1alpha1.Garden, d deployed) error {
	text := argument(d.kubernetes, "--service-cluster-ip-range=")
	if text == "" {
		return nil
	}
	is := old.Spec.VirtualCluster.Networking.Services
	was := operatorv1alpha1.CIDRList(strings.Split(text, ","))
	for i := range min(len(is), len(was)) {
		if parsed, err := netip.ParsePrefix(is[i]); err == nil && parsed.String() == was[i] {
			was[i] = is[i]
		}
	}
	old.Spec.VirtualCluster.Networking.Services = was
	return nil
}

func restoreHighAvailability(old *operatorv1alpha1.Garden, d deployed) error {
	if d.mainEtcd == nil || d.mainEtcd.Spec.Replicas <= 1 {
		return nil
	}
	cluster := &old.Spec.VirtualCluster
	if cluster.ControlPlane == nil {
		cluster.ControlPlane = &operatorv1alpha1.ControlPlane{}
	}
	if cluster.ControlPlane.HighAvailability == nil {
		cluster.ControlPlane.HighAvailability = &operatorv1alpha1.HighAvailability{}
	}
	return nil
}

func restoreBackup(old *operatorv1alpha1.Garden, d deployed) error {
	if d.mainEtcd == nil || d.mainEtcd.Spec.Backup.Store == nil {
		return nil
	}
	v, err := values.New(old, values.Operator{})
	if err != nil {
		return err
	}
	store := d.mainEtcd.Spec.Backup.Store
	bucket := ptr.Deref(store.Container, "")
	if above, found := strings.CutSuffix(store.Prefix, "/"+etcd.Main.Name()+"/etcd-main"); found {
		bucket += "/" + above
	}
	if v.ETCDMain.Backup == nil {
		settings := &old.Spec.VirtualCluster
		if settings.ETCD == nil {
			settings.ETCD = &operatorv1alpha1.ETCD{}
		}
		if settings.ETCD.Main == nil {
			settings.ETCD.Main = &operatorv1alpha1.ETCDMain{}
		}
		settings.ETCD.Main.Backup = &operatorv1alpha1.Backup{Provider: string(ptr.Deref(store.Provider, "")), BucketName: &bucket}
		return nil
	}
	wanted := etcd.Object(v, etcd.Main, etcd.Secrets{}, nil).Spec.Backup.Store
	same := ptr.Equal(wanted.Container, store.Container) && wanted.Prefix == store.Prefix
	if !same && ptr.Deref(v.ETCDMain.Backup.BucketName, "") != "" {
		old.Spec.VirtualCluster.ETCD.Main.Backup.BucketName = &bucket
	}
	return nil
}

func restoreEncryptedResources(old *operatorv1alpha1.Garden, d deployed) error {
	recorded := old.Status.EncryptionAtRest().Resources
	known := old.Status.Credentials != nil && old.Status.Credentials.EncryptionAtRest != nil || len(recorded) > 0
	kubernetes, err := encryptedBefore(d.kubernetes, apiserver.OfKubernetes(recorded), kubeapiserver.AlwaysEncrypted())
	if err != nil {
		return err
	}
	gardener, err := encryptedBefore(d.gardener, apiserver.OfGardener(recorded), gardenerapiserver.AlwaysEncrypted())
	if err != nil {
		return err
	}
	cluster := &old.Spec.VirtualCluster
	if known || d.kubernetes.encryption != nil {
		if cluster.Kubernetes.KubeAPIServer == nil {
			cluster.Kubernetes.KubeAPIServer = &operatorv1alpha1.KubeAPIServer{}
		}
		encryptionIn(&cluster.Kubernetes.KubeAPIServer.EncryptionConfig).Resources = kubernetes
	}
	if known || d.gardener.encryption != nil {
		if cluster.Gardener.APIServer == nil {
			cluster.Gardener.APIServer = &operatorv1alpha1.GardenerAPIServer{}
		}
		encryptionIn(&cluster.Gardener.APIServer.EncryptionConfig).Resources = gardener
	}
	return nil
}

func encryptionIn(config **operatorv1alpha1.EncryptionConfig) *operatorv1alpha1.EncryptionConfig {
	if *config == nil {
		*config = &operatorv1alpha1.EncryptionConfig{}
	}
	return *config
}

// encryptedBefore returns the resources that the last reconciliation asked an API server to encrypt, besides the resources that are
// encrypted for every Garden. These are the recorded resources, unless a change of the resources has begun. A change has begun if the
// server already encrypts a resource that is not recorded, or no longer encrypts a recorded resource.
func encryptedBefore(s server, recorded, always []string) ([]string, error) {
	if s.encryption == nil {
		return recorded, nil
	}
	encrypted, decrypted, err := secretconfig.ParseEncryptedResources(s.encryption.Data[secretconfig.DataKeyEncryptionConfiguration])
	if err != nil {
		return nil, fmt.Errorf("read Secret %s/%s: %w", s.encryption.Namespace, s.encryption.Name, err)
	}
	unrecorded := func(each string) bool { return !slices.Contains(recorded, each) }
	wanted := slices.DeleteFunc(encrypted, func(each string) bool { return slices.Contains(always, each) })
	if !slices.ContainsFunc(wanted, unrecorded) && !slices.ContainsFunc(decrypted, func(each string) bool { return !unrecorded(each) }) {
		return recorded, nil
	}
	// A resource that is neither recorded nor encrypted is going to be encrypted, when all Pods can read it.
	for _, each := range decrypted {
		if unrecorded(each) {
			wanted = append(wanted, each)
		}
	}
	return wanted, nil
}

func restoreProvider(old *operatorv1alpha1.Garden, d deployed) error {
	var provider operatorv1alpha1.EncryptionProviderType
	phase, began := rotation.PhasesOf(old)[rotation.ETCDEncryptionKey], ""
	if time, rotated := components.RotatedSecrets().Times(rotationOf(old))[kubeapiserver.EncryptionKeyName]; rotated {
		began = strconv.FormatInt(time.Unix(), 10)
	}
	_, recorded := providers(old)
	if phase == "" || phase == operatorv1alpha1.RotationCompleted {
		provider = recorded
	}
	for i := range d.keys { // a key is new enough even if the status does not have its provider yet
		if d.keys[i].Labels[secrets.LabelLastRotation] == began {
			used := operatorv1alpha1.EncryptionProviderType(d.keys[i].Data[secretconfig.DataKeyEncryptionProvider])
			provider = cmp.Or(used, operatorv1alpha1.EncryptionProviderAESCBC)
		}
	}
	if provider == "" {
		return nil
	}
	cluster := &old.Spec.VirtualCluster
	if cluster.Kubernetes.KubeAPIServer == nil {
		cluster.Kubernetes.KubeAPIServer = &operatorv1alpha1.KubeAPIServer{}
	}
	encryptionIn(&cluster.Kubernetes.KubeAPIServer.EncryptionConfig).Provider = &operatorv1alpha1.EncryptionProvider{Type: &provider}
	return nil
}

// argument returns the value of an argument of an API server with that beginning, "" if there is none.
func argument(s server, beginning string) string {
	if s.deployment == nil {
		return ""
	}
	for i := range s.deployment.Spec.Template.Spec.Containers {
		container := &s.deployment.Spec.Template.Spec.Containers[i]
		for _, each := range slices.Concat(container.Command, container.Args) {
			if value, found := strings.CutPrefix(each, beginning); found {
				return value
			}
		}
	}
	return ""
}

// readDeployed reads the part of the cluster that shows the settings of the Garden at its last reconciliation.
func (r *Reconciler) readDeployed(ctx context.Context) (d deployed, err error) {
	namespace := r.Operator.Namespace
	if d.namespace, err = rollout.Find(ctx, r.Client, "", namespace, &corev1.Namespace{}); err != nil {
		return d, err
	}
	if d.mainEtcd, err = rollout.Find(ctx, r.Client, namespace, etcd.Main.Name(), &druidcorev1alpha1.Etcd{}); err != nil {
		return d, err
	}
	if d.kubernetes, err = r.readServer(ctx, kubeapiserver.Name); err != nil {
		return d, err
	}
	if d.gardener, err = r.readServer(ctx, gardenerapiserver.Name); err != nil {
		return d, err
	}
	keys := &corev1.SecretList{}
	err = r.Client.List(ctx, keys, client.InNamespace(namespace), client.MatchingLabels{
		secrets.LabelManagedBy: secrets.ManagedBy, secrets.LabelManagerIdentity: SecretsIdentity,
		secrets.LabelName: kubeapiserver.EncryptionKeyName,
	})
	if err != nil {
		return d, fmt.Errorf("list encryption keys: %w", err)
	}
	d.keys = keys.Items
	return d, nil
}

func (r *Reconciler) readServer(ctx context.Context, name string) (s server, err error) {
	s.deployment, err = rollout.Find(ctx, r.Client, r.Operator.Namespace, name, &appsv1.Deployment{})
	if err != nil || s.deployment == nil {
		return s, err
	}
	if name := apiserver.EncryptionSecret(s.deployment); name != "" {
		s.encryption, err = rollout.Find(ctx, r.Client, r.Operator.Namespace, name, &corev1.Secret{})
	}
	return s, err
}
