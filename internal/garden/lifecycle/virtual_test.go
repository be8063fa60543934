package lifecycle_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/lifecycle"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
	"github.com/espalier-dev/espalier/test/binary"
)

const apiServer = "virtual-garden-kube-apiserver"

// Names of tasks.
const (
	taskPreconditions = "Checking preconditions of virtual garden"
	taskAPIServer     = "Deploying Kubernetes API Server"
	taskRenewal       = "Renewing virtual garden access secrets after creation of new ServiceAccount signing key"
)

func (s *scene) apiServer() *appsv1.Deployment {
	s.t.Helper()
	d := &appsv1.Deployment{}
	s.Expect(s.admin.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace(), Name: apiServer}, d)).To(Succeed())
	return d
}

// mounted returns the name of the Secret or ConfigMap of a volume of kube-apiserver.
func (s *scene) mounted(volume string) string {
	s.t.Helper()
	for _, each := range s.apiServer().Spec.Template.Spec.Volumes {
		switch {
		case each.Name != volume:
		case each.Secret != nil:
			return each.Secret.SecretName
		case each.ConfigMap != nil:
			return each.ConfigMap.Name
		}
	}
	return ""
}

// servingCertificate returns the data of a Secret with a certificate.
func (s *scene) servingCertificate() map[string][]byte {
	s.t.Helper()
	data, err := secretconfig.Certificate{Name: "any", CommonName: "any", Type: secretconfig.CA}.Generate(s.source())
	s.Expect(err).NotTo(HaveOccurred())
	return map[string][]byte{"tls.crt": data["ca.crt"], "tls.key": data["ca.key"]}
}

func configured(change func(*operatorv1alpha1.KubeAPIServer)) func(*operatorv1alpha1.Garden) {
	return func(g *operatorv1alpha1.Garden) {
		server := &operatorv1alpha1.KubeAPIServer{}
		change(server)
		g.Spec.VirtualCluster.Kubernetes.KubeAPIServer = server
	}
}

func TestVirtualClusterWaitsForTheLoadBalancerAndForEtcds(t *testing.T) {
	s := newScene(t)
	s.stop("Service")
	s.stop("Etcd")
	s.create()
	done := s.begin()
	s.task("Deploying and waiting for kube-apiserver service in the runtime cluster", "Running", Equal(
		"Service virtual-garden-istio-ingress/istio-ingressgateway has no load balancer yet: its status.loadBalancer.ingress is empty",
	))
	s.Expect(s.exists(&corev1.Service{}, s.namespace(), apiServer)).To(BeTrue())
	s.heal("Service")
	s.task("Deploying Kubernetes API server service SNI", "Succeeded", BeEmpty())
	s.Expect(s.exists(&appsv1.Deployment{}, s.namespace(), apiServer)).To(BeFalse())
	s.stop("Deployment")
	s.heal("Etcd")
	s.task("Waiting until Kubernetes API server rolled out", "Running", HavePrefix(
		"Deployment garden/virtual-garden-kube-apiserver is not rolled out: observed generation outdated (0/1) ",
	))
	s.heal("Deployment")
	s.Eventually(done, binary.Patience).Should(Receive(BeNil()))
}

// New keys take seconds, for which kube-apiserver would wait.
func TestKeysAreGeneratedWhileEtcdsStart(t *testing.T) {
	s := newScene(t)
	s.stop("Etcd")
	s.create()
	done := s.begin()
	s.task("Generating keys of virtual garden", "Succeeded", BeEmpty())
	generated := s.privateKeys()
	s.Expect(generated).To(ContainElements("kube-apiserver", "service-account-key", "gardener-apiserver"))
	s.heal("Etcd")
	s.Eventually(done, binary.Patience).Should(Receive(BeNil()))
	s.Expect(s.privateKeys()).To(ConsistOf(generated))
}

// privateKeys returns the logical names of the managed Secrets with a private key.
func (s *scene) privateKeys() (names []string) {
	s.t.Helper()
	for _, each := range s.secrets("") {
		for key := range each.Data {
			if strings.HasSuffix(key, ".key") || key == "id_rsa" {
				names = append(names, each.Labels["name"])
			}
		}
	}
	return names
}

func TestEveryWrongReferenceIsNamedAndNothingOfTheVirtualClusterChanges(t *testing.T) {
	s := newInstalledScene(t)
	before := s.ours()
	key := func(kubeconfig string) map[string][]byte { return map[string][]byte{"kubeconfig": []byte(kubeconfig)} }
	for name, data := range map[string]map[string][]byte{
		"empty": {}, "malformed": key("["), "incomplete": key("{apiVersion: v1, kind: Config}"), "certificate": {"tls.crt": []byte("none")},
	} {
		s.Expect(s.admin.Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace(), Name: name}, Data: data,
		})).To(Succeed())
	}
	policy := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace(), Name: "policy"}, Data: map[string]string{"policy": "{}"},
	}
	s.Expect(s.admin.Create(t.Context(), policy)).To(Succeed())
	s.edit(configured(func(k *operatorv1alpha1.KubeAPIServer) {
		k.AuditConfig = &operatorv1alpha1.AuditConfig{
			AuditPolicy: &operatorv1alpha1.AuditPolicy{ConfigMapRef: &corev1.ObjectReference{Name: "policy"}},
		}
		k.AuditWebhook = &operatorv1alpha1.AuditWebhook{KubeconfigSecretName: "missing"}
		k.Authentication = &operatorv1alpha1.Authentication{Webhook: &operatorv1alpha1.AuthenticationWebhook{KubeconfigSecretName: "incomplete"}}
		k.AdmissionPlugins = []operatorv1alpha1.AdmissionPlugin{
			{Name: "ValidatingAdmissionWebhook", KubeconfigSecretName: ptr.To("malformed")},
			{Name: "MutatingAdmissionWebhook", KubeconfigSecretName: ptr.To("empty")},
		}
		k.SNI = &operatorv1alpha1.SNI{SecretName: ptr.To("certificate")}
	}))
	s.requests.Reset()
	_, err := s.reconcile()
	s.Expect(err).To(MatchError(ContainSubstring(`task "` + taskPreconditions + `" failed: `)))
	const path = "; correct it, or change spec.virtualCluster.kubernetes.kubeAPIServer."
	wrong := []string{
		"failed reading audit policy from referenced configmap garden/policy: the configmap's field 'policy' is malformed: ",
		path + "auditConfig.auditPolicy.configMapRef.name",
		"failed reading kubeconfig for audit webhook from referenced secret garden/missing: " +
			`it does not exist, and must have the key "kubeconfig"` + path + "auditWebhook.kubeconfigSecretName",
		"failed reading kubeconfig for authentication webhook from referenced secret garden/incomplete: " +
			"the secret's field 'kubeconfig' is malformed: it has no current-context" + path + "authentication.webhook.kubeconfigSecretName",
		"failed reading kubeconfig for admission plugin ValidatingAdmissionWebhook from referenced secret garden/malformed: " +
			"the secret's field 'kubeconfig' is malformed: it cannot be decoded as a kubeconfig" +
			path + "admissionPlugins[ValidatingAdmissionWebhook].kubeconfigSecretName",
		"failed reading kubeconfig for admission plugin MutatingAdmissionWebhook from referenced secret garden/empty: " +
			"the secret's field 'kubeconfig' is either not present or empty" +
			path + "admissionPlugins[MutatingAdmissionWebhook].kubeconfigSecretName",
		"failed reading certificate for server names from referenced secret garden/certificate: " +
			"the secret's field 'tls.key' is either not present or empty" + path + "sni.secretName",
	}
	g := s.get()
	for _, each := range wrong {
		s.Expect(g.Status.LastOperation.Description).To(ContainSubstring(each))
	}
	s.Expect(g.Status.Tasks).To(ContainElement(And(
		HaveField("Name", taskPreconditions), HaveField("State", BeEquivalentTo("Failed")),
		HaveField("WaitingFor", ContainSubstring(wrong[0])),
	)))
	s.event(And(HavePrefix(`Warning TaskFailed Task "`+taskPreconditions+`" failed: `), ContainSubstring(wrong[0])))
	s.Expect(s.requests.Writes()).To(HaveEach(HaveSuffix("/gardens/garden/status")))
	s.Expect(s.ours()).To(BeComparableTo(before))

	s.edit(func(g *operatorv1alpha1.Garden) { g.Spec.VirtualCluster.Kubernetes.KubeAPIServer = nil })
	s.mustReconcile()
}

func backedUp(g *operatorv1alpha1.Garden) {
	g.Spec.VirtualCluster.ETCD = &operatorv1alpha1.ETCD{Main: &operatorv1alpha1.ETCDMain{Backup: &operatorv1alpha1.Backup{
		Provider: "S3", SecretRef: corev1.LocalObjectReference{Name: "backup"},
	}}}
}

// backup sets the report of etcd-druid about backups of the main etcd.
func (s *scene) backup(status druidcorev1alpha1.ConditionStatus) {
	s.t.Helper()
	live := &druidcorev1alpha1.Etcd{}
	s.Expect(s.admin.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace(), Name: "virtual-garden-etcd-main"}, live)).To(Succeed())
	before := live.DeepCopy()
	now := metav1.NewTime(s.clock.Now())
	condition := druidcorev1alpha1.Condition{Message: "a message", LastTransitionTime: now, LastUpdateTime: now}
	updated, ready := condition, condition
	updated.Type, updated.Status = druidcorev1alpha1.ConditionTypeAllMembersUpdated, druidcorev1alpha1.ConditionTrue
	ready.Type, ready.Status = druidcorev1alpha1.ConditionTypeBackupReady, status
	live.Status.Conditions = []druidcorev1alpha1.Condition{updated, ready}
	s.Expect(s.admin.Status().Patch(s.t.Context(), live, client.MergeFrom(before))).To(Succeed())
}

// backups lets an etcd with the certificate of the Garden answer requests for snapshots. It returns a channel with the paths of the
// requests.
func (s *scene) backups() (paths chan string) {
	s.t.Helper()
	paths = make(chan string, 10)
	s.answer("etcd-server-main", func(_ http.ResponseWriter, r *http.Request) { paths <- r.Host + r.URL.String() })
	return paths
}

// answer lets a server with the certificate in a managed Secret, by its logical name, answer all requests of the operator to Services.
func (s *scene) answer(certificate string, handler http.HandlerFunc) {
	s.t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		list := &corev1.SecretList{}
		err := s.admin.List(context.Background(), list, client.MatchingLabels{"name": certificate})
		if err != nil || len(list.Items) != 1 {
			return nil, fmt.Errorf("%d Secrets: %w", len(list.Items), err)
		}
		pair, err := tls.X509KeyPair(list.Items[0].Data["tls.crt"], list.Items[0].Data["tls.key"])
		return &pair, err
	}}
	server.StartTLS()
	s.t.Cleanup(server.Close)
	s.reconciler.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
	}
}

// serve lets the virtual cluster serve resources of core.gardener.cloud, until the test ends.
func (s *scene) serve(virtual client.Client, kinds map[string]string) {
	s.t.Helper()
	for kind, version := range kinds {
		definition := gardenerDefinition(kind, version)
		// The deletion at the end of another test may go on.
		s.Eventually(func() error { return virtual.Create(s.t.Context(), definition) }, binary.Patience).Should(Succeed())
		s.t.Cleanup(func() { s.Expect(virtual.Delete(context.WithoutCancel(s.t.Context()), definition)).To(Succeed()) })
	}
	for kind, version := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: "core.gardener.cloud", Version: version, Kind: kind + "List"})
		s.Eventually(func() error { return virtual.List(s.t.Context(), list) }, binary.Patience).Should(Succeed())
	}
}

// serveSeeds lets the virtual cluster serve Seeds and Shoots.
func (s *scene) serveSeeds() {
	s.t.Helper()
	virtual := s.connect(s.virtual, nil)
	for _, kind := range []string{"Seed", "Shoot"} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: "core.gardener.cloud", Version: "v1beta1", Kind: kind + "List"})
		if virtual.List(s.t.Context(), list) == nil {
			continue
		}
		s.Expect(virtual.Create(s.t.Context(), gardenerDefinition(kind, "v1beta1"))).To(Succeed())
		s.Eventually(func() error { return virtual.List(s.t.Context(), list) }, binary.Patience).Should(Succeed())
	}
}

// createSeed creates a Seed that is gone when the test ends.
func (s *scene) createSeed(virtual client.Client) client.Object {
	s.t.Helper()
	seed := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "core.gardener.cloud/v1beta1", "kind": "Seed", "metadata": map[string]any{"name": "local"},
	}}
	s.Expect(virtual.Create(s.t.Context(), seed)).To(Succeed())
	s.t.Cleanup(func() {
		s.Expect(client.IgnoreNotFound(virtual.Delete(context.WithoutCancel(s.t.Context()), seed))).To(Succeed())
	})
	return seed
}

// alwaysEncrypted are the kinds that gardener-apiserver always encrypts, with a version.
func alwaysEncrypted() map[string]string {
	return map[string]string{
		"ControllerDeployment": "v1", "ControllerRegistration": "v1beta1", "InternalSecret": "v1beta1", "ShootState": "v1beta1",
	}
}

func TestRotationOfTheEncryptionKeyWritesEncryptedObjectsAgain(t *testing.T) {
	const populated, labeled = "credentials.gardener.cloud/new-encryption-key-populated", "credentials.gardener.cloud/resources-labeled"
	const snapshotted, keyName = "credentials.gardener.cloud/etcd-snapshotted", "credentials.gardener.cloud/key-name"
	const snapshot = "virtual-garden-etcd-main-client.garden:8080/snapshot/full?final=true"
	s := newScene(t)
	virtual := s.connect(s.virtual, nil)
	s.serve(virtual, alwaysEncrypted())
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "encrypted"}}
	s.Expect(virtual.Create(t.Context(), secret)).To(Succeed())
	defer func() { s.Expect(virtual.Delete(t.Context(), secret)).To(Succeed()) }()
	// rewritten reports whether the Secret was written since it was read last.
	rewritten := func() bool {
		t.Helper()
		before := secret.ResourceVersion
		s.Expect(virtual.Get(t.Context(), client.ObjectKeyFromObject(secret), secret)).To(Succeed())
		return secret.ResourceVersion != before
	}
	snapshots := s.backups()
	s.create(backedUp)
	s.mustReconcile()
	s.Expect(rewritten()).To(BeFalse(), "kube-apiserver is new")
	encryption := BeComparableTo(
		&operatorv1alpha1.EncryptionAtRest{Provider: &operatorv1alpha1.EncryptionProviderStatus{Type: "aescbc"}},
	)
	s.Expect(s.get().Status.Credentials.EncryptionAtRest).To(encryption)
	lost := client.RawPatch(types.MergePatchType, []byte(`{"status":{"credentials":null}}`))
	s.Expect(s.admin.Status().Patch(t.Context(), s.get(), lost)).To(Succeed())
	s.mustReconcile()
	s.Expect(rewritten()).To(BeTrue(), "it was not known how it was encrypted")
	s.Expect(secret.Labels).NotTo(HaveKey(keyName))
	s.Expect(s.get().Status.Credentials.EncryptionAtRest).To(encryption)
	s.Expect(snapshots).To(Receive(Equal(snapshot)))
	s.Expect(s.apiServer().Annotations).NotTo(Or(HaveKey(labeled), HaveKey(snapshotted)))
	s.mustReconcile()
	s.Expect(rewritten()).To(BeFalse())

	before := s.mounted("etcd-encryption-secret")
	keys := func(secret string) []string {
		t.Helper()
		content := &corev1.Secret{}
		s.Expect(s.exists(content, s.namespace(), secret)).To(BeTrue())
		var names []string
		for line := range strings.Lines(string(content.Data["encryption-configuration.yaml"])) {
			if name, isKey := strings.CutPrefix(strings.TrimSpace(line), "- name: "); isKey {
				names = append(names, name)
			}
		}
		return names
	}
	s.Expect(keys(before)).To(HaveLen(1))

	s.clock.SetTime(start.Add(time.Hour))
	s.edit(annotated("gardener.cloud/operation", "rotate-etcd-encryption-key-start"))
	s.stop("Deployment")
	done := s.begin()
	s.task(taskAPIServer, "Running", ContainSubstring("is not rolled out: "))
	first := s.mounted("etcd-encryption-secret")
	s.Expect(keys(first)).To(HaveLen(2))
	s.Expect(keys(first)[0]).To(Equal(keys(before)[0]), "Pods read with the new key, and write with the old one")
	s.Expect(s.apiServer().Annotations).NotTo(HaveKey(populated))
	s.Expect(rewritten()).To(BeFalse(), "Pods still write with the old key")
	s.heal("Deployment")
	s.Eventually(done, binary.Patience).Should(Receive(BeNil()))
	second := s.mounted("etcd-encryption-secret")
	s.Expect(keys(second)).To(Equal([]string{keys(first)[1], keys(first)[0]}))
	s.Expect(s.apiServer().Annotations).To(And(
		HaveKeyWithValue(populated, "true"), HaveKeyWithValue(labeled, "true"), HaveKeyWithValue(snapshotted, "true"),
	))
	s.Expect(rewritten()).To(BeTrue())
	keySecret, digest, _ := strings.Cut(secret.Labels[keyName], ".")
	s.Expect(s.exists(&corev1.Secret{}, s.namespace(), keySecret)).To(BeTrue())
	s.Expect(keySecret).To(HavePrefix("kube-apiserver-etcd-encryption-key-"))
	s.Expect(digest).NotTo(BeEmpty())
	s.Expect(snapshots).To(Receive(Equal(snapshot)))
	s.mustReconcile()
	s.Expect(s.mounted("etcd-encryption-secret")).To(Equal(second))
	s.Expect(rewritten()).To(BeFalse())

	s.edit(annotated("gardener.cloud/operation", "rotate-etcd-encryption-key-complete"))
	s.mustReconcile()
	s.Expect(keys(s.mounted("etcd-encryption-secret"))).To(Equal(keys(second)[:1]))
	s.Expect(s.apiServer().Annotations).NotTo(Or(HaveKey(populated), HaveKey(labeled), HaveKey(snapshotted)))
	s.Expect(rewritten()).To(BeTrue())
	s.Expect(secret.Labels).NotTo(HaveKey(keyName))
	s.Expect(snapshots).NotTo(Receive())
	s.Expect(s.get().Status.Credentials.Rotation.ETCDEncryptionKey.Phase).To(BeEquivalentTo("Completed"))
}

func TestRotationOfTheEncryptionKeyDoesNotEndAtARefusedObject(t *testing.T) {
	const keyName = "credentials.gardener.cloud/key-name"
	s := newInstalledScene(t)
	virtual := s.connect(s.virtual, nil)
	s.serve(virtual, alwaysEncrypted())
	refused := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", Labels: map[string]string{"refused": "true"}}}
	written := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b"}}
	webhook := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "refused"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "refused.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone),
			ClientConfig:   admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1")},
			ObjectSelector: &metav1.LabelSelector{MatchLabels: refused.Labels},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}},
			}},
		}},
	}
	for _, each := range []client.Object{refused, written, webhook} {
		s.Expect(virtual.Create(t.Context(), each)).To(Succeed())
		t.Cleanup(func() {
			s.Expect(client.IgnoreNotFound(virtual.Delete(context.WithoutCancel(t.Context()), each))).To(Succeed())
		})
	}
	touch := func() error {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))
		return virtual.Patch(t.Context(), refused, patch, client.DryRunAll)
	}
	s.Eventually(touch, binary.Patience).Should(MatchError(ContainSubstring("refused.example.com")))

	s.clock.SetTime(start.Add(time.Hour))
	s.edit(annotated("gardener.cloud/operation", "rotate-etcd-encryption-key-start"))
	_, err := s.reconcile()
	s.Expect(err).To(MatchError(ContainSubstring("the virtual cluster refuses to write 1 encrypted objects again; correct the objects, or " +
		"what refuses them: Secret default/a: ")))
	s.Expect(s.get().Status.Credentials.Rotation.ETCDEncryptionKey.Phase).To(BeEquivalentTo("Preparing"))
	s.Expect(s.apiServer().Annotations).NotTo(HaveKey("credentials.gardener.cloud/resources-labeled"))
	s.Expect(virtual.Get(t.Context(), client.ObjectKeyFromObject(written), written)).To(Succeed())
	s.Expect(written.Labels).To(HaveKey(keyName))

	s.Expect(virtual.Delete(t.Context(), webhook)).To(Succeed())
	s.Eventually(touch, binary.Patience).Should(Succeed())
	s.mustReconcile()
	s.Expect(s.get().Status.Credentials.Rotation.ETCDEncryptionKey.Phase).To(BeEquivalentTo("Prepared"))
	s.Expect(virtual.Get(t.Context(), client.ObjectKeyFromObject(refused), refused)).To(Succeed())
	s.Expect(refused.Labels).To(HaveKey(keyName))
}

func TestProviderThatIsChangedBackDuringItsRotationIsRefused(t *testing.T) {
	s := newInstalledScene(t)
	s.serve(s.connect(s.virtual, nil), alwaysEncrypted())
	provider := func(provider operatorv1alpha1.EncryptionProviderType) {
		s.edit(func(g *operatorv1alpha1.Garden) {
			g.Spec.VirtualCluster.Kubernetes.KubeAPIServer = &operatorv1alpha1.KubeAPIServer{}
			g.Spec.VirtualCluster.Kubernetes.KubeAPIServer.EncryptionConfig = &operatorv1alpha1.EncryptionConfig{
				Provider: &operatorv1alpha1.EncryptionProvider{Type: &provider},
			}
		})
	}
	provider(operatorv1alpha1.EncryptionProviderSecretbox)
	s.mustReconcile()
	s.Expect(s.get().Status.Credentials.Rotation.ETCDEncryptionKey.Phase).To(Equal(operatorv1alpha1.RotationPrepared))
	keys := s.mounted("etcd-encryption-secret")

	provider(operatorv1alpha1.EncryptionProviderAESCBC)
	_, err := s.reconcile()
	s.Expect(err).To(MatchError(ContainSubstring("provider cannot be changed while the ETCD encryption key rotation is not completed")))
	s.Expect(s.mounted("etcd-encryption-secret")).To(Equal(keys))

	provider(operatorv1alpha1.EncryptionProviderSecretbox)
	s.mustReconcile()
	s.Expect(s.get().Status.Credentials.Rotation.ETCDEncryptionKey.Phase).To(Equal(operatorv1alpha1.RotationCompleted))
	provider(operatorv1alpha1.EncryptionProviderAESCBC)
	s.mustReconcile()
}

func TestObjectsOfOtherEncryptedResourcesAreWrittenAgain(t *testing.T) {
	s := newInstalledScene(t)
	virtual := s.connect(s.virtual, nil)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "encrypted"}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "encrypted"}}
	for _, each := range []client.Object{object, secret} {
		s.Expect(virtual.Create(t.Context(), each)).To(Succeed())
		t.Cleanup(func() { s.Expect(virtual.Delete(context.WithoutCancel(t.Context()), each)).To(Succeed()) })
	}
	// reconciled reports whether the reconciliation has written an object, which keeps no label.
	reconciled := func(o client.Object) bool {
		t.Helper()
		before := o.GetResourceVersion()
		s.Expect(virtual.Get(t.Context(), client.ObjectKeyFromObject(o), o)).To(Succeed())
		s.Expect(o.GetLabels()).To(BeEmpty())
		return o.GetResourceVersion() != before
	}
	encrypt := func(resources ...string) {
		t.Helper()
		s.edit(func(g *operatorv1alpha1.Garden) {
			g.Spec.VirtualCluster.Kubernetes.KubeAPIServer = &operatorv1alpha1.KubeAPIServer{
				KubeAPIServerConfig: operatorv1alpha1.KubeAPIServerConfig{EncryptionConfig: &operatorv1alpha1.EncryptionConfig{Resources: resources}},
			}
		})
		s.mustReconcile()
		s.Expect(s.get().Status.Credentials.EncryptionAtRest.Resources).To(ConsistOf(resources))
	}
	encrypt("configmaps", "things.example.com") // no definition of the latter
	s.Expect(reconciled(object)).To(BeTrue())
	encrypt("configmaps", "things.example.com")
	s.Expect(reconciled(object)).To(BeFalse())

	s.edit(configured(func(*operatorv1alpha1.KubeAPIServer) {}))
	_, err := s.reconcile()
	s.Expect(err).To(MatchError(ContainSubstring("the virtual cluster does not serve the encrypted resource things.example.com; ")))
	s.Expect(virtual.Get(t.Context(), client.ObjectKeyFromObject(object), object)).To(Succeed(), "others are written")
	s.edit(annotated("espalier.dev/confirm-lost-resources", "things.example.com"))
	encrypt()
	s.Expect(reconciled(object)).To(BeTrue())
	s.Expect(reconciled(secret)).To(BeFalse())
}

func TestResourcesAreReadableForAllAPIServersBeforeTheyAreEncrypted(t *testing.T) {
	s := newInstalledScene(t)
	configuration := func() string {
		t.Helper()
		content := &corev1.Secret{}
		s.Expect(s.exists(content, s.namespace(), s.mounted("etcd-encryption-secret"))).To(BeTrue())
		return string(content.Data["encryption-configuration.yaml"])
	}
	s.edit(configured(func(k *operatorv1alpha1.KubeAPIServer) {
		k.EncryptionConfig = &operatorv1alpha1.EncryptionConfig{Resources: []string{"configmaps"}}
	}))
	s.stop("Deployment")
	done := s.begin()
	s.task(taskAPIServer, "Running", ContainSubstring("is not rolled out: "))
	s.Expect(configuration()).To(And(
		ContainSubstring("  - identity: {}\n  resources:\n  - secrets\n"), HaveSuffix("  resources:\n  - configmaps\n"),
	))
	s.Expect(s.apiServer().Annotations).NotTo(HaveKey("credentials.gardener.cloud/new-encryption-key-populated"))
	s.heal("Deployment")
	s.Eventually(done, binary.Patience).Should(Receive(BeNil()))
	s.Expect(configuration()).To(HaveSuffix("  - identity: {}\n  resources:\n  - configmaps\n  - secrets\n"))
	s.Expect(s.apiServer().Annotations).NotTo(HaveKey("credentials.gardener.cloud/new-encryption-key-populated"))
}

func TestRotationOfTheEncryptionKeyRemovesAnnotationsOfTheLastOne(t *testing.T) {
	const labeled, snapshotted = "credentials.gardener.cloud/resources-labeled", "credentials.gardener.cloud/etcd-snapshotted"
	s := newInstalledScene(t)
	s.Expect(s.admin.Patch(t.Context(), s.apiServer(), client.RawPatch(types.MergePatchType, fmt.Appendf(nil,
		`{"metadata":{"annotations":{%q:"true",%q:"true"}}}`, labeled, snapshotted,
	)))).To(Succeed())
	s.clock.SetTime(start.Add(time.Hour))
	s.edit(annotated("gardener.cloud/operation", "rotate-etcd-encryption-key-start"))
	s.reconciler.Connection.Tune = func(config *rest.Config) { config.CAData = []byte("no certificate") }
	s.reconciler.Connection.Forget()
	s.reconciler.Timing.Virtual.Connection = time.Millisecond
	_, err := s.reconcile()
	s.Expect(err).To(MatchError(ContainSubstring(`task "Initializing connection to virtual garden cluster" failed: `)))
	s.Expect(s.apiServer().Annotations).NotTo(Or(HaveKey(labeled), HaveKey(snapshotted)))
}

// Gardener's operator labels objects with the name of the key, which a user may have set in advance.
func TestOldEncryptionKeyIsDroppedWhenNothingNeedsIt(t *testing.T) {
	const populated, keyName = "credentials.gardener.cloud/new-encryption-key-populated", "credentials.gardener.cloud/key-name"
	const own, labeled = "espalier.dev/encryption-key", "credentials.gardener.cloud/resources-labeled"
	s := newScene(t)
	virtual := s.connect(s.virtual, nil)
	s.serve(virtual, alwaysEncrypted())
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "encrypted"}}
	s.Expect(virtual.Create(t.Context(), secret)).To(Succeed())
	defer func() { s.Expect(virtual.Delete(t.Context(), secret)).To(Succeed()) }()
	label := func() string {
		t.Helper()
		s.Expect(virtual.Get(t.Context(), client.ObjectKeyFromObject(secret), secret)).To(Succeed())
		return secret.Labels[keyName]
	}
	annotate := func(o client.Object, field, key string, value any) {
		t.Helper()
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{field: map[string]any{key: value}}})
		s.Expect(err).NotTo(HaveOccurred())
		c := s.admin
		if o == secret {
			c = virtual
		}
		s.Expect(c.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, patch))).To(Succeed())
	}
	snapshots := s.backups()
	s.create(backedUp)
	s.mustReconcile()
	s.clock.SetTime(start.Add(time.Hour))
	s.edit(annotated("gardener.cloud/operation", "rotate-etcd-encryption-key-start"))
	s.mustReconcile()
	want := label()
	name, _, _ := strings.Cut(want, ".")

	// Gardener's operator has begun the rotation.
	annotate(secret, "labels", keyName, name)
	annotate(s.apiServer(), "annotations", own, nil)
	preparing := s.get()
	preparing.Status.Credentials.Rotation.ETCDEncryptionKey.Phase = operatorv1alpha1.RotationPreparing
	s.Expect(s.admin.Status().Update(t.Context(), preparing)).To(Succeed())
	s.mustReconcile()
	s.Expect(label()).To(Equal(want))
	for range 2 {
		s.Expect(snapshots).To(Receive())
	}
	s.Expect(s.apiServer().Annotations).To(And(HaveKeyWithValue(own, name), HaveKeyWithValue(labeled, "true")))

	// An object has lost its label, and the Deployment the annotation NewKeyPopulated.
	two := s.mounted("etcd-encryption-secret")
	annotate(secret, "labels", keyName, nil)
	annotate(s.apiServer(), "annotations", populated, nil)
	s.edit(annotated("gardener.cloud/operation", "rotate-etcd-encryption-key-complete"))
	_, err := s.reconcile()
	s.Expect(err).To(MatchError(And(
		ContainSubstring("the old encryption key of virtual-garden-kube-apiserver is not dropped: "), ContainSubstring(populated),
	)))
	s.Expect(s.mounted("etcd-encryption-secret")).To(Equal(two))
	s.Expect(label()).To(BeEmpty())
	annotate(s.apiServer(), "annotations", populated, "true")
	before := secret.ResourceVersion
	s.mustReconcile()
	s.Expect(s.mounted("etcd-encryption-secret")).NotTo(Equal(two))
	s.Expect(label()).To(BeEmpty())
	s.Expect(secret.ResourceVersion).NotTo(Equal(before), "it was written with the new key")
	s.Expect(snapshots).To(Receive(), "the last one was from before that write")
	s.Expect(s.apiServer().Annotations).NotTo(Or(HaveKey(populated), HaveKey(own), HaveKey(labeled)))
}

// A Pod on a node that does not answer may write with the old key. Without a Deployment, every Pod may.
func TestRotationWaitsForPodsThatMayStillRun(t *testing.T) {
	s := newInstalledScene(t)
	s.serve(s.connect(s.virtual, nil), alwaysEncrypted())
	remove := func(pod *corev1.Pod) {
		t.Helper()
		err := s.admin.Delete(context.WithoutCancel(t.Context()), pod, client.GracePeriodSeconds(0))
		s.Expect(client.IgnoreNotFound(err)).To(Succeed())
	}
	lost := func(name string, labels map[string]string) *corev1.Pod {
		t.Helper()
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace(), Name: name, Labels: labels},
			Spec:       corev1.PodSpec{NodeName: "lost", Containers: []corev1.Container{{Name: "none", Image: "none"}}},
		}
		s.Expect(s.admin.Create(t.Context(), pod)).To(Succeed())
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Reason: "NodeLost", Conditions: []corev1.PodCondition{
			{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue},
		}}
		s.Expect(s.admin.Status().Update(t.Context(), pod)).To(Succeed())
		t.Cleanup(func() { remove(pod) })
		return pod
	}
	// The stand-in for Deployments deletes the last Pods by name. On a node, they stay.
	kubernetes := lost("zz-kubernetes", s.apiServer().Spec.Selector.MatchLabels)
	gardener := lost("gardener", map[string]string{"app": "gardener", "role": "apiserver"})
	s.mustReconcile() // without a rotation, they do not count

	s.clock.SetTime(start.Add(time.Hour))
	s.edit(annotated("gardener.cloud/operation", "rotate-etcd-encryption-key-start"))
	done := s.begin()
	s.task(taskAPIServer, "Running", ContainSubstring("garden/zz-kubernetes on node lost"))
	remove(kubernetes)
	s.task("Deploying Gardener API Server", "Running", ContainSubstring("garden/gardener on node lost"))
	remove(gardener)
	s.Eventually(done, binary.Patience).Should(Receive(BeNil()))
}

func TestVersionOfTheVirtualClusterCannotSkipAMinorVersion(t *testing.T) {
	s := newScene(t)
	version := func(v string) func(*operatorv1alpha1.Garden) {
		return func(g *operatorv1alpha1.Garden) { g.Spec.VirtualCluster.Kubernetes.Version = v }
	}
	registry := prometheus.NewRegistry()
	s.reconciler.Metrics = lifecycle.NewMetrics(registry, s.admin)
	failing := func(check string) float64 { return samples(s.WithT, registry)["preflight_failing "+check] }
	s.backups()
	s.create(backedUp)
	s.mustReconcile()
	image := func() string { return s.apiServer().Spec.Template.Spec.Containers[0].Image }
	before := image()
	s.edit(version("1.35.0"))
	_, err := s.reconcile()
	s.Expect(err).To(MatchError(ContainSubstring("spec.virtualCluster.kubernetes.version is 1.35.0, but kube-apiserver has 1.33.1, " +
		"and an upgrade cannot skip a minor version; correct spec.virtualCluster.kubernetes.version")))
	s.Expect(image()).To(Equal(before))
	s.Expect(failing("kubernetes-version")).To(Equal(1.0))

	s.edit(version("1.34.0"))
	s.backup("False")
	_, err = s.reconcile()
	s.Expect(err).To(MatchError(ContainSubstring("backups of Etcd garden/virtual-garden-etcd-main fail: a message; repair them, or skip " +
		"this check with the annotation espalier.dev/skipped-checks=etcd-backup")))
	s.Expect(image()).To(Equal(before))
	s.Expect(failing("kubernetes-version")).To(Equal(0.0))
	s.Expect(failing("etcd-backup")).To(Equal(1.0))
	s.backup("True")
	s.mustReconcile()
	s.Expect(failing("etcd-backup")).To(Equal(0.0))
	s.Expect(image()).To(HaveSuffix(":v1.34.0"))
	s.edit(version("1.33.1"))
	_, err = s.reconcile()
	s.Expect(err).To(MatchError(ContainSubstring("a downgrade is not supported")))
	s.edit(annotated("espalier.dev/skipped-checks", "other, kubernetes-version"))
	s.mustReconcile()
	s.Expect(image()).To(Equal(before))

	s.edit(func(g *operatorv1alpha1.Garden) { g.Annotations = nil })
	s.edit(version("1.34.0"))
	s.reconciler.Timing.Virtual.APIServer = 2 * time.Second
	s.stop("Deployment")
	s.reconciler.Logs = func(_ context.Context, pod client.ObjectKey, lines int64) (string, error) {
		return fmt.Sprintf("%d lines of a Pod of %s", lines, pod.Namespace), nil
	}
	_, err = s.reconcile()
	s.Expect(err).To(MatchError(And(
		ContainSubstring(`task "Waiting until Kubernetes API server rolled out" failed: not done after 2s: `),
		ContainSubstring(", and the log of Pod virtual-garden-kube-apiserver-"), HaveSuffix(" ends with: 10 lines of a Pod of garden"),
	)))
	s.edit(version("1.35.0"))
	_, err = s.reconcile()
	s.Expect(err).To(MatchError(ContainSubstring("but kube-apiserver 1.34.0 is not rolled out: ")))
	s.heal("Deployment")
	s.reconciler.Timing.Virtual.APIServer = 0
	_, err = s.reconcile()
	s.Expect(err).To(MatchError(ContainSubstring("but kube-controller-manager still has 1.33.1; set it to 1.34.0 until")))
	s.edit(version("1.34.0"))
	s.mustReconcile()
	s.edit(version("1.35.0"))
	s.mustReconcile()
	s.Expect(image()).To(HaveSuffix(":v1.35.0"))
}

// A Pod that is terminating may still serve.
func TestRolloutIsCompleteWhenNoOldPodIsLeft(t *testing.T) {
	s := newInstalledScene(t)
	old := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace(), Name: "old", Labels: s.apiServer().Spec.Selector.MatchLabels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "none", Image: "none"}}},
	}
	s.Expect(s.admin.Create(t.Context(), old)).To(Succeed())
	done := s.begin()
	s.task("Waiting until Kubernetes API server rolled out", "Running", ContainSubstring("there are still non-terminated old pods"))
	s.Expect(s.admin.Delete(t.Context(), old)).To(Succeed())
	s.Eventually(done, binary.Patience).Should(Receive(BeNil()))
}

const (
	resourceManager     = "virtual-garden-gardener-resource-manager"
	taskResourceManager = "Deploying gardener-resource-manager for virtual garden"
	bootstrap           = "shoot-access-gardener-resource-manager-bootstrap"
)

// kubeconfigOf returns the name of the Secret with the kubeconfig of a Deployment of the resource manager.
func (s *scene) kubeconfigOf(name string) string {
	s.t.Helper()
	d := &appsv1.Deployment{}
	s.Expect(s.admin.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace(), Name: name}, d)).To(Succeed())
	for _, each := range d.Spec.Template.Spec.Volumes {
		switch {
		case each.Name != "kubeconfig":
		case each.Secret != nil:
			return each.Secret.SecretName
		default:
			return each.Projected.Sources[0].Secret.Name
		}
	}
	return ""
}

func TestVirtualClusterConsistsOfItsManagedResourcesAndDeployments(t *testing.T) {
	s := newInstalledScene(t)
	for name, keepsObjects := range map[string]bool{
		"shoot-core-kube-controller-manager": true, "shoot-core-gardener-resource-manager": false, "garden-system-virtual": false,
		"shoot-core-gardeneraccess": true,
	} {
		set := &resourcesv1alpha1.ManagedResource{}
		s.Expect(s.exists(set, s.namespace(), name)).To(BeTrue(), name)
		s.Expect(set.Spec.Class).To(BeNil(), name)
		s.Expect(set.Spec.KeepObjects).To(HaveValue(Equal(keepsObjects)), name)
		s.Expect(set.Spec.InjectLabels).To(Equal(map[string]string{"shoot.gardener.cloud/no-cleanup": "true"}), name)
	}
	for _, name := range []string{apiServer, "virtual-garden-kube-controller-manager", resourceManager, resourceManager + "-tokens"} {
		d := &appsv1.Deployment{}
		s.Expect(s.exists(d, s.namespace(), name)).To(BeTrue(), name)
		s.Expect(d.Labels).To(HaveKeyWithValue("gardener.cloud/role", "controlplane"), name)
	}
	access := &corev1.Secret{}
	s.Expect(s.exists(access, s.namespace(), "gardener")).To(BeTrue())
	s.Expect(string(access.Data["kubeconfig"])).To(And(
		ContainSubstring("server: https://api.example.com\n"), ContainSubstring("token: token\n"),
	))
}

func TestResourceManagerOfTheVirtualClusterGetsItsFirstTokenWithACertificate(t *testing.T) {
	s := newScene(t)
	s.stop("Secret")
	s.create()
	done := s.begin()
	s.task(taskResourceManager, "Running", Equal("Secret shoot-access-gardener-resource-manager has no token"))
	s.Expect(s.secrets(bootstrap)).To(HaveLen(1))
	for _, name := range []string{resourceManager, resourceManager + "-tokens"} {
		s.Expect(s.kubeconfigOf(name)).To(Equal(s.secrets(bootstrap)[0].Name))
	}
	s.Expect(s.set(s.namespace(), "garden-system-virtual")).To(BeFalse())
	s.heal("Secret")
	s.Eventually(done, binary.Patience).Should(Receive(BeNil()))
	for _, name := range []string{resourceManager, resourceManager + "-tokens"} {
		s.Expect(s.kubeconfigOf(name)).To(HavePrefix("generic-token-kubeconfig-"))
	}
	s.Expect(s.secrets(bootstrap)).To(BeEmpty())
}

func TestCertificateForTheFirstTokenIsRenewed(t *testing.T) {
	s := newScene(t)
	s.stop("Secret")
	s.reconciler.Timing.Virtual.Bootstrap, s.reconciler.Timing.Virtual.ControllerManager = 2*time.Second, 2*time.Second
	s.create()
	_, err := s.reconcile()
	s.Expect(err).To(MatchError(ContainSubstring("not done after 2s: Secret shoot-access-gardener-resource-manager has no token")))
	expired := s.kubeconfigOf(resourceManager)
	s.Expect(expired).To(HavePrefix(bootstrap))

	s.clock.SetTime(start.Add(11 * time.Minute))
	_, err = s.reconcile()
	s.Expect(err).To(HaveOccurred())
	s.Expect(s.kubeconfigOf(resourceManager)).To(And(HavePrefix(bootstrap), Not(Equal(expired))))
	s.heal("Secret")
	s.reconciler.Timing.Virtual.Bootstrap, s.reconciler.Timing.Virtual.ControllerManager = 0, 0
	s.mustReconcile()
	s.Expect(s.secrets(bootstrap)).To(BeEmpty())
}

// A Pod that is created before its token starts only when the kubelet tries again.
func TestControllerManagerIsDeployedWhenItHasItsToken(t *testing.T) {
	const name = "virtual-garden-kube-controller-manager"
	s := newScene(t)
	s.stop("Secret")
	s.create()
	done := s.begin()
	s.task("Deploying Kubernetes Controller Manager", "Running", Equal("there is no token in Secret "+
		"garden/shoot-access-kube-controller-manager yet, which the resource manager of the virtual cluster requests"))
	s.Expect(s.exists(&appsv1.Deployment{}, s.namespace(), name)).To(BeFalse())
	s.heal("Secret")
	s.Eventually(done, binary.Patience).Should(Receive(BeNil()))
	s.Expect(s.exists(&appsv1.Deployment{}, s.namespace(), name)).To(BeTrue())

	access := &corev1.Secret{}
	s.Expect(s.exists(access, s.namespace(), "shoot-access-kube-controller-manager")).To(BeTrue())
	access.Data = nil
	s.stop("Secret")
	s.Expect(s.admin.Update(t.Context(), access)).To(Succeed())
	s.mustReconcile() // a Deployment that exists does not wait
}

func TestLostTokenOfTheResourceManagerIsReplaced(t *testing.T) {
	for sentence, lose := range map[string]func(*corev1.Secret){
		"it is gone": func(access *corev1.Secret) { access.Data = nil },
		"it was not renewed": func(access *corev1.Secret) {
			access.Annotations["serviceaccount.resources.gardener.cloud/token-renew-timestamp"] = start.Add(-time.Hour).Format(time.RFC3339)
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newInstalledScene(t)
			access := &corev1.Secret{}
			s.Expect(s.exists(access, s.namespace(), "shoot-access-gardener-resource-manager")).To(BeTrue())
			lose(access)
			s.Expect(s.admin.Update(t.Context(), access)).To(Succeed())
			s.mustReconcile()
			s.Expect(s.exists(access, s.namespace(), access.Name)).To(BeTrue())
			s.Expect(access.Data).To(HaveKey("token"))
			s.Expect(s.kubeconfigOf(resourceManager)).To(HavePrefix("generic-token-kubeconfig-"))
			s.Expect(s.secrets(bootstrap)).To(BeEmpty())
		})
	}
}

func TestNewKeyForTokensIsPreparedWhenAllTokensAreRenewed(t *testing.T) {
	const renewal = "serviceaccount.resources.gardener.cloud/token-renew-timestamp"
	s := newInstalledScene(t)
	s.stop("Secret")
	s.edit(annotated("gardener.cloud/operation", "rotate-serviceaccount-key-start"))
	done := s.begin()
	s.task(taskRenewal, operatorv1alpha1.TaskRunning, ContainSubstring("gardener-internal"))
	for _, name := range []string{"gardener", "gardener-internal", "shoot-access-kube-controller-manager"} {
		access := &corev1.Secret{}
		s.Expect(s.exists(access, s.namespace(), name)).To(BeTrue())
		s.Expect(access.Annotations).NotTo(HaveKey(renewal), name)
	}
	s.Expect(s.secrets("service-account-key")).To(HaveLen(2))
	s.Expect(s.get().Status.Credentials.Rotation.ServiceAccountKey.Phase).To(Equal(operatorv1alpha1.RotationPreparing))
	s.heal("Secret")
	s.Eventually(done, binary.Patience).Should(Receive(BeNil()))
	s.Expect(s.get().Status.Credentials.Rotation.ServiceAccountKey.Phase).To(Equal(operatorv1alpha1.RotationPrepared))
}

func TestOperatorConnectsWhenItsKubeconfigHasAToken(t *testing.T) {
	s := newInstalledScene(t)
	access := &corev1.Secret{}
	s.Expect(s.exists(access, s.namespace(), "gardener-internal")).To(BeTrue())
	s.stop("Secret")
	s.Expect(s.admin.Delete(t.Context(), access)).To(Succeed())
	s.clock.SetTime(start.Add(time.Minute)) // after which the connection reads it again
	done := s.begin()
	s.task("Initializing connection to virtual garden cluster", "Running",
		Equal("token for virtual garden kubeconfig was not populated yet (see Secret garden/gardener-internal)"))
	s.heal("Secret")
	s.Eventually(done, binary.Patience).Should(Receive(BeNil()))
}

func TestVirtualClusterIsDeletedInOrder(t *testing.T) {
	s := newInstalledScene(t)
	s.requests.Reset()
	s.delete()
	s.mustReconcile()
	s.Expect(s.isGone()).To(BeTrue())
	set := func(name string) string {
		return "/apis/resources.gardener.cloud/v1alpha1/namespaces/garden/managedresources/" + name
	}
	deployment := func(name string) string { return "/apis/apps/v1/namespaces/garden/deployments/" + name }
	const kubeControllerManager = "virtual-garden-kube-controller-manager"
	writes := s.requests.Writes()
	for _, pair := range [][2]string{
		{set("garden-system-virtual"), set("shoot-core-kube-controller-manager")},
		{set("gardener-apiserver-virtual"), set("gardener-apiserver-runtime")},
		{set("gardener-apiserver-runtime"), set("garden-system-virtual")},
		{set("gardener-admission-controller-virtual"), set("gardener-admission-controller-runtime")},
		{set("gardener-admission-controller-runtime"), set("shoot-core-gardener-resource-manager")},
		{set("garden-system-virtual"), set("shoot-core-gardener-resource-manager")},
		{set("shoot-core-gardeneraccess"), set("shoot-core-gardener-resource-manager")},
		{set("shoot-core-kube-controller-manager"), deployment(kubeControllerManager)},
		{deployment(kubeControllerManager), set("shoot-core-gardener-resource-manager")},
		{set("shoot-core-gardener-resource-manager"), deployment(resourceManager)},
		{deployment(resourceManager), "/apis/networking.istio.io/v1beta1/namespaces/garden/gateways/" + apiServer},
		{"/apis/networking.istio.io/v1beta1/namespaces/garden/gateways/" + apiServer, "/api/v1/namespaces/garden/services/" + apiServer},
		{deployment(resourceManager + "-tokens"), deployment(apiServer)},
		{deployment(apiServer), "/apis/druid.gardener.cloud/v1alpha1/namespaces/garden/etcds/" + etcdMain},
		{"/apis/druid.gardener.cloud/v1alpha1/namespaces/garden/etcds/" + etcdMain, set("etcd-druid")},
		{"/api/v1/namespaces/garden/services/" + apiServer, set("etcd-druid")},
	} {
		first, second := slices.Index(writes, "DELETE "+pair[0]), slices.Index(writes, "DELETE "+pair[1])
		s.Expect(first).To(BeNumerically(">=", 0), pair[0])
		s.Expect(second).To(BeNumerically(">", first), "%s after %s", pair[1], pair[0])
	}
}

func TestSeedsAndShootsKeepTheGarden(t *testing.T) {
	s := newInstalledScene(t)
	virtual := s.connect(s.virtual, nil)
	seed := s.createSeed(virtual)
	before := s.ours()
	s.delete()
	_, err := s.reconcile()
	s.Expect(err).To(MatchError(ContainSubstring(
		`task "Ensuring no Seeds and Shoots exist in virtual garden" failed: the virtual garden still has Seeds, for example local; ` +
			"to delete the Garden in spite of that, set its annotation espalier.dev/skipped-checks=seeds-and-shoots",
	)))
	s.Expect(s.ours()).To(BeComparableTo(before))

	s.Expect(virtual.Delete(t.Context(), seed)).To(Succeed())
	s.mustReconcile()
	s.Expect(s.isGone()).To(BeTrue())
}

func TestVirtualClusterThatDoesNotAnswerKeepsTheGarden(t *testing.T) {
	s := newInstalledScene(t)
	s.virtual = &rest.Config{Host: "https://127.0.0.1:1"}
	s.reconciler.Connection.Forget()
	s.delete()
	_, err := s.reconcile()
	s.Expect(err).To(MatchError(And(ContainSubstring("connection refused"), ContainSubstring("; to delete the Garden in spite of that, "))))
	s.Expect(s.exists(&appsv1.Deployment{}, s.namespace(), apiServer)).To(BeTrue())
	s.edit(annotated("espalier.dev/skipped-checks", "seeds-and-shoots"))
	s.mustReconcile()
	s.Expect(s.isGone()).To(BeTrue())
}

// roundTripper answers requests.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A stale API server, or a proxy, answers that there are no Seeds. The ManagedResource that gives access is not applied at the moment, as
// before the first installation.
func TestAnswerNotFoundIsNoAnswerAboutSeeds(t *testing.T) {
	s := newScene(t)
	s.create()
	s.mustReconcile()
	s.stop("ManagedResource")
	access := &resourcesv1alpha1.ManagedResource{}
	s.Expect(s.exists(access, s.namespace(), "shoot-core-gardeneraccess")).To(BeTrue())
	before := access.DeepCopy()
	for i := range access.Status.Conditions {
		access.Status.Conditions[i].Status = corev1beta1.ConditionFalse
	}
	s.Expect(s.admin.Status().Patch(t.Context(), access, client.MergeFrom(before))).To(Succeed())
	s.virtual = rest.CopyConfig(s.virtual)
	s.virtual.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if !strings.HasSuffix(r.URL.Path, "/seeds") {
				return next.RoundTrip(r)
			}
			recorder := httptest.NewRecorder()
			http.NotFound(recorder, r)
			return recorder.Result(), nil
		})
	})
	s.reconciler.Connection.Forget()
	s.delete()
	_, err := s.reconcile()
	s.Expect(err).To(MatchError(And(
		ContainSubstring("list Seeds of the virtual garden: "), ContainSubstring("; to delete the Garden in spite of that, "),
	)))
	s.Expect(s.exists(&appsv1.Deployment{}, s.namespace(), apiServer)).To(BeTrue())
}

func TestVirtualClusterThatWasInstalledKeepsTheGardenWithoutItsAPIServer(t *testing.T) {
	s := newInstalledScene(t)
	s.Expect(s.admin.Delete(t.Context(), s.apiServer())).To(Succeed())
	s.delete()
	_, err := s.reconcile()
	s.Expect(err).To(MatchError(ContainSubstring("cannot be asked for Seeds and Shoots, because there is no Deployment of its " +
		"kube-apiserver; to delete the Garden in spite of that, ")))
	s.Expect(s.etcd(etcdMain)).NotTo(BeNil())
	s.edit(annotated("espalier.dev/skipped-checks", "seeds-and-shoots"))
	s.mustReconcile()
	s.Expect(s.isGone()).To(BeTrue())
}

func TestVirtualClusterWhoseAPIServerCannotStartIsAbandonedByItsName(t *testing.T) {
	s := newInstalledScene(t)
	s.edit(annotated("espalier.dev/skipped-checks", "seeds-and-shoots"))
	s.virtual = &rest.Config{Host: "https://127.0.0.1:1"}
	s.reconciler.Connection.Forget()
	s.reconciler.Timing.Limits.ManagedResources = 100 * time.Millisecond
	held := s.holdVirtualSets()
	ready := func(replicas int32) {
		t.Helper()
		deployment := s.apiServer()
		deployment.Status.Replicas, deployment.Status.ReadyReplicas = replicas, replicas
		s.Expect(s.admin.Status().Update(t.Context(), deployment)).To(Succeed())
	}
	s.stop("Deployment")
	ready(1)
	s.delete()
	const remedy = "to delete the Garden but not the objects in the virtual garden, set the annotation " +
		"espalier.dev/abandon-virtual-cluster=garden-1 "
	_, err := s.reconcile()
	s.Expect(err).To(MatchError(And(
		ContainSubstring("ManagedResource garden/gardener-apiserver-virtual"), Not(ContainSubstring(remedy)),
	)))
	ready(0)
	for _, value := range []string{"", "true", "garden"} {
		s.edit(annotated("espalier.dev/abandon-virtual-cluster", value))
		_, err = s.reconcile()
		s.Expect(err).To(MatchError(ContainSubstring(remedy)), value)
		s.Expect(s.get().Status.LastOperation.Description).To(ContainSubstring(remedy), value)
		s.Expect(s.etcd(etcdMain)).NotTo(BeNil())
	}

	s.edit(annotated("espalier.dev/abandon-virtual-cluster", "garden-1"))
	s.reconciler.Timing.Limits.ManagedResources = 0
	s.requests.Reset()
	s.mustReconcile()
	s.Expect(s.isGone()).To(BeTrue())
	writes := s.requests.Writes()
	last := slices.Index(writes, "DELETE /apis/apps/v1/namespaces/garden/deployments/"+resourceManager+"-tokens")
	for _, each := range held {
		path := "PUT /apis/resources.gardener.cloud/v1alpha1/namespaces/garden/managedresources/" + each
		s.Expect(slices.Index(writes, path)).To(BeNumerically(">", last), "%s while its resource manager runs", each)
	}
	s.expectNothingLeft()
	s.Expect(s.kept()).To(HaveLen(10))
}

// holdVirtualSets gives the ManagedResources of the virtual cluster the finalizer of their resource manager, and returns their names.
func (s *scene) holdVirtualSets() (names []string) {
	s.t.Helper()
	sets := &unstructured.UnstructuredList{}
	sets.SetGroupVersionKind(resourcesv1alpha1.SchemeGroupVersion.WithKind("ManagedResourceList"))
	s.Expect(s.admin.List(s.t.Context(), sets, client.InNamespace(s.namespace()))).To(Succeed())
	for _, each := range sets.Items {
		if _, runtime, _ := unstructured.NestedString(each.Object, "spec", "class"); !runtime {
			s.setFinalizers(each, `["resources.gardener.cloud/gardener-resource-manager"]`)
			names = append(names, each.GetName())
		}
	}
	s.Expect(len(names)).To(BeNumerically(">", 5))
	return names
}

func gardenerDefinition(kind, version string) *apiextensionsv1.CustomResourceDefinition {
	singular := strings.ToLower(kind)
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: singular + "s.core.gardener.cloud"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "core.gardener.cloud", Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural: singular + "s", Singular: singular, Kind: kind, ListKind: kind + "List",
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}},
			}},
		},
	}
}
