package extensionvalidation_test

import (
	"context"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/admission/reviewtest"
	"github.com/espalier-dev/espalier/internal/webhook/extensionvalidation"
)

const here = "shoot--example"

func allExamples() map[string]map[string]example {
	return map[string]map[string]example{
		"empty objects": emptyObjects(), "deleted objects": deletedObjects(), "immutable fields": immutableFields(),
		"purposes": controlPlanePurposes(), "DNS records": dnsRecords(), "networks": networks(),
		"operating system configs": operatingSystemConfigs(), "workers": workers(), "etcds": etcds(), "metadata": metadata(),
	}
}

func TestFindings(t *testing.T) {
	for group, examples := range allExamples() {
		for title, e := range examples {
			t.Run(group+"/"+title, func(t *testing.T) {
				response, _ := reviewtest.Handle(t, kindOf(t, e.kind).Handler, e.request(t, here))
				e.matches(t, here, found(t, response))
			})
		}
	}
}

func TestTheValidObjectsAreValid(t *testing.T) {
	for _, kind := range extensionvalidation.Kinds() {
		t.Run(kind.Kind, func(t *testing.T) {
			for _, e := range []example{{kind: kind.Kind}, {kind: kind.Kind, updated: true}, {kind: kind.Kind, updated: true, deleting: true}} {
				response, _ := reviewtest.Handle(t, kind.Handler, e.request(t, here))
				NewWithT(t).Expect(response).To(Equal(review.Response{Allowed: true, Code: 200}))
			}
		})
	}
}

func TestKinds(t *testing.T) {
	type identity struct {
		Name, Path, Group, Plural, Kind string
		Namespaced                      bool
	}
	var got []identity
	for _, kind := range extensionvalidation.Kinds() {
		got = append(got, identity{kind.Name, kind.Path, kind.Group, kind.Plural, kind.Kind, kind.Namespaced})
	}
	const group = "extensions.gardener.cloud"
	NewWithT(t).Expect(got).To(Equal([]identity{
		{
			"validation.extensions.backupbuckets", "/validate-extensions-gardener-cloud-v1alpha1-backupbucket", group, "backupbuckets",
			"BackupBucket", false,
		},
		{
			"validation.extensions.backupentries", "/validate-extensions-gardener-cloud-v1alpha1-backupentry", group, "backupentries",
			"BackupEntry", false,
		},
		{"validation.extensions.bastions", "/validate-extensions-gardener-cloud-v1alpha1-bastion", group, "bastions", "Bastion", true},
		{
			"validation.extensions.containerruntimes", "/validate-extensions-gardener-cloud-v1alpha1-containerruntime", group,
			"containerruntimes", "ContainerRuntime", true,
		},
		{
			"validation.extensions.controlplanes", "/validate-extensions-gardener-cloud-v1alpha1-controlplane", group, "controlplanes",
			"ControlPlane", true,
		},
		{"validation.extensions.dnsrecords", "/validate-extensions-gardener-cloud-v1alpha1-dnsrecord", group, "dnsrecords", "DNSRecord", true},
		{"validation.extensions.etcds", "/validate-druid-gardener-cloud-v1alpha1-etcd", "druid.gardener.cloud", "etcds", "Etcd", true},
		{"validation.extensions.extensions", "/validate-extensions-gardener-cloud-v1alpha1-extension", group, "extensions", "Extension", true},
		{
			"validation.extensions.infrastructures", "/validate-extensions-gardener-cloud-v1alpha1-infrastructure", group, "infrastructures",
			"Infrastructure", true,
		},
		{"validation.extensions.networks", "/validate-extensions-gardener-cloud-v1alpha1-network", group, "networks", "Network", true},
		{
			"validation.extensions.operatingsystemconfigs", "/validate-extensions-gardener-cloud-v1alpha1-operatingsystemconfig", group,
			"operatingsystemconfigs", "OperatingSystemConfig", true,
		},
		{"validation.extensions.workers", "/validate-extensions-gardener-cloud-v1alpha1-worker", group, "workers", "Worker", true},
	}))
}

func TestWhatIsNotJudged(t *testing.T) {
	object := []byte("{}")
	refused := func(message string) review.Response { return review.Response{Code: 400, Message: message} }
	allowed := review.Response{Allowed: true, Code: 200}
	for name, tc := range map[string]struct {
		request review.Request
		want    review.Response
	}{
		"DELETE": {request: review.Request{Operation: "DELETE", OldObject: object}, want: allowed},
		"DELETE of nothing": {
			request: review.Request{Operation: "DELETE", Object: object}, want: refused("there is no content to decode"),
		},
		"CONNECT": {request: review.Request{Operation: "CONNECT"}, want: allowed},
		"another operation": {
			request: review.Request{Operation: "PATCH", Object: object}, want: refused(`unknown operation "PATCH"`),
		},
		"no operation": {request: review.Request{Object: object}, want: refused(`unknown operation ""`)},
		"CREATE of nothing": {
			request: review.Request{Operation: "CREATE", OldObject: object}, want: refused("there is no content to decode"),
		},
		"UPDATE to nothing": {
			request: review.Request{Operation: "UPDATE", OldObject: object}, want: refused("there is no content to decode"),
		},
		"UPDATE of nothing": {
			request: review.Request{Operation: "UPDATE", Object: object}, want: refused("there is no content to decode"),
		},
		"DELETE of what cannot be decoded": {
			request: review.Request{Operation: "DELETE", OldObject: []byte("[]")}, want: refused("object: must not be a list"),
		},
		"CREATE of what cannot be decoded": {
			request: review.Request{Operation: "CREATE", Object: []byte(`{"spec":{"type":1}}`)},
			want:    refused("spec.type: must not be a number"),
		},
		"UPDATE of what cannot be decoded": {
			request: review.Request{Operation: "UPDATE", Object: object, OldObject: []byte(`{"metadata":1}`)},
			want:    refused("metadata: must not be a number"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			for _, kind := range extensionvalidation.Kinds() {
				if kind.Kind == "Etcd" && name == "CREATE of what cannot be decoded" {
					continue // an Etcd has no field spec.type
				}
				response := kind.Handler.Handle(t.Context(), &tc.request)
				g.Expect(response.Message).To(ContainSubstring(tc.want.Message), kind.Kind)
				response.Message = tc.want.Message
				g.Expect(response).To(Equal(tc.want), kind.Kind)
			}
		})
	}
}

func TestRefusal(t *testing.T) {
	const text = "field is required"
	for name, tc := range map[string]struct {
		example example
		want    string
		details metav1.StatusDetails
	}{
		"one finding": {
			example: example{kind: "Extension", object: "spec: {type: ''}"},
			want:    `Extension.extensions.gardener.cloud "sample" is invalid: spec.type: Required value: field is required`,
			details: metav1.StatusDetails{Group: "extensions.gardener.cloud", Kind: "Extension", Name: "sample", Causes: []metav1.StatusCause{
				{Type: "FieldValueRequired", Field: "spec.type", Message: "Required value: " + text},
			}},
		},
		"several": {
			example: example{kind: "BackupBucket", object: "spec: {type: '', region: ''}"},
			want: `BackupBucket.extensions.gardener.cloud "sample" is invalid: [spec.type: Required value: field is required, spec.region: ` +
				`Required value: field is required]`,
			details: metav1.StatusDetails{Group: "extensions.gardener.cloud", Kind: "BackupBucket", Name: "sample", Causes: []metav1.StatusCause{
				{Type: "FieldValueRequired", Field: "spec.type", Message: "Required value: " + text},
				{Type: "FieldValueRequired", Field: "spec.region", Message: "Required value: " + text},
			}},
		},
		"the same of an update and of the new object is said once": {
			example: example{kind: "Extension", updated: true, object: "metadata: {labels: {'a b': c}}"},
			want: `Extension.extensions.gardener.cloud "sample" is invalid: metadata.labels: Invalid value: "a b": name part must consist of ` +
				`alphanumeric characters, '-', '_' or '.', ` +
				`and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is ` +
				`'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
			details: metav1.StatusDetails{Group: "extensions.gardener.cloud", Kind: "Extension", Name: "sample", Causes: []metav1.StatusCause{
				{Type: "FieldValueInvalid", Field: "metadata.labels", Message: labelMessage},
				{Type: "FieldValueInvalid", Field: "metadata.labels", Message: labelMessage},
			}},
		},
		"kind and group of an Etcd are its own": {
			example: example{kind: "Etcd", object: "{apiVersion: other.example.com/v1, kind: Other, spec: {backup: {store: {prefix: x}}}}"},
			want: `Other.other.example.com "sample" is invalid: spec.backup.store.prefix: Invalid value: "x": must contain object name ` +
				`and namespace`,
			details: metav1.StatusDetails{Group: "other.example.com", Kind: "Other", Name: "sample", Causes: []metav1.StatusCause{
				{Type: "FieldValueInvalid", Field: "spec.backup.store.prefix", Message: `Invalid value: "x": must contain object name and namespace`},
			}},
		},
		"kind and group of others are not": {
			example: example{kind: "Extension", object: "{apiVersion: other.example.com/v1, kind: Other, spec: {type: ''}}"},
			want:    `Extension.extensions.gardener.cloud "sample" is invalid: spec.type: Required value: field is required`,
			details: metav1.StatusDetails{Group: "extensions.gardener.cloud", Kind: "Extension", Name: "sample", Causes: []metav1.StatusCause{
				{Type: "FieldValueRequired", Field: "spec.type", Message: "Required value: " + text},
			}},
		},
		"a secret is not shown": {
			example: example{kind: "Bastion", updated: true, object: "spec: {userData: aHVzaA==}"},
			want:    `Bastion.extensions.gardener.cloud "sample" is invalid: spec.userData: Invalid value: "(hidden)": field is immutable`,
			details: metav1.StatusDetails{Group: "extensions.gardener.cloud", Kind: "Bastion", Name: "sample", Causes: []metav1.StatusCause{
				{Type: "FieldValueInvalid", Field: "spec.userData", Message: `Invalid value: "(hidden)": field is immutable`},
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			response, _ := reviewtest.Handle(t, kindOf(t, tc.example.kind).Handler, tc.example.request(t, here))
			NewWithT(t).Expect(response).To(Equal(review.Response{Code: 422, Reason: "Invalid", Message: tc.want, Details: &tc.details}))
		})
	}
}

const labelMessage = `Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and ` +
	`end with an alphanumeric character ` +
	`(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`

func BenchmarkHandle(b *testing.B) {
	for _, kind := range extensionvalidation.Kinds() {
		b.Run(kind.Kind, func(b *testing.B) {
			request, handler := example{kind: kind.Kind, updated: true}.request(b, here), kind.Handler
			b.ReportAllocs()
			for b.Loop() {
				if response := handler.Handle(b.Context(), request); !response.Allowed {
					b.Fatal(response.Message)
				}
			}
		})
	}
}

func TestNothingIsValidatedOnceTheRequestHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, e := range []example{{kind: "Worker"}, {kind: "Worker", updated: true}} {
		response := kindOf(t, e.kind).Handler.Handle(ctx, e.request(t, here))
		NewWithT(t).Expect(response).
			To(Equal(review.Response{Code: 500, Message: "validate object: the request has ended before: context canceled"}))
	}
}

func TestAnswersStaySmall(t *testing.T) {
	for name, tc := range map[string]example{
		"pools":    {kind: "Worker", object: "spec: {pools: [" + strings.Repeat("{},", 5000) + "]}"},
		"families": {kind: "Network", object: "spec: {ipFamilies: [" + strings.Repeat("IPv4,", 300_000) + "]}"},
		"files": {
			kind: "OperatingSystemConfig", updated: true, before: "spec: {units: null, files: null}",
			object: "spec: {units: null, files: [" + strings.Repeat("{},", 5000) + "]}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			response, _ := reviewtest.Handle(t, kindOf(t, tc.kind).Handler, tc.request(t, here))
			number := len(found(t, response))
			g.Expect(number).To(And(BeNumerically(">", 500), BeNumerically("<=", 1000)))
			g.Expect(len(response.Message)).To(And(BeNumerically(">", 32<<10), BeNumerically("<", 70<<10)))
		})
	}
}
