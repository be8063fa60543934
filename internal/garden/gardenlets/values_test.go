package gardenlets

import (
	"encoding/json"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	seedmanagementv1alpha1 "github.com/espalier-dev/espalier/api/seedmanagement/v1alpha1"
)

// parse returns an object in YAML as the API server sends it.
func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	encoded, err := yaml.YAMLToJSON([]byte(text))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	read := map[string]any{}
	NewWithT(t).Expect(json.Unmarshal(encoded, &read)).To(Succeed())
	return read
}

func TestValues(t *testing.T) {
	for sentence, tc := range map[string]struct {
		deployment, config string
		in                 inputs
		want               string
	}{
		"the smallest Gardenlet in the runtime cluster": {
			deployment: "{helm: {}}", config: "{seedConfig: {spec: {}}}", in: inputs{isGarden: true, bootstrap: "text"},
			want: `{image: {repository: r, tag: v1}, podLabels: {
networking.resources.gardener.cloud/to-virtual-garden-kube-apiserver-tcp-443: allowed},
config: {seedConfig: {metadata: {name: cellar}, spec: {}}, leaderElection: {resourceNamespace: garden}, gardenClientConnection: {
gardenClusterAddress: "https://api.example.com", kubeconfigSecret: {namespace: garden, name: gardenlet-kubeconfig},
bootstrapKubeconfig: {namespace: garden, name: gardenlet-kubeconfig-bootstrap, kubeconfig: text}}}}`,
		},
		"everything, in another cluster": {
			deployment: `{helm: {}, replicaCount: 3, image: {tag: v2}, imageVectorOverwrite: a, componentImageVectorOverwrite: b,
podLabels: {c: d}, podAnnotations: {e: f}, env: [{name: g, value: h}]}`,
			config: `{seedConfig: {metadata: {name: other, labels: {i: j}}, spec: {backup: {credentialsRef: {apiVersion: v1, kind: Secret,
namespace: garden, name: backup}}}}, gardenClientConnection: {gardenClusterAddress: "https://k", qps: 5, kubeconfigSecret: {
namespace: garden, name: gardenlet-kubeconfig-l}, bootstrapKubeconfig: {namespace: garden, name: gardenlet-kubeconfig-m}},
logLevel: debug}`,
			in: inputs{backup: map[string][]byte{"b": []byte("2"), "a": []byte("1")}},
			want: `{replicaCount: 3, image: {repository: r, tag: v2}, imageVectorOverwrite: a, componentImageVectorOverwrites: b,
podLabels: {c: d}, podAnnotations: {e: f, checksum/seed-backup-secret: backup-33b67563}, env: [{name: g, value: h}],
config: {logLevel: debug, seedConfig: {metadata: {name: cellar, labels: {i: j}}, spec: {backup: {credentialsRef: {apiVersion: v1,
kind: Secret, namespace: garden, name: backup}}}}, leaderElection: {resourceNamespace: garden}, gardenClientConnection: {
gardenClusterAddress: "https://k", qps: 5, kubeconfigSecret: {namespace: garden, name: gardenlet-kubeconfig-l}}}}`,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			deployment, config := parse(t, tc.deployment), parse(t, tc.config)
			encoded, err := json.Marshal(config)
			g.Expect(err).NotTo(HaveOccurred())
			object := &seedmanagementv1alpha1.Gardenlet{}
			object.Spec.Config = runtime.RawExtension{Raw: encoded}
			s, err := settingsOf(object, "https://api.example.com", "garden")
			g.Expect(err).NotTo(HaveOccurred())
			tc.in.namespace, tc.in.image = "garden", "r:v1"
			values, err := valuesOf("cellar", deployment, config, s, tc.in)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(values).To(HaveLen(1))
			g.Expect(values[0]).To(MatchYAML(tc.want))
			g.Expect(deployment).To(Equal(parse(t, tc.deployment)))
			g.Expect(config).To(Equal(parse(t, tc.config)))
		})
	}
}

func TestImageOf(t *testing.T) {
	for sentence, tc := range map[string]struct{ given, reference, want string }{
		"a registry with a port": {"{}", "r:5000/a:v1", "{repository: 'r:5000/a', tag: v1}"},
		"a digest":               {"{}", "r:5000/a@sha256:0", "{repository: 'r:5000/a', tag: 'sha256:0'}"},
		"another repository":     {"{repository: b}", "a:v1", "{repository: b, tag: v1}"},
		"a whole image":          {"{ref: 'b:v2', pullPolicy: Always}", "a:v1", "{ref: 'b:v2', pullPolicy: Always}"},
	} {
		t.Run(sentence, func(t *testing.T) {
			NewWithT(t).Expect(imageOf(parse(t, tc.given), tc.reference)).To(Equal(parse(t, tc.want)))
		})
	}
}

// The admission of Gardener calculates the identifier, and parses the description.
func TestTokenIsTheOneThatGardenerExpects(t *testing.T) {
	g := NewWithT(t)
	object := &seedmanagementv1alpha1.Gardenlet{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "cellar"}}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	secret := tokenSecret(object, "0123456789abcdef", now)
	g.Expect(secret.Name).To(Equal("bootstrap-token-10fe5b"))
	g.Expect(secret.Data).To(HaveKeyWithValue("description", []byte(
		"A bootstrap token for the Gardenlet for seedmanagement.gardener.cloud/v1alpha1.Gardenlet resource garden/cellar.")))
	g.Expect(secret.Data).To(HaveKeyWithValue("expiration", []byte("2026-01-03T03:04:05Z")))
	g.Expect(isUsable(secret, now)).To(BeTrue())
	g.Expect(isUsable(secret, now.Add(24*time.Hour))).To(BeFalse())
	secret.Data["token-secret"] = []byte("short")
	g.Expect(isUsable(secret, now)).To(BeFalse())
}

func TestRequests(t *testing.T) {
	kept := func(name string, generation int64, operation string) *Watched {
		object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: name, Generation: generation, Annotations: map[string]string{"gardener.cloud/operation": operation, "a": operation},
		}}
		if found, is := keep(object); is {
			return &found
		}
		return nil
	}
	key := types.NamespacedName{Namespace: "garden", Name: "cellar"}
	for sentence, tc := range map[string]struct {
		before, after *Watched
		want          bool
	}{
		"a new Gardenlet":            {after: kept("a", 1, ""), want: true},
		"another spec":               {before: kept("a", 1, ""), after: kept("a", 2, ""), want: true},
		"an operation":               {before: kept("a", 1, ""), after: kept("a", 1, "force-redeploy"), want: true},
		"another status":             {before: kept("a", 1, ""), after: kept("a", 1, "")},
		"a Gardenlet that is gone":   {before: kept("a", 1, "")},
		"a Shoot that hosts itself":  {after: kept("self-hosted-shoot-a", 1, "")},
		"the prefix within the name": {after: kept("no-self-hosted-shoot-a", 1, ""), want: true},
	} {
		t.Run(sentence, func(t *testing.T) {
			found := requests(key, tc.before, tc.after)
			NewWithT(t).Expect(len(found) == 1 && found[0].NamespacedName == key).To(Equal(tc.want))
		})
	}
}
