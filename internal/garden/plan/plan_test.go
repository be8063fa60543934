package plan

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/difference"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/garden/virtual"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	if text == "" {
		return nil
	}
	o := &unstructured.Unstructured{}
	NewWithT(t).Expect(yaml.Unmarshal([]byte(text), &o.Object)).To(Succeed())
	return o
}

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: garden, name: web}
spec:
  replicas: 1
  template:
    metadata: {annotations: {reference.resources.gardener.cloud/secret-1: login-1}}
    spec:
      containers: [{name: app, image: "example.com/app:1", args: ["--a=1", "--b"]}]
      volumes: [{name: login, projected: {sources: [{secret: {name: login-1}}, {configMap: {name: c}}]}}]
`

func TestRestartReasons(t *testing.T) {
	for name, tc := range map[string]struct {
		before, after string
		exact         bool
		want          []string
	}{
		"the number of replicas": {before: deployment, after: replace(deployment, "replicas: 1", "replicas: 2")},
		"an image": {
			before: deployment, after: replace(deployment, "app:1", "app:2"),
			want: []string{"image of container app: example.com/app:1 → example.com/app:2"},
		},
		"flags changed, added and removed": {
			before: deployment, after: replace(deployment, `"--a=1", "--b"`, `"--a=2", "--c=x"`),
			want: []string{
				"flag --a of container app: 1 → 2", "flag --b of container app: removed", "flag --c of container app: added x",
			},
		},
		"a Secret of a projected volume, with its reference": {
			before: deployment, after: replace(deployment, "login-1", "login-2"),
			want: []string{"Secret login-1 → login-2, file password"},
		},
		"another field": {
			before: deployment, after: replace(deployment, "image:", "tty: true, image:"),
			want: []string{"field spec.template.spec.containers[name=app].tty"},
		},
		"a default of the API server": {before: replace(deployment, "image:", "tty: false, image:"), after: deployment},
		"another number of members of an etcd": {
			before: "{kind: Etcd, apiVersion: druid.gardener.cloud/v1alpha1, spec: {replicas: 1}}",
			after:  "{kind: Etcd, apiVersion: druid.gardener.cloud/v1alpha1, spec: {replicas: 3}}",
		},
		"a quota of an etcd": {
			before: "{kind: Etcd, apiVersion: druid.gardener.cloud/v1alpha1, spec: {etcd: {quota: 8Gi}}}",
			after:  "{kind: Etcd, apiVersion: druid.gardener.cloud/v1alpha1, spec: {etcd: {quota: 4Gi}}}",
			want:   []string{"field spec.etcd.quota: 8Gi → 4Gi"},
		},
		"an image of a Prometheus": {
			before: "{kind: Prometheus, apiVersion: monitoring.coreos.com/v1, spec: {image: a, replicas: 1}}",
			after:  "{kind: Prometheus, apiVersion: monitoring.coreos.com/v1, spec: {image: b, replicas: 2}}",
			want:   []string{"field spec.image: a → b"},
		},
		"the configuration of a collector": {
			before: "{kind: OpenTelemetryCollector, apiVersion: opentelemetry.io/v1beta1, spec: {config: {level: info}}}",
			after:  "{kind: OpenTelemetryCollector, apiVersion: opentelemetry.io/v1beta1, spec: {config: {level: debug}}}",
			want:   []string{"field spec.config.level: info → debug"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			read := func(_, _, name string) map[string]any { return map[string]any{"password": name, "user": "me"} }
			NewWithT(t).Expect(restartReasons(object(t, tc.before), object(t, tc.after), tc.exact, read)).To(Equal(tc.want))
		})
	}
}

func replace(text, old, next string) string { return strings.ReplaceAll(text, old, next) }

// An object that is written twice is rolled out twice, and no Pods are replaced in the virtual cluster.
func TestRestartsCountRollouts(t *testing.T) {
	g := NewWithT(t)
	one, two := object(t, deployment), object(t, replace(deployment, "app:1", "app:2"))
	three := object(t, replace(deployment, "app:1", "app:3"))
	none := func(_, _, _ string) map[string]any { return nil }
	g.Expect(restartsOf([]history{
		{cluster: runtimeCluster, states: []*unstructured.Unstructured{one, two, two, three}, task: "a task"},
		{cluster: virtualCluster, states: []*unstructured.Unstructured{one, two}},
		{cluster: runtimeCluster, states: []*unstructured.Unstructured{nil, two}},
		{cluster: runtimeCluster, states: []*unstructured.Unstructured{one, nil}},
	}, none)).To(Equal([]Restart{{
		Kind: "Deployment", Namespace: "garden", Name: "web", Times: 2, Task: "a task", Reasons: []string{
			"image of container app: example.com/app:1 → example.com/app:2", "image of container app: example.com/app:2 → example.com/app:3",
		},
	}}))
}

func TestDecodeSetsDefaultsAndRefusesUnknownFields(t *testing.T) {
	g := NewWithT(t)
	text, err := os.ReadFile("../../../deploy/garden-operator/crds/operator.gardener.cloud_gardens.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	definition := &apiextensionsv1.CustomResourceDefinition{}
	g.Expect(yaml.Unmarshal(text, definition)).To(Succeed())
	file, err := os.ReadFile("../../../examples/garden.yaml")
	g.Expect(err).NotTo(HaveOccurred())

	garden, err := Decode([]byte(replace(string(file), "spec:\n", "spec:\n  # more\n")), definition)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(garden.Name).To(Equal("orchards"))
	g.Expect(garden.Spec.RuntimeCluster.Settings.VerticalPodAutoscaler.Enabled).To(HaveValue(BeTrue()))
	again := garden.DeepCopy()
	content, err := yaml.Marshal(again)
	g.Expect(err).NotTo(HaveOccurred())
	repeated, err := Decode(content, definition)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(repeated.Spec).To(BeComparableTo(garden.Spec))

	for wrong, message := range map[string]string{
		"release: 1.35.0": "the Garden has unknown fields: spec.virtualCluster.kubernetes.release",
		"version: 1.35.0\n      kubeAPIServer: {requests: {maxMutatingInflight: 1, max: 2}}": "kubernetes.kubeAPIServer.requests.max",
	} {
		_, err = Decode([]byte(replace(string(file), "version: 1.35.0", wrong)), definition)
		g.Expect(err).To(MatchError(ContainSubstring(message)))
	}
	_, err = Decode([]byte(string(file)+"\nspecs: {}\n"), definition)
	g.Expect(err).To(MatchError("the Garden has unknown fields: specs"))
	_, err = Decode([]byte("---\n"+string(file)+"\n---\n# nothing\n"), definition)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = Decode([]byte(string(file)+"\n---\n{apiVersion: v1, kind: Secret}\n"), definition)
	g.Expect(err).To(MatchError("the file has more than one document; it must have one Garden and nothing else"))
	_, err = Decode([]byte("{apiVersion: v1, kind: Secret}"), definition)
	g.Expect(err).To(MatchError("the file has kind Secret of v1; it must have one Garden of operator.gardener.cloud/v1alpha1"))
}

func TestNamespaceOfRestoreDrillsMustExistIfTheyRestoreData(t *testing.T) {
	g := NewWithT(t)
	g.Expect(namespacesOf(config.EspalierGardenBackup{Folder: "/backups"})).To(Equal([]string{"garden", "istio-system"}))
	g.Expect(namespacesOf(config.EspalierGardenBackup{Folder: "/backups", RestoreData: true})).
		To(Equal([]string{"garden", "istio-system", "garden-restore-drill"}))
}

// The reconciliation itself writes after its tasks, too.
func TestWritesAfterATaskBelongToNone(t *testing.T) {
	g := NewWithT(t)
	o := newOverlay(nil, nil)
	g.Expect(o.during("a task", func() error { g.Expect(o.task).To(Equal("a task")); return nil })).To(Succeed())
	g.Expect(o.task).To(BeEmpty())
}

// A plan with a refused operation must not look like one without effects.
func TestRefusedOperationsAreNoRemarks(t *testing.T) {
	g := NewWithT(t)
	s := &simulation{}
	for range 2 { // each pass may report it
		s.Eventf(nil, nil, "Warning", "OperationRefused", "Reconcile", "%s", "The operation rotate-ca-start is refused: etcds are not ready.")
		s.Eventf(nil, nil, "Warning", "AuthorityNotYetValid", "Reconcile", "rotate %s", "ca")
	}
	s.Eventf(nil, nil, "Warning", "TaskFailed", "Reconcile", "it is in the result")
	s.Eventf(nil, nil, "Normal", "RotationScheduled", "Reconcile", "soon")
	g.Expect(s.refused).To(Equal([]string{"The operation rotate-ca-start is refused: etcds are not ready."}))
	g.Expect(s.remarks).To(Equal([]string{"AuthorityNotYetValid: rotate ca"}))
}

func TestLosses(t *testing.T) {
	before, after := &operatorv1alpha1.Garden{}, &operatorv1alpha1.Garden{}
	before.Spec.VirtualCluster.DNS.Domains = []operatorv1alpha1.Domain{{Name: "example.com"}, {Name: "example.org"}}
	after.Spec.VirtualCluster.DNS.Domains = []operatorv1alpha1.Domain{{Name: "example.com"}}
	was, is := &operatorv1alpha1.KubeAPIServer{}, &operatorv1alpha1.KubeAPIServer{}
	before.Spec.VirtualCluster.Kubernetes.KubeAPIServer, after.Spec.VirtualCluster.Kubernetes.KubeAPIServer = was, is
	was.EncryptionConfig = &operatorv1alpha1.EncryptionConfig{Resources: []string{"configmaps"}}
	was.OIDCConfig = &operatorv1alpha1.OIDCConfig{} //nolint:staticcheck // Gardens may still have the deprecated field
	is.EncryptionConfig = &operatorv1alpha1.EncryptionConfig{Resources: []string{"roles.rbac.authorization.k8s.io"}}
	was.RuntimeConfig = map[string]bool{"apps/v1": true, "events.k8s.io/v1": true} // apps/v1 and batch/v1 are off by default
	is.RuntimeConfig = map[string]bool{"batch/v1": false, "events.k8s.io/v1": false}
	NewWithT(t).Expect(lossesOf(before, after)).To(Equal([]string{
		"API apps/v1 is not served any more",
		"API events.k8s.io/v1 is not served any more",
		"api.example.org and gardener.example.org: clients with these addresses in their kubeconfigs lose the connection",
		"encryption: objects of configmaps are written as plain text in etcd, and so in its backups",
		"encryption: objects of roles.rbac.authorization.k8s.io are written again; from then on they cannot be read without the encryption " +
			"key, also in backups",
		"users who authenticate with OpenID Connect (oidcConfig) cannot authenticate any more",
	}))
}

// If a domain or spec.dns is removed from a Garden, its DNSRecords are deleted.
func TestHostsOfDeletedRecordsAreLost(t *testing.T) {
	record := object(t, "{apiVersion: extensions.gardener.cloud/v1alpha1, kind: DNSRecord, metadata: {namespace: garden, name: a}, "+
		"spec: {name: api.example.com}}")
	NewWithT(t).Expect(lostHosts([]history{
		{states: []*unstructured.Unstructured{record, nil}},
		{states: []*unstructured.Unstructured{record, record}},
		{states: []*unstructured.Unstructured{object(t, deployment), nil}},
	})).To(Equal([]string{
		"api.example.com does not resolve any more, because DNSRecord garden/a is deleted: if clients still need this name, create a record of " +
			"your own",
	}))
}

func TestOnlyImagesThatNoWorkloadHasAreNew(t *testing.T) {
	prometheus := object(t, "{kind: Prometheus, apiVersion: monitoring.coreos.com/v1, spec: {image: example.com/p:1}}")
	NewWithT(t).Expect(imagesOf([]history{
		{cluster: runtimeCluster, states: []*unstructured.Unstructured{object(t, deployment), object(t, deployment)}},
		{cluster: runtimeCluster, states: []*unstructured.Unstructured{nil, object(t, deployment)}},
		{cluster: runtimeCluster, states: []*unstructured.Unstructured{
			object(t, deployment),
			object(t, replace(deployment, "containers:", "initContainers: [{name: i, image: 'example.com/init:1'}]\n      containers:")),
		}},
		{cluster: runtimeCluster, states: []*unstructured.Unstructured{nil, prometheus}},
		{cluster: virtualCluster, states: []*unstructured.Unstructured{nil, object(t, replace(deployment, "app:1", "app:2"))}},
	})).To(Equal([]string{"example.com/init:1", "example.com/p:1"}))
}

func TestRegistriesAreAskedForImages(t *testing.T) {
	g := NewWithT(t)
	p := Preflight{HasImage: func(_ context.Context, image string) (bool, error) {
		if strings.HasPrefix(image, "down.example.com") {
			return false, errors.New("no route to host")
		}
		return image == "example.com/a:1", nil
	}}
	f := &findings{}
	p.checkImages(t.Context(), f, []string{"down.example.com/a:1", "down.example.com/b:1", "example.com/a:1", "example.com/b:1"})
	g.Expect(f.all).To(Equal([]Finding{
		{"images", true, "registry example.com has no image example.com/b:1: push it, or configure another one"},
		{"images", false, "2 images of registry down.example.com cannot be found from here (no route to host): check that the Nodes can pull " +
			"them; --skip-images leaves this check out"},
	}))
	f = &findings{}
	Preflight{}.checkImages(t.Context(), f, []string{"example.com/b:1"})
	g.Expect(f.all).To(BeEmpty())
}

// The status has the ends of tasks only, so the time of a task begins when the last task ends that it depends on.
func TestTimesOfTasks(t *testing.T) {
	at := func(seconds int) metav1.Time {
		return metav1.NewTime(time.Date(2026, time.May, 1, 10, 0, seconds, 0, time.UTC))
	}
	tasks := []operatorv1alpha1.Task{
		{Name: "Deploying ETCD-related custom resource definitions", State: operatorv1alpha1.TaskSucceeded, Since: at(5)},
		{Name: "Deploying custom resource definitions for VPA", State: operatorv1alpha1.TaskSkipped, Since: at(1)},
		{Name: "Deploying and waiting for gardener-resource-manager to be healthy", State: operatorv1alpha1.TaskSucceeded, Since: at(25)},
		{Name: "Deploying ETCD Druid", State: operatorv1alpha1.TaskFailed, Since: at(30)},
	}
	NewWithT(t).Expect(durations(tasks)).To(Equal(map[string]time.Duration{
		"Deploying ETCD-related custom resource definitions":                4 * time.Second,
		"Deploying and waiting for gardener-resource-manager to be healthy": 20 * time.Second,
	}))
}

// The golden files show the plan as text and as JSON.
func TestText(t *testing.T) {
	took := 42.0
	for name, p := range map[string]*Plan{
		"nothing": {Garden: "orchards", Objects: []Object{}, Restarts: []Restart{}, Tasks: []Task{}},
		"refused": {
			Garden: "orchards", New: true, Refused: []string{"spec.virtualCluster.dns.domains: Required value"},
			Missing: []Finding{{"storage", true, "no StorageClass"}, {"dns", false, "api.example.com does not resolve"}},
		},
		"changes": {
			Garden: "orchards", Seconds: 125, Warnings: []string{"a field is deprecated"}, Lost: []string{"api.example.org"},
			Remarks: []string{"a task works in the virtual cluster"},
			Fields:  []difference.Field{{Path: "spec.a", Old: "1", New: "2"}},
			Objects: []Object{
				{
					Action: Change, APIVersion: "apps/v1", Kind: "Deployment", Namespace: "garden", Name: "web", Cluster: runtimeCluster, Task: "a",
					Fields: []difference.Field{{Path: "spec.b", New: "3"}}, MoreFields: 2,
				},
				{
					Action: Change, APIVersion: "v1", Kind: "Secret", Namespace: "garden", Name: "login", Cluster: runtimeCluster,
					Fields: []difference.Field{{Path: "data.password", Masked: "changed (3 bytes → 4 bytes)"}},
				},
				{Action: Create, APIVersion: "v1", Kind: "Namespace", Name: "x", Cluster: virtualCluster, Set: "garden/system"},
			},
			Restarts: []Restart{{Kind: "Deployment", Namespace: "garden", Name: "web", Times: 2, Reasons: []string{"flag --a", "image"}}},
			Tasks: []Task{
				{Name: "a", State: runs, Writes: 1, Seconds: &took},
				{Name: "b", State: runs},
				{Name: "c", State: skipped, Reason: "No."},
				{Name: "d", State: refused, Reason: "it is missing"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			document, err := p.JSON()
			g.Expect(err).NotTo(HaveOccurred())
			got := []byte(p.Text() + "\n# json\n" + document)
			file := filepath.Join("testdata", name+".txt")
			if *update {
				g.Expect(os.WriteFile(file, got, 0o600)).To(Succeed())
			}
			want, err := os.ReadFile(file)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(got)).To(Equal(string(want)))
		})
	}
}

// Without the virtual cluster, checks and rows have no result, and the plan must not look complete.
func TestPlanNamesWhatItDoesNotKnowWithoutTheVirtualCluster(t *testing.T) {
	NewWithT(t).Expect(unreachable(virtual.ErrNoToken)).To(Equal("The virtual cluster cannot be reached (token for virtual garden " +
		"kubeconfig was not populated yet): the plan has neither the result of the checks deprecated-apis and etcd-quota nor what depends " +
		"on its Seeds in prometheus-garden and global-monitoring."))
}
