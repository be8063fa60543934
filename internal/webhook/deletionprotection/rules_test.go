package deletionprotection

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/admission/review"
)

const missing = `must have a "confirmation.gardener.cloud/deletion" annotation to delete`

// protectedResources returns all resources whose deletion needs a confirmation.
func protectedResources() []schema.GroupVersionResource {
	all := []schema.GroupVersionResource{
		{Group: "apiextensions.k8s.io", Version: "v1beta1", Resource: "customresourcedefinitions"},
		{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
		{Group: "druid.gardener.cloud", Version: "v1alpha1", Resource: "etcds"},
	}
	for _, resource := range []string{
		"backupbuckets", "backupentries", "containerruntimes", "controlplanes", "dnsrecords", "extensions", "infrastructures", "networks",
		"operatingsystemconfigs", "workers",
	} {
		all = append(all, schema.GroupVersionResource{Group: "extensions.gardener.cloud", Version: "v1alpha1", Resource: resource})
	}
	return all
}

func TestProtected(t *testing.T) {
	g := NewWithT(t)
	for _, resource := range protectedResources() {
		g.Expect(protected(resource)).To(BeTrue(), resource.String())
	}
	for _, resource := range []schema.GroupVersionResource{
		{Group: "foo", Version: "bar", Resource: "baz"},
		{Version: "v1", Resource: "pods"},
		{Group: "apiextensions.k8s.io", Version: "v1", Resource: "workers"},
		{Group: "apiextensions.k8s.io", Version: "v2", Resource: "customresourcedefinitions"},
		{Group: "druid.gardener.cloud", Version: "v1alpha1", Resource: "etcdcopybackupstasks"},
		{Group: "druid.gardener.cloud", Version: "v1", Resource: "etcds"},
		{Group: "extensions.gardener.cloud", Version: "v1alpha1", Resource: "bastions"},
		{Group: "extensions.gardener.cloud", Version: "v1alpha1", Resource: "clusters"},
		{Group: "extensions.gardener.cloud", Version: "v1alpha1", Resource: "etcds"},
		{Group: "extensions.gardener.cloud", Version: "v1beta1", Resource: "workers"},
		{Group: "resources.gardener.cloud", Version: "v1alpha1", Resource: "managedresources"},
	} {
		g.Expect(protected(resource)).To(BeFalse(), resource.String())
	}
}

func TestJudgeObject(t *testing.T) {
	const confirmed, not = `{"metadata":{"annotations":{"confirmation.gardener.cloud/` +
		`deletion":"true"}}}`, `{"metadata":{"annotations":{"a":"b"}}}`
	allowed, denied := review.Response{Allowed: true, Code: 200}, review.Response{Code: 403, Reason: "Forbidden", Message: missing}
	for name, tc := range map[string]struct {
		old, object string
		want        review.Response
	}{
		"the old object is confirmed":           {old: confirmed, want: allowed},
		"the old object is not":                 {old: not, want: denied},
		"the new object is confirmed":           {object: confirmed, want: allowed},
		"the new object is not":                 {object: not, want: denied},
		"the old object goes before":            {old: not, object: confirmed, want: denied},
		"the old object goes before, confirmed": {old: confirmed, object: not, want: allowed},
		"no metadata":                           {old: `{"kind":"Worker"}`, want: denied},
		"null where the API allows it":          {old: `{"metadata":{"annotations":null}}`, want: denied},
		"an annotation that is null": {
			old: `{"metadata":{"annotations":{"confirmation.gardener.cloud/deletion":null}}}`, want: denied,
		},
		"an annotation that is no text": {
			old: `{"metadata":{"annotations":{"confirmation.gardener.cloud/deletion":true}}}`, want: denied,
		},
		"another annotation that is no text": {
			old: `{"metadata":{"annotations":{"confirmation.gardener.cloud/deletion":"true","a":1}}}`, want: denied,
		},
		"metadata that is none": {old: `{"metadata":[]}`, want: denied},
		"1": {
			old: `{"metadata":{"annotations":{"confirmation.gardener.cloud/deletion":"1"}}}`, want: allowed,
		},
		"yes": {
			old: `{"metadata":{"annotations":{"confirmation.gardener.cloud/deletion":"yes"}}}`, want: denied,
		},
		"the annotation in a place of no meaning": {
			old: `{"spec":{"metadata":{"annotations":{"confirmation.gardener.cloud/deletion":"true"}}}}`, want: denied,
		},
		"unknown fields": {
			old: `{"x":{"y":[]},"metadata":{"x":1,"annotations":{"confirmation.gardener.cloud/deletion":"true"}}}`, want: allowed,
		},
		"nothing": {want: review.Response{Code: 500, Message: "no object found in admission request"}},
	} {
		t.Run(name, func(t *testing.T) {
			request := &review.Request{Name: "n"}
			if tc.old != "" {
				request.OldObject = []byte(tc.old)
			}
			if tc.object != "" {
				request.Object = []byte(tc.object)
			}
			NewWithT(t).Expect(judgeObject(request)).To(Equal(tc.want))
		})
	}
}

func TestUndecodableObjectsAreErrors(t *testing.T) {
	for name, tc := range map[string]struct{ encoded, want string }{
		"no JSON":   {encoded: "foo", want: "invalid character"},
		"cut off":   {encoded: `{"metadata":{`, want: "unexpected EOF"},
		"a list":    {encoded: "[]", want: "object: must not be a list"},
		"only text": {encoded: `"foo"`, want: "object: must not be a string"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			for _, request := range []*review.Request{{Name: "n", OldObject: []byte(tc.encoded)}, {Name: "n", Object: []byte(tc.encoded)}} {
				response := judgeObject(request)
				g.Expect(response.Message).To(HavePrefix("decode object: "))
				g.Expect(response.Message).To(ContainSubstring(tc.want))
				response.Message = ""
				g.Expect(response).To(Equal(review.Response{Code: 500}))
			}
		})
	}
}
