package extensionobjects_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	extensionsv1alpha1 "github.com/espalier-dev/espalier/api/extensions/v1alpha1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/extensionobjects"
	"github.com/espalier-dev/espalier/internal/garden/goldentest"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

func plain() values.Values {
	domain := func(name, provider string) []operatorv1alpha1.Domain {
		return []operatorv1alpha1.Domain{{Name: name, Provider: &provider}}
	}
	config := &runtime.RawExtension{Raw: []byte(`{"kind":"Config"}`)}
	return values.Values{
		Operator: values.Operator{Namespace: "garden"}, GardenUID: "uid", Region: "here",
		DNS: &values.DNS{
			Providers: []operatorv1alpha1.DNSProvider{
				{Name: "first", Type: "local", SecretRef: corev1.LocalObjectReference{Name: "dns"}, ProviderConfig: config},
				{Name: "second", Type: "other", SecretRef: corev1.LocalObjectReference{Name: "dns-2"}},
			},
			Virtual: domain("virtual.example.com", "first"), Ingress: domain("runtime.example.com", "second"),
		},
		ETCDMain: operatorv1alpha1.ETCDMain{Backup: &operatorv1alpha1.Backup{
			Provider: "local", SecretRef: corev1.LocalObjectReference{Name: "backup"}, ProviderConfig: config,
		}},
	}
}

func TestObjectsAreAsInTheGoldenFiles(t *testing.T) {
	g := NewWithT(t)
	all := map[string][]client.Object{}
	for name, address := range map[string]string{"ipv4": "192.0.2.1", "ipv6": "2001:db8::1", "host-name": "lb.example.com"} {
		records, err := extensionobjects.DNSRecords(plain(), address)
		g.Expect(err).NotTo(HaveOccurred())
		for _, each := range records {
			all[name] = append(all[name], each)
		}
	}
	v, bucket := plain(), extensionobjects.BackupBucket(plain(), "garden-uid")
	all["backup"] = []client.Object{bucket, extensionobjects.BackupEntry(v, bucket)}
	v.ETCDMain.Backup.Region = ptr.To("there")
	other := extensionobjects.BackupBucket(v, "garden-uid")
	live := other.DeepCopy()
	live.Status.GeneratedSecretRef = &extensionsv1alpha1.SecretReference{Name: "generated"}
	live.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(`{"kind":"Status"}`)}
	all["backup-in-another-region"] = []client.Object{other, extensionobjects.BackupEntry(v, live)}
	v.Extensions = []operatorv1alpha1.GardenExtension{{Type: "a", ProviderConfig: v.ETCDMain.Backup.ProviderConfig}}
	for _, each := range extensionobjects.Extensions(v, nil) {
		all["extensions"] = append(all["extensions"], each.Extension)
	}
	goldentest.Compare(t, "", all)
}

func TestDNSRecordsNeedTheirProvider(t *testing.T) {
	g := NewWithT(t)
	v := plain()
	v.DNS.Providers = v.DNS.Providers[:1]
	_, err := extensionobjects.DNSRecords(v, "192.0.2.1")
	g.Expect(err).To(MatchError(`spec.dns.providers has no provider "second" for host *.runtime.example.com`))
	v = plain()
	v.DNS.Virtual = append(v.DNS.Virtual, operatorv1alpha1.Domain{Name: "virtual-example.com", Provider: ptr.To("first")})
	_, err = extensionobjects.DNSRecords(v, "192.0.2.1")
	g.Expect(err).To(MatchError("the hosts api.virtual.example.com and api.virtual-example.com would have the same DNSRecord " +
		"api-virtual-example-com-local"))
}

func TestStaleDNSRecords(t *testing.T) {
	g := NewWithT(t)
	wanted, err := extensionobjects.DNSRecords(plain(), "192.0.2.1")
	g.Expect(err).NotTo(HaveOccurred())
	live, err := extensionobjects.DNSRecords(plain(), "192.0.2.2")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(extensionobjects.StaleDNSRecords(wanted, live)).To(BeEmpty())
	live[0].Name, live[1].Spec.RecordType, live[2].Spec.Name = "former", extensionsv1alpha1.DNSRecordTypeCNAME, "former.example.com"
	g.Expect(extensionobjects.StaleDNSRecords(wanted, live)).To(Equal(live[:3]))
	g.Expect(extensionobjects.StaleDNSRecords(nil, live)).To(Equal(live))
}

func TestProblem(t *testing.T) {
	const requested = "annotations: {gardener.cloud/operation: reconcile}"
	for sentence, tc := range map[string]struct {
		metadata, status string
		want             string
		revision         string // of its Secret
		requests         bool   // whether the operator must request a reconciliation
	}{
		"a new object": {status: "{}", want: "its controller has not reconciled it yet", requests: true},
		"requested":    {metadata: requested, status: "{}", want: "no controller has begun to reconcile it"},
		"in progress": {
			status:   "{observedGeneration: 2, lastOperation: {state: Processing, description: d}}",
			requests: true, want: "its last operation is in state Processing: d",
		},
		"an old operation": {
			status:   "{observedGeneration: 1, lastOperation: {state: Succeeded}}",
			requests: true, want: "its controller has not reconciled it yet",
		},
		"an error": {
			status:   "{observedGeneration: 2, lastOperation: {state: Error}, lastError: {description: boom}}",
			requests: true, want: "its controller reports an error: boom",
		},
		"reconciled": {status: "{observedGeneration: 2, lastOperation: {state: Succeeded}}"},
		"reconciled, and requested again": {
			metadata: requested, status: "{observedGeneration: 2, lastOperation: {state: Succeeded}}",
			want: "no controller has begun to reconcile it",
		},
		"reconciled with the Secret": {
			metadata: "annotations: {espalier.dev/secret-revision: a}", revision: "a",
			status: "{observedGeneration: 2, lastOperation: {state: Succeeded}}",
		},
		"reconciled before the Secret changed": {
			metadata: "annotations: {espalier.dev/secret-revision: a}", revision: "b", requests: true,
			status: "{observedGeneration: 2, lastOperation: {state: Succeeded}}",
		},
		"reconciled before the Secret is gone": {
			metadata: "annotations: {espalier.dev/secret-revision: a}", status: "{observedGeneration: 2, lastOperation: {state: Succeeded}}",
		},
		"in deletion": {
			metadata: "deletionTimestamp: 2026-01-01T00:00:00Z", status: "{observedGeneration: 2, lastOperation: {state: Succeeded}}",
			want: "it is being deleted",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			live := &unstructured.Unstructured{}
			text := "{kind: DNSRecord, metadata: {generation: 2, " + tc.metadata + "}, status: " + tc.status + "}"
			g.Expect(yaml.Unmarshal([]byte(text), &live.Object)).To(Succeed())
			state, err := extensionobjects.StateOf(live)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(state.Problem()).To(Equal(tc.want))
			g.Expect(state.NeedsRequest(tc.revision)).To(Equal(tc.requests))
		})
	}
}

func TestExtensions(t *testing.T) {
	g := NewWithT(t)
	var available operatorv1alpha1.Extension
	g.Expect(yaml.UnmarshalStrict([]byte(`{spec: {resources: [{kind: DNSRecord, type: a}, {kind: Extension, type: b, autoEnable: [garden]},
		{kind: Extension, type: c, autoEnable: [shoot]}, {kind: Extension, type: d, autoEnable: [garden], reconcileTimeout: 1m,
		lifecycle: {reconcile: BeforeKubeAPIServer, delete: AfterKubeAPIServer}}]}}`), &available)).To(Succeed())
	v := plain()
	v.Extensions = []operatorv1alpha1.GardenExtension{{Type: "d"}, {Type: "a"}}
	all := extensionobjects.Extensions(v, []operatorv1alpha1.Extension{available})
	var types []string
	for _, each := range all {
		types = append(types, each.Spec.Type)
	}
	g.Expect(types).To(Equal([]string{"d", "a", "b"}))
	g.Expect(all[0].Early).To(BeTrue())
	g.Expect(all[0].Within).To(Equal(time.Minute))
	g.Expect(all[1].Early || all[2].Early).To(BeFalse())
	for typ, want := range map[string]bool{"a": true, "b": true, "d": false, "unknown": true} {
		g.Expect(extensionobjects.IsDeletedEarly(typ, []operatorv1alpha1.Extension{available})).To(Equal(want), typ)
	}
}
