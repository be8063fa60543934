package extensionvalidation

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8syaml "sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/admission/review"
)

// The types of Kubernetes have struct tags for another decoder than ours.
func TestTypesOfKubernetesDecodeAsElsewhere(t *testing.T) {
	const text = `
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In, values: [b]}], matchFields: [{key: a, operator: Exists}]}]}
    preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: a, operator: Gt, values: ["1"]}]}}]
  podAffinity:
    requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: z, labelSelector: {matchLabels: {a: b}, matchExpressions: [{key: a, operator: In, values: [b]}]}, namespaces: [s], namespaceSelector: {}, matchLabelKeys: [k], mismatchLabelKeys: [m]}]
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution: [{weight: 100, podAffinityTerm: {topologyKey: z, labelSelector: null}}]
topologySpreadConstraints:
- {maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {a: b}}, minDomains: 3, nodeAffinityPolicy: Honor, nodeTaintsPolicy: Ignore, matchLabelKeys: [k]}
`
	g := NewWithT(t)
	want := etcdScheduling{}
	g.Expect(k8syaml.Unmarshal([]byte(text), &want)).To(Succeed())
	g.Expect(read[etcdScheduling](t, text)).To(Equal(&want))
	g.Expect(want.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].MismatchLabelKeys).To(Equal([]string{"m"}))

	const resources = "{limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 1.5, example.com/a: '3'}, claims: [{name: a, request: b}]}"
	needs := corev1.ResourceRequirements{}
	g.Expect(k8syaml.Unmarshal([]byte(resources), &needs)).To(Succeed())
	got := read[resourceNeeds](t, resources)
	g.Expect(equality.Semantic.DeepEqual(plain(got.Limits), needs.Limits)).To(BeTrue())
	g.Expect(equality.Semantic.DeepEqual(plain(got.Requests), needs.Requests)).To(BeTrue())
	g.Expect(got.Claims).To(Equal(needs.Claims))

	const meta = `{name: one, generateName: g, namespace: s, selfLink: l, uid: u, resourceVersion: "1", generation: 2,
		creationTimestamp: 2026-01-02T03:04:05Z, deletionTimestamp: 2026-01-02T03:04:06Z,
		deletionGracePeriodSeconds: 0, labels: {a: b}, annotations: {c: d},
		ownerReferences: [{apiVersion: v1, kind: K, name: one, uid: u, controller: true, blockOwnerDeletion: false}], finalizers: [f],
		managedFields: [{manager: m, operation: Apply, apiVersion: v1, time: 2026-01-02T03:04:05Z, fieldsType: FieldsV1,
		  fieldsV1: {"f:a": {}}, subresource: status}]}`
	known := metav1.ObjectMeta{}
	g.Expect(k8syaml.Unmarshal([]byte(meta), &known)).To(Succeed())
	g.Expect(read[metav1.ObjectMeta](t, meta)).To(Equal(&known))
}

func plain(list resourceList) corev1.ResourceList {
	plain := corev1.ResourceList{}
	for name, each := range list {
		plain[name] = each.Quantity
	}
	return plain
}

func TestQuantitiesAreOfSensibleSize(t *testing.T) {
	for text, fine := range map[string]bool{
		`1`: true, `"10E"`: true, `"1e3"`: true, `"1E-99"`: true, `"1.5Ei"`: true, `null`: true, `1e99`: true, `"1e+18"`: true,
		`1e100`: false, `1e-100`: false, `"9e-9999"`: false, `"1e007"`: false, `"1e-2000000000"`: false, `1E2000000000`: false,
		`"` + strings.Repeat("1", 254) + `"`: true, `"` + strings.Repeat("1", 255) + `"`: false,
	} {
		t.Run(text, func(t *testing.T) {
			err := review.Decode([]byte(`{"capacity":{"cpu":`+text+`}}`), &nodeTemplate{})
			if fine {
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
			} else {
				NewWithT(t).Expect(err).To(MatchError("capacity.cpu: quantities have at most 256 characters, and exponents of at most two digits"))
			}
		})
	}
}

func TestNullIsAbsent(t *testing.T) {
	g := NewWithT(t)
	g.Expect(read[workerSpec](t, "{type: null, providerConfig: null, region: null, secretRef: null, sshPublicKey: null, pools: null}")).
		To(Equal(&workerSpec{}))
	g.Expect(read[workerPool](t, "{machineType: null, maximum: null, maxSurge: null, maxUnavailable: null, annotations: null, labels: "+
		"null, taints: null, machineImage: null, minimum: null, "+
		"name: null, userData: null, volume: null, dataVolumes: null, kubeletDataVolumeName: null, zones: null, machineControllerManager: "+
		"null, providerConfig: null, kubernetesVersion: null, "+
		"nodeTemplate: null, architecture: null}")).To(Equal(&workerPool{}))
	g.Expect(read[etcdServer](t, "{quota: null, etcdDefragTimeout: null, resources: null, clientUrlTls: null, clientService: null}")).
		To(Equal(&etcdServer{}))
	g.Expect(read[fileContent](t, "{secretRef: null, inline: null, imageRef: null, transmitUnencoded: null}")).To(Equal(&fileContent{}))
	g.Expect(read[metav1.ObjectMeta](t,
		"{creationTimestamp: null, deletionTimestamp: null, managedFields: null, labels: null, finalizers: null}")).
		To(Equal(&metav1.ObjectMeta{}))
}

func TestBytes(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want opaqueBytes
	}{
		"absent":            {text: "{}"},
		"empty":             {text: `{userData: ""}`, want: opaqueBytes{}},
		"base64":            {text: `{userData: "aGk="}`, want: opaqueBytes("hi")},
		"base64 over lines": {text: `{userData: "aG\nk=\n"}`, want: opaqueBytes("hi")},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(read[workerPool](t, tc.text).UserData).To(Equal(tc.want)) })
	}
}
