package gardenlets_test

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	seedmanagementv1alpha1 "github.com/espalier-dev/espalier/api/seedmanagement/v1alpha1"
	"github.com/espalier-dev/espalier/internal/chart"
	"github.com/espalier-dev/espalier/internal/chart/charttest"
	"github.com/espalier-dev/espalier/internal/garden/charts"
	"github.com/espalier-dev/espalier/internal/garden/gardenlets"
	"github.com/espalier-dev/espalier/internal/garden/lifecycle"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

// TestMain makes the test binary the program of the sandbox, too.
func TestMain(m *testing.M) {
	os.Exit(binary.Serve(charts.Renderer(), func() int { return binary.WithOwnServer(m) }))
}

// scene is an API server in place of the runtime cluster and of the virtual cluster, a namespace in place of the namespace garden of both,
// and a reconciler with the rights of the operator.
type scene struct {
	*WithT
	t          *testing.T
	ctx        context.Context
	admin      client.WithWatch
	kubeconfig []byte
	config     *rest.Config
	requests   *binary.Requests // of the reconciler in the runtime cluster
	virtual    *binary.Requests // of the reconciler in the virtual cluster
	reconciler *gardenlets.Reconciler
	clock      *testclock.FakePassiveClock
	registry   *charttest.Registry
	namespace  string
}

const name = "cellar"

// clusterRoles are the ClusterRoles of the chart, and their bindings.
var clusterRoles = []string{
	"gardener.cloud:system:gardenlet", "gardener.cloud:system:gardenlet:apiserver-sni", "gardener.cloud:system:gardenlet:managed-istio",
}

func newScene(t *testing.T) *scene {
	t.Helper()
	g := NewWithT(t)
	servers, err := local.ForTests()
	g.Expect(err).NotTo(HaveOccurred())
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, operatorv1alpha1.AddToScheme, corev1beta1.AddToScheme, seedmanagementv1alpha1.AddToScheme,
	} {
		g.Expect(add(scheme)).To(Succeed())
	}
	s := &scene{
		WithT: g, t: t, ctx: t.Context(), kubeconfig: servers.Source.Kubeconfig, requests: &binary.Requests{}, virtual: &binary.Requests{},
		registry: charttest.NewRegistry(t),
	}
	s.admin, err = client.NewWithWatch(servers.Source.Config, client.Options{Scheme: scheme})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = binary.Install(s.ctx, s.admin, "deploy/garden-operator/crds/*.yaml",
		"deploy/project-controller/crds/core.gardener.cloud_seeds.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(client.IgnoreAlreadyExists(s.admin.Create(s.ctx, definition(t)))).To(Succeed())
	for _, list := range []client.ObjectList{
		&operatorv1alpha1.GardenList{}, &corev1beta1.SeedList{}, &seedmanagementv1alpha1.GardenletList{},
	} {
		g.Eventually(func() error { return s.admin.List(s.ctx, list) }, binary.Patience).Should(Succeed())
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "gardenlet-"}}
	g.Expect(s.admin.Create(s.ctx, namespace)).To(Succeed())
	s.namespace = namespace.Name
	s.config, err = binary.ConfigIn(s.ctx, s.admin, servers.Source.Config, "garden-operator", s.namespace,
		client.ObjectKey{Namespace: "garden", Name: "espalier-garden-operator-garden"}, s.requests)
	g.Expect(err).NotTo(HaveOccurred())
	s.Eventually(func() error { return s.read("ConfigMap", "kube-root-ca.crt") }, binary.Patience).Should(Succeed())
	t.Cleanup(func() {
		s.ctx = context.WithoutCancel(t.Context())
		g.Expect(binary.Unbind(s.ctx, s.admin, s.namespace)).To(Succeed())
		for _, each := range clusterRoles {
			s.erase(local.NewObject("rbac.authorization.k8s.io/v1", "ClusterRole", "", each, nil))
			s.erase(local.NewObject("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", each, nil))
		}
		s.erase(local.NewObject("scheduling.k8s.io/v1", "PriorityClass", "", "gardener-system-critical", nil))
	})
	s.clock = testclock.NewFakePassiveClock(time.Now())
	s.reconciler = s.newReconciler(servers.Source.Config)
	s.create("apiVersion: operator.gardener.cloud/v1alpha1\nkind: Garden\nmetadata: {name: garden}\nspec:" + gardenSpec)
	return s
}

func (s *scene) newReconciler(admin *rest.Config) *gardenlets.Reconciler {
	s.t.Helper()
	live, err := client.NewWithWatch(s.config, client.Options{Scheme: s.admin.Scheme()})
	s.Expect(err).NotTo(HaveOccurred())
	config := rest.CopyConfig(admin)
	config.Wrap(s.virtual.Wrap)
	virtual, err := client.NewWithWatch(config, client.Options{Scheme: clientgoscheme.Scheme})
	s.Expect(err).NotTo(HaveOccurred())
	sandbox := chart.NewSandbox()
	charttest.Ease(&sandbox.Memory, &sandbox.Time)
	return &gardenlets.Reconciler{
		Enabled: true, Connect: func(context.Context) (client.WithWatch, error) { return virtual, nil }, Client: live,
		Cluster: lifecycle.RuntimeCluster(live), Runtime: func(context.Context) (string, []string, error) { return "1.36.1", nil, nil },
		Charts: charts.Charts{Sandbox: sandbox, Kept: chart.NewCache(16)}, Image: "registry.example.com/gardenlet:v1", Clock: s.clock,
		Namespace: s.namespace,
	}
}

const gardenSpec = `
  runtimeCluster:
    ingress: {domains: [{name: ingress.example.com}], controller: {kind: nginx}}
    networking: {pods: [10.2.0.0/16], services: [10.3.0.0/16]}
    provider: {zones: [a]}
  virtualCluster:
    dns: {domains: [{name: example.com}]}
    gardener: {clusterIdentity: garden-1}
    kubernetes: {version: 1.36.1}
    maintenance: {timeWindow: {begin: 220000+0100, end: 230000+0100}}
    networking: {services: [100.64.0.0/13]}
`

// definition defines Gardenlets, as far as a test needs it: in the virtual cluster, gardener-apiserver serves them.
func definition(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	NewWithT(t).Expect(yaml.Unmarshal([]byte(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gardenlets.seedmanagement.gardener.cloud}
spec:
  group: seedmanagement.gardener.cloud
  scope: Namespaced
  names: {kind: Gardenlet, plural: gardenlets}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`), &o.Object)).To(Succeed())
	return o
}

// files are a chart with the kinds of objects, the names and the values of the chart of gardenlet.
func files() charttest.Files {
	const role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: "
	const labels = ", labels: {app: gardener, role: gardenlet}}\n"
	const refers = `roleRef: {apiGroup: rbac.authorization.k8s.io, name: "gardener.cloud:system:gardenlet", kind: `
	const account = "subjects: [{kind: ServiceAccount, name: {{ .Values.serviceAccountName }}, namespace: {{ .Release.Namespace }}}]\n"
	return charttest.Files{
		"values.yaml": "serviceAccountName: gardenlet\nimage: {repository: none, tag: latest}\nconfig: {logLevel: info}\n",
		"templates/clusterrole.yaml": `{{ range list "" ":apiserver-sni" ":managed-istio" }}---` + "\n" + role +
			"ClusterRole\nmetadata: {name: 'gardener.cloud:system:gardenlet{{ . }}'" + labels +
			"rules:\n- {apiGroups: [''], resources: [pods/exec], verbs: [create]}\n" +
			"- {apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles, roles], verbs: [bind, escalate]}\n{{ end }}",
		"templates/clusterrolebinding.yaml": `{{ range list "" ":apiserver-sni" ":managed-istio" }}---` + "\n" + role +
			"ClusterRoleBinding\nmetadata: {name: 'gardener.cloud:system:gardenlet{{ . }}'" + labels +
			"roleRef: {apiGroup: rbac.authorization.k8s.io, name: 'gardener.cloud:system:gardenlet{{ . }}', kind: ClusterRole}\n" +
			"subjects: [{kind: ServiceAccount, name: {{ $.Values.serviceAccountName }}, namespace: {{ $.Release.Namespace }}}]\n{{ end }}",
		"templates/role.yaml": role + "Role\nmetadata: {name: 'gardener.cloud:system:gardenlet', namespace: {{ .Release.Namespace }}" + labels +
			"rules:\n- {apiGroups: [apps], resources: [daemonsets], verbs: [create]}\n",
		"templates/rolebinding.yaml": role +
			"RoleBinding\nmetadata: {name: 'gardener.cloud:system:gardenlet', namespace: {{ .Release.Namespace }}" + labels + refers + "Role}\n" +
			account,
		"templates/account.yaml": "apiVersion: v1\nkind: ServiceAccount\n" +
			"metadata: {name: {{ .Values.serviceAccountName }}, namespace: {{ .Release.Namespace }}" + labels,
		"templates/config.yaml": "apiVersion: v1\nkind: ConfigMap\n" +
			"metadata: {name: gardenlet-config, namespace: {{ .Release.Namespace }}" + labels +
			"data: {config.yaml: {{ .Values.config | toJson | quote }}}\n",
		"templates/priorityclass.yaml": "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\n" +
			"metadata: {name: gardener-system-critical}\nvalue: 999998950\ndescription: a\n",
		"templates/policy.yaml": "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n" +
			"metadata: {name: allow-all-egress-from-gardenlet, namespace: {{ .Release.Namespace }}" + labels +
			"spec: {podSelector: {matchLabels: {role: gardenlet}}, egress: [{}], policyTypes: [Egress]}\n",
		"templates/budget.yaml": "apiVersion: policy/v1\nkind: PodDisruptionBudget\n" +
			"metadata: {name: gardenlet, namespace: {{ .Release.Namespace }}" + labels +
			"spec: {maxUnavailable: 1, selector: {matchLabels: {role: gardenlet}}}\n",
		"templates/service.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: gardenlet, namespace: {{ .Release.Namespace }}" + labels +
			"spec: {selector: {role: gardenlet}, ports: [{port: 2729}]}\n",
		"templates/bootstrap.yaml": "{{ with .Values.config.gardenClientConnection.bootstrapKubeconfig }}apiVersion: v1\nkind: Secret\n" +
			"metadata: {name: {{ .name }}, namespace: {{ .namespace }}" + labels + "data: {kubeconfig: {{ .kubeconfig | b64enc }}}\n{{ end }}",
		"templates/deployment.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: gardenlet, namespace: {{ .Release.Namespace }}" +
			labels + `spec:
  replicas: {{ .Values.replicaCount }}
  selector: {matchLabels: {role: gardenlet}}
  template:
    metadata:
      labels: {{ merge (dict "role" "gardenlet") (.Values.podLabels | default dict) | toJson }}
      annotations: {{ .Values.podAnnotations | default dict | toJson }}
    spec:
      serviceAccountName: {{ .Values.serviceAccountName }}
      priorityClassName: gardener-system-critical
      containers: [{name: gardenlet, image: "{{ .Values.image.repository }}:{{ .Values.image.tag }}"}]
      volumes:
      - {name: gardenlet-config, configMap: {name: gardenlet-config}}
      {{- with .Values.additionalVolumes }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
`,
	}
}

// push serves the chart with the tag v1 and further files, and creates the Secrets for the registry.
func (s *scene) push(more charttest.Files) {
	s.t.Helper()
	all := files()
	maps.Copy(all, more)
	s.registry.Push(s.t, "v1", charttest.Archive(s.t, all))
	s.Expect(client.IgnoreAlreadyExists(s.admin.Create(s.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "ca"}, Data: map[string][]byte{"bundle.crt": s.registry.CA()},
	}))).To(Succeed())
}

// gardenlet creates a Gardenlet whose chart is in the registry of the scene. Before that, it lets change edit the spec.
func (s *scene) gardenlet(change func(spec map[string]any)) {
	s.t.Helper()
	spec := map[string]any{}
	s.Expect(yaml.Unmarshal([]byte(`
deployment:
  replicaCount: 0
  helm: {ociRepository: {ref: "`+s.registry.Repository()+`:v1", caBundleSecretRef: {name: ca}}}
config:
  apiVersion: gardenlet.config.gardener.cloud/v1alpha1
  kind: GardenletConfiguration
  seedConfig: {spec: {provider: {type: local, region: local}}}
`), &spec)).To(Succeed())
	if change != nil {
		change(spec)
	}
	s.createObject(local.NewObject("seedmanagement.gardener.cloud/v1alpha1", "Gardenlet", s.namespace, name, map[string]any{"spec": spec}))
}

// create creates an object in YAML, and removes it when the test ends.
func (s *scene) create(text string) {
	s.t.Helper()
	o := &unstructured.Unstructured{}
	s.Expect(yaml.Unmarshal([]byte(text), &o.Object)).To(Succeed(), text)
	s.createObject(o)
}

func (s *scene) createObject(o client.Object) {
	s.t.Helper()
	s.Expect(s.admin.Create(s.ctx, o)).To(Succeed())
	s.t.Cleanup(func() { s.erase(o) })
}

func (s *scene) erase(o client.Object) {
	s.t.Helper()
	s.Expect(client.IgnoreNotFound(s.admin.Delete(context.Background(), o))).To(Succeed())
}

// seed creates the Seed of the Gardenlet.
func (s *scene) seed(status string) {
	s.t.Helper()
	s.create("apiVersion: core.gardener.cloud/v1beta1\nkind: Seed\nmetadata: {name: " + name + "}\n")
	seed := &corev1beta1.Seed{}
	s.Expect(s.admin.Get(s.ctx, client.ObjectKey{Name: name}, seed)).To(Succeed())
	seed.Status = &runtime.RawExtension{Raw: []byte(status)}
	s.Expect(s.admin.Status().Update(s.ctx, seed)).To(Succeed())
}

// read reads an object of the API groups v1 and apps/v1 in the namespace.
func (s *scene) read(kind, name string) error {
	version := "v1"
	if kind == "Deployment" {
		version = "apps/v1"
	}
	o := local.NewObject(version, kind, s.namespace, name, nil)
	return s.admin.Get(s.ctx, client.ObjectKeyFromObject(o), o)
}

func (s *scene) get() *seedmanagementv1alpha1.Gardenlet {
	s.t.Helper()
	g := &seedmanagementv1alpha1.Gardenlet{}
	s.Expect(s.admin.Get(s.ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, g)).To(Succeed())
	return g
}

// reconcile reconciles until a run writes nothing into either cluster. It returns the condition as "status reason: message", the result and
// the error of the last run.
func (s *scene) reconcile() (state string, result ctrl.Result, err error) {
	s.t.Helper()
	const enough = 4 // runs
	for range enough {
		s.requests.Reset()
		s.virtual.Reset()
		result, err = s.reconciler.Reconcile(s.ctx, ctrl.Request{NamespacedName: client.ObjectKey{Namespace: s.namespace, Name: name}})
		if len(s.requests.Writes())+len(s.virtual.Writes()) > 0 {
			continue
		}
		return s.condition(), result, err
	}
	s.t.Fatalf("each run writes something: %v %v", s.requests.Writes(), s.virtual.Writes())
	return "", ctrl.Result{}, nil
}

func (s *scene) condition() string {
	s.t.Helper()
	found := corev1beta1.GetCondition(s.get().Status.Conditions, seedmanagementv1alpha1.SeedRegistered)
	if found == nil {
		return ""
	}
	return string(found.Status) + " " + found.Reason + ": " + found.Message
}

// events returns the reasons of the Events about the Gardenlet.
func (s *scene) events() []string {
	s.t.Helper()
	list := &eventsv1.EventList{}
	s.Expect(s.admin.List(s.ctx, list, client.InNamespace(s.namespace))).To(Succeed())
	var reasons []string
	for _, each := range list.Items {
		if each.Regarding.Kind == "Gardenlet" && each.Regarding.Name == name {
			reasons = append(reasons, each.Reason)
		}
	}
	return reasons
}

// configuration returns the deployed GardenletConfiguration.
func (s *scene) configuration() map[string]any {
	s.t.Helper()
	configuration := &corev1.ConfigMap{}
	s.Expect(s.admin.Get(s.ctx, client.ObjectKey{Namespace: s.namespace, Name: "gardenlet-config"}, configuration)).To(Succeed())
	read := map[string]any{}
	s.Expect(json.Unmarshal([]byte(configuration.Data["config.yaml"]), &read)).To(Succeed())
	return read
}
