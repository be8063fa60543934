package gardenlets_test

import (
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/espalier-dev/espalier/internal/chart/charttest"
	"github.com/espalier-dev/espalier/test/local"
)

const (
	waits     = "Progressing WaitingForSeed: Gardenlet deployed, waiting for Seed registration"
	isDone    = `True Reconciled: Gardenlet deployed and Seed "cellar" registered`
	kubeToken = "bootstrapKubeconfig"
)

func TestGardenletIsDeployedUntilItsSeedExists(t *testing.T) {
	s := newScene(t)
	s.registry.Password = "secret"
	s.push(charttest.Files{"templates/tests/a.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: a, annotations: {helm.sh/hook: test}}\n"})
	login := `{"auths": {"` + s.registry.Host() + `": {"username": "a", "password": "secret"}}}`
	s.Expect(s.admin.Create(s.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "login"}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(login)},
	})).To(Succeed())
	s.gardenlet(func(spec map[string]any) {
		s.Expect(unstructured.SetNestedField(spec, "login", "deployment", "helm", "ociRepository", "pullSecretRef", "name")).To(Succeed())
	})
	state, result, err := s.reconcile()
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(state).To(HavePrefix(waits))
	s.Expect(state).To(ContainSubstring("have no effect: "), "hooks are named")
	s.Expect(result.RequeueAfter).To(Equal(30 * time.Second))

	deployment := &appsv1.Deployment{}
	s.Expect(s.admin.Get(s.ctx, client.ObjectKey{Namespace: s.namespace, Name: "gardenlet"}, deployment)).To(Succeed())
	s.Expect(deployment.Spec.Template.Spec.Containers[0].Image).To(Equal("registry.example.com/gardenlet:v1"))
	s.Expect(deployment.Spec.Template.Labels).To(HaveKeyWithValue(
		"networking.resources.gardener.cloud/to-virtual-garden-kube-apiserver-tcp-443", "allowed"))
	configuration := s.configuration()
	s.Expect(configuration["seedConfig"]).To(HaveKeyWithValue("metadata", map[string]any{"name": name}))
	s.Expect(configuration["gardenClientConnection"]).To(HaveKeyWithValue("gardenClusterAddress", "https://api.example.com"))
	s.Expect(configuration["gardenClientConnection"]).To(HaveKeyWithValue(
		"kubeconfigSecret", map[string]any{"namespace": s.namespace, "name": "gardenlet-kubeconfig"}))

	bootstrap := &corev1.Secret{}
	s.Expect(s.admin.Get(s.ctx, client.ObjectKey{Namespace: s.namespace, Name: "gardenlet-kubeconfig-bootstrap"}, bootstrap)).To(Succeed())
	first, err := clientcmd.RESTConfigFromKubeConfig(bootstrap.Data["kubeconfig"])
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(first.Host).To(Equal("https://api.example.com"))
	s.Expect(first.CAData).NotTo(BeEmpty())
	token := &corev1.Secret{}
	inVirtual := client.ObjectKey{Namespace: "kube-system", Name: "bootstrap-token-" + first.BearerToken[:6]}
	s.Expect(s.admin.Get(s.ctx, inVirtual, token)).To(Succeed())
	t.Cleanup(func() { s.erase(token) })
	s.Expect(token.Type).To(BeEquivalentTo("bootstrap.kubernetes.io/token"))
	s.Expect(first.BearerToken).To(Equal(string(token.Data["token-id"]) + "." + string(token.Data["token-secret"])))
	s.Expect(string(token.Data["expiration"])).To(Equal(s.clock.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339)))

	moved := s.registry.Push(t, "v1", charttest.Archive(t, charttest.Files{"templates/a.yaml": "apiVersion: v1\nkind: Pod\n"}))
	s.Expect(s.get().Annotations["espalier.dev/chart"]).To(
		SatisfyAll(HavePrefix(s.registry.Repository()+":v1@sha256:"), Not(HaveSuffix(moved))))
	state, _, err = s.reconcile()
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(state).To(HavePrefix(waits), "a moved tag changes nothing")

	s.secret("gardenlet-kubeconfig", "-")
	_, _, err = s.reconcile()
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(s.configuration()["gardenClientConnection"]).NotTo(HaveKey(kubeToken), "gardenlet has its own kubeconfig")

	s.seed("{}")
	state, result, err = s.reconcile()
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(state).To(Equal(isDone))
	s.Expect(result.RequeueAfter).To(BeZero())
	s.Expect(s.events()).To(ConsistOf("Deployed", "Reconciled"))
	s.Expect(s.get().Status.ObservedGeneration).To(Equal(s.get().Generation))
}

// Until the Seed exists, the operator maintains the objects, with its own rights.
func TestObjectsAreRestoredWhileTheSeedIsAwaited(t *testing.T) {
	s := newScene(t)
	s.push(nil)
	s.gardenlet(nil)
	_, _, err := s.reconcile()
	s.Expect(err).NotTo(HaveOccurred())

	patch := func(version, kind, namespace, name, content string) {
		o := local.NewObject(version, kind, namespace, name, nil)
		s.Expect(s.admin.Patch(s.ctx, o, client.RawPatch("application/merge-patch+json", []byte(content)))).To(Succeed(), kind)
	}
	const rbac = "rbac.authorization.k8s.io/v1"
	for _, each := range clusterRoles {
		patch(rbac, "ClusterRole", "", each, `{"rules": []}`)
		patch(rbac, "ClusterRoleBinding", "", each, `{"subjects": []}`)
	}
	patch(rbac, "Role", s.namespace, clusterRoles[0], `{"rules": []}`)
	patch(rbac, "RoleBinding", s.namespace, clusterRoles[0], `{"subjects": []}`)
	patch("scheduling.k8s.io/v1", "PriorityClass", "", "gardener-system-critical", `{"description": "b"}`)
	patch("networking.k8s.io/v1", "NetworkPolicy", s.namespace, "allow-all-egress-from-gardenlet", `{"spec": {"egress": []}}`)
	patch("policy/v1", "PodDisruptionBudget", s.namespace, "gardenlet", `{"spec": {"maxUnavailable": 2}}`)

	s.requests.Reset()
	_, err = s.reconciler.Reconcile(s.ctx, ctrl.Request{NamespacedName: client.ObjectKey{Namespace: s.namespace, Name: name}})
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(s.requests.Writes()).To(HaveLen(11))
	for _, each := range clusterRoles {
		role := &rbacv1.ClusterRole{}
		s.Expect(s.admin.Get(s.ctx, client.ObjectKey{Name: each}, role)).To(Succeed())
		s.Expect(role.Rules).To(HaveLen(2))
	}
}

func TestATokenThatExpiredIsReplaced(t *testing.T) {
	s := newScene(t)
	s.push(nil)
	s.gardenlet(nil)
	tokens := func() string {
		bootstrap := &corev1.Secret{}
		s.Expect(s.admin.Get(s.ctx, client.ObjectKey{Namespace: s.namespace, Name: "gardenlet-kubeconfig-bootstrap"}, bootstrap)).To(Succeed())
		config, err := clientcmd.RESTConfigFromKubeConfig(bootstrap.Data["kubeconfig"])
		s.Expect(err).NotTo(HaveOccurred())
		return config.BearerToken
	}
	_, _, err := s.reconcile()
	s.Expect(err).NotTo(HaveOccurred())
	before := tokens()
	s.clock.SetTime(s.clock.Now().Add(25 * time.Hour))
	_, _, err = s.reconcile()
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(tokens()).To(HavePrefix(before[:7]))
	s.Expect(tokens()).NotTo(Equal(before))
}

func TestNothingIsDeployedUnlessConfigured(t *testing.T) {
	s := newScene(t)
	s.reconciler.Enabled = false
	s.push(nil)
	s.gardenlet(nil)
	state, _, err := s.reconcile()
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(state).To(SatisfyAll(HavePrefix("False DeploymentDisabled: "), ContainSubstring("espalier.garden.gardenlets")))
	s.Expect(s.events()).To(ConsistOf("GardenletFailed"))
	s.Expect(s.registry.Pulls()).To(BeZero())
	s.Expect(apierrors.IsNotFound(s.read("Deployment", "gardenlet"))).To(BeTrue())

	s.seed("{}")
	state, _, err = s.reconcile()
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(state).To(Equal(isDone))
}

func TestASeedThatTheOperatorHasNotDeployedIsLeftAlone(t *testing.T) {
	s := newScene(t)
	s.seed("{}")
	s.gardenlet(nil)
	state, result, err := s.reconcile()
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(state).To(BeEmpty())
	s.Expect(result.RequeueAfter).To(BeZero())
}

func TestMistakesAreNamedBeforeAnythingIsWritten(t *testing.T) {
	within := func(spec map[string]any, path ...string) map[string]any {
		for _, each := range path {
			next, ok := spec[each].(map[string]any)
			if !ok {
				next = map[string]any{}
				spec[each] = next
			}
			spec = next
		}
		return spec
	}
	for sentence, tc := range map[string]struct {
		change func(spec map[string]any)
		chart  charttest.Files
		before func(s *scene)
		want   string
		// again is true if the reconciler tries again without a change of the Gardenlet.
		again bool
	}{
		"no seedConfig": {
			change: func(spec map[string]any) { delete(within(spec, "config"), "seedConfig") }, want: "spec.config.seedConfig is missing",
		},
		"a configuration of another form": {
			change: func(spec map[string]any) { within(spec, "config")["gardenClientConnection"] = "a" },
			want:   "spec.config: decode GardenletConfiguration",
		},
		"a Secret of another program in place of the kubeconfig": {
			change: func(spec map[string]any) {
				within(spec, "config", "gardenClientConnection", "kubeconfigSecret")["name"] = "ca-client"
			},
			want: "kubeconfigSecret: the namespace must be",
		},
		"a Secret of another namespace in place of the first kubeconfig": {
			change: func(spec map[string]any) {
				secret := within(spec, "config", "gardenClientConnection", "bootstrapKubeconfig")
				secret["name"], secret["namespace"] = "gardenlet-kubeconfig-bootstrap", "kube-system"
			},
			want: "bootstrapKubeconfig: the namespace must be",
		},
		"a kubeconfig file of the operator": {
			change: func(spec map[string]any) {
				within(spec, "config", "gardenClientConnection")["kubeconfig"] = "/etc/passwd"
			},
			want: "gardenClientConnection.kubeconfig: the chart has no such file",
		},
		"a kubeconfig file for the Seed": {
			change: func(spec map[string]any) {
				within(spec, "config", "seedClientConnection")["kubeconfig"] = "/etc/passwd"
			},
			want: "seedClientConnection.kubeconfig: the chart has no such file",
		},
		"a chart without a tag": {
			change: func(spec map[string]any) {
				within(spec, "deployment", "helm")["ociRepository"] = map[string]any{"repository": "registry.example.com/a"}
			},
			want: "has neither ref nor repository with tag or digest",
		},
		"a backup whose Secret does not exist": {
			change: func(spec map[string]any) {
				within(spec, "config", "seedConfig", "spec", "backup")["credentialsRef"] = map[string]any{
					"apiVersion": "v1", "kind": "Secret", "namespace": "garden", "name": "absent",
				}
			},
			want: `spec.config.seedConfig.spec.backup.credentialsRef: secrets "absent" not found`, again: true,
		},
		"a Secret for the registry that does not exist": {
			change: func(spec map[string]any) {
				within(spec, "deployment", "helm", "ociRepository", "pullSecretRef")["name"] = "absent"
			},
			want: "does not exist; create it, or correct the name", again: true,
		},
		"files of the node": {
			change: func(spec map[string]any) {
				within(spec, "deployment")["additionalVolumes"] = []any{map[string]any{"name": "root", "hostPath": map[string]any{"path": "/"}}}
			},
			want: "hostPath uses files of the node",
		},
		"a ClusterRole of another name with the right to escalate": {
			chart: charttest.Files{"templates/more.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\n" +
				"metadata: {name: more}\nrules: [{apiGroups: [rbac.authorization.k8s.io], resources: [roles], verbs: [escalate]}]\n"},
			want: "has the verb escalate",
		},
		"a modest ClusterRole of another name": {
			chart: charttest.Files{"templates/more.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: more}\n"},
			want:  "ClusterRole more in shop/templates/more.yaml is not an object of gardenlet",
		},
		"a PriorityClass of another program": {
			chart: charttest.Files{"templates/more.yaml": "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\n" +
				"metadata: {name: more}\nvalue: 1\n"},
			want: "PriorityClass more in shop/templates/more.yaml is not an object of gardenlet",
		},
		"an object of another namespace": {
			chart: charttest.Files{"templates/more.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more, namespace: kube-system}\n"},
			want:  "metadata.namespace is not",
		},
		"the kubeconfig that gardenlet writes": {
			chart: charttest.Files{"templates/more.yaml": "apiVersion: v1\nkind: Secret\n" +
				"metadata: {name: gardenlet-kubeconfig, namespace: {{ .Release.Namespace }}}\n"},
			want: "metadata.name is reserved",
		},
		"a webhook": {
			chart: charttest.Files{"templates/more.yaml": "apiVersion: admissionregistration.k8s.io/v1\n" +
				"kind: MutatingWebhookConfiguration\nmetadata: {name: more}\n"},
			want: "kind is a webhook",
		},
		"the ServiceAccount of another program": {
			change: func(spec map[string]any) { within(spec, "deployment")["serviceAccountName"] = "other" },
			before: func(s *scene) {
				account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "other"}}
				s.Expect(s.admin.Create(s.ctx, account)).To(Succeed())
			},
			want: "ServiceAccount other exists already and is not part of gardenlet", again: true,
		},
		"the gardenlet of another Seed": {
			before: func(s *scene) {
				s.create(`{apiVersion: v1, kind: ConfigMap, metadata: {name: other, namespace: ` + s.namespace + `},
data: {config.yaml: "{seedConfig: {metadata: {name: vault}}}"}}`)
				s.create(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: gardenlet, namespace: ` + s.namespace + `},
spec: {replicas: 0, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {
containers: [{name: a, image: a}], volumes: [{name: gardenlet-config, configMap: {name: other}}]}}}}`)
			},
			want: `is the gardenlet of Seed "vault"`, again: true,
		},
		"a kubeconfig for the Seed that runs a program": {
			change: func(spec map[string]any) { spec["kubeconfigSecretRef"] = map[string]any{"name": "remote"} },
			before: func(s *scene) {
				s.secret("remote", "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}], "+
					"clusters: [{name: a, cluster: {server: 'https://a'}}], users: [{name: a, user: {exec: {command: touch, apiVersion: "+
					"client.authentication.k8s.io/v1, interactiveMode: Never}}}]}")
			},
			want: "has neither token nor client-certificate-data; nothing else is supported", again: true,
		},
		"a kubeconfig for the Seed that is none": {
			change: func(spec map[string]any) { spec["kubeconfigSecretRef"] = map[string]any{"name": "remote"} },
			before: func(s *scene) { s.secret("remote", "[") }, want: "key kubeconfig is not a kubeconfig", again: true,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newScene(t)
			s.push(tc.chart)
			if tc.before != nil {
				tc.before(s)
			}
			s.gardenlet(tc.change)
			state, _, err := s.reconcile()
			s.Expect(state).To(SatisfyAll(HavePrefix("False ReconcileError: "), ContainSubstring(tc.want)))
			s.Expect(errors.Is(err, reconcile.TerminalError(nil))).To(Equal(!tc.again), "%v", err)
			s.Expect(s.events()).To(ConsistOf("GardenletFailed"))
			s.Expect(apierrors.IsNotFound(s.read("ConfigMap", "gardenlet-config"))).To(BeTrue())
		})
	}
}

// secret creates a Secret with a kubeconfig in the namespace of the Gardenlet.
func (s *scene) secret(name, kubeconfig string) {
	s.t.Helper()
	s.Expect(s.admin.Create(s.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Data: map[string][]byte{"kubeconfig": []byte(kubeconfig)},
	})).To(Succeed())
}

func TestAUserCanHaveAGardenletDeployedAgain(t *testing.T) {
	s := newScene(t)
	s.push(nil)
	expired := s.clock.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	s.seed(`{"clientCertificateExpirationTimestamp": "` + expired + `"}`)
	s.secret("gardenlet-kubeconfig", "expired")
	s.gardenlet(nil)
	g := s.get()
	g.Annotations = map[string]string{
		"gardener.cloud/operation": "force-redeploy", "espalier.dev/chart": s.registry.Repository() + ":v1@sha256:0",
	}
	s.Expect(s.admin.Update(s.ctx, g)).To(Succeed())

	state, _, err := s.reconcile()
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(state).To(Equal(isDone))
	s.Expect(s.get().Annotations).NotTo(HaveKey("gardener.cloud/operation"))
	s.Expect(s.events()).To(ConsistOf("Deployed", "Reconciled"))
	s.Expect(s.read("Deployment", "gardenlet")).To(Succeed())
	s.Expect(apierrors.IsNotFound(s.read("Secret", "gardenlet-kubeconfig"))).To(BeTrue(), "its certificate expired")
	s.Expect(s.read("Secret", "gardenlet-kubeconfig-bootstrap")).To(Succeed())
}

func TestAGardenletIsDeployedIntoTheClusterOfAKubeconfig(t *testing.T) {
	s := newScene(t)
	s.push(nil)
	s.secret("remote", string(s.kubeconfig))
	s.gardenlet(func(spec map[string]any) { spec["kubeconfigSecretRef"] = map[string]any{"name": "remote"} })
	s.requests.Reset()
	state, _, err := s.reconcile()
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(state).To(Equal(waits))
	s.Expect(s.requests.Writes()).To(BeEmpty(), "the operator writes nothing with its own rights")
	s.Expect(s.read("Deployment", "gardenlet")).To(Succeed())
	s.Expect(s.read("Secret", "remote")).To(Succeed(), "the gardenlet has not registered its Seed")

	s.seed("{}")
	state, _, err = s.reconcile()
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(state).To(Equal(isDone))
	s.Expect(apierrors.IsNotFound(s.read("Secret", "remote"))).To(BeTrue())
	s.Expect(s.get().Spec.KubeconfigSecretRef).To(BeNil())
	s.Expect(s.get().Status.ObservedGeneration).To(Equal(s.get().Generation))
}
