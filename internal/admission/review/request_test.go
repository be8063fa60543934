package review

import (
	"encoding/json"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// usual is a body in the form that API servers write.
const usual = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"1-2","kind":{"group":"apps",` +
	`"version":"v1","kind":"Deployment"},` +
	`"resource":{"group":"apps","version":"v1","resource":"deployments"},"subResource":"scale","requestKind":{"group":"apps",` +
	`"version":"v1","kind":"Deployment"},` +
	`"name":"web","namespace":"shop","operation":"UPDATE","userInfo":{"username":"jane","uid":"7","groups":["a","b"],"extra":{"k":["v"]}},` +
	`"object":{"a":{"b":[1,"}]"]}},"oldObject":null,"dryRun":false,"options":{"kind":"UpdateOptions"}}}` + "\n"

func TestReviewOfAnAPIServerIsDecoded(t *testing.T) {
	g := NewWithT(t)
	found, err := decodeReview([]byte(usual))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found).To(Equal(review{
		apiVersion: "admission.k8s.io/v1",
		request: Request{
			UID: "1-2", Kind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
			Resource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, SubResource: "scale",
			Name: "web", Namespace: "shop", Operation: Update,
			User:   User{Name: "jane", UID: "7", Groups: []string{"a", "b"}, Extra: map[string][]string{"k": {"v"}}},
			Object: []byte(`{"a":{"b":[1,"}]"]}}`), Options: []byte(`{"kind":"UpdateOptions"}`),
		},
	}))
}

// TestUnusualReviews decodes bodies that no API server sends.
func TestUnusualReviews(t *testing.T) {
	const start = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":`
	for name, tc := range map[string]struct {
		body string
		want Request
		err  string
	}{
		"nothing":                  {body: ``, err: "EOF"},
		"only space":               {body: " \n", err: "EOF"},
		"no object":                {body: `[]`, err: "expected an object, got ["},
		"null":                     {body: `null`, err: "expected an object, got null"},
		"cut":                      {body: usual[:len(usual)/2], err: "unexpected EOF"},
		"no request":               {body: `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}`, err: "request: must be set"},
		"a request that is a list": {body: start + `[]}`, err: "request: must not be a list"},
		"two requests":             {body: start + `{"uid":"1"},"request":{"uid":"2"}}`, want: Request{UID: "2"}},
		"no version":               {body: `{"kind":"AdmissionReview","request":{"uid":"1"}}`, want: Request{UID: "1"}},
		"another version": {
			body: `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v2","request":{}}`, err: `got "admission.k8s.io/v2"`,
		},
		"another kind": {
			body: `{"kind":"Pod","apiVersion":"admission.k8s.io/v1","request":{}}`, err: `kind: expected AdmissionReview, got "Pod"`,
		},
		"extra that is set twice": {
			body: start + `{"userInfo":{"extra":{"a":["b"],"a":["c"]}}}}`, want: Request{User: User{Extra: map[string][]string{"a": {"c"}}}},
		},
		"more after the review":      {body: usual + "{}", err: "there is more after the review"},
		"an escaped name":            {body: start + `{"name":"a\u0062"}}`, want: Request{Name: "ab"}},
		"an escaped member":          {body: start + `{"n\u0061me":"a"}}`, want: Request{Name: "a"}},
		"a member in capitals":       {body: start + `{"Name":"a"}}`},
		"a name that is no string":   {body: start + `{"name":7}}`, err: "request.name: must not be a number"},
		"a name that is set twice":   {body: start + `{"name":"a","name":"b"}}`, want: Request{Name: "b"}},
		"bytes that are no UTF-8":    {body: start + `{"name":"` + "\xff" + `"}}`, want: Request{Name: "\ufffd"}},
		"an object that is a string": {body: start + `{"object":"a"}}`, want: Request{Object: []byte(`"a"`)}},
		"options that are a list":    {body: start + `{"options":[]}}`, want: Request{Options: []byte(`[]`)}},
		"options that are set twice": {body: start + `{"options":{"a":1},"options":{}}}`, want: Request{Options: []byte(`{}`)}},
		"a group that is no string":  {body: start + `{"userInfo":{"groups":["a",1]}}}`, err: "request.userInfo.groups[1]: must not be a number"},
		"more about a user twice": {
			body: start + `{"userInfo":{"extra":{"a":["b"]},"extra":{}}}}`, want: Request{User: User{Extra: map[string][]string{"a": {"b"}}}},
		},
		"a comma too many":           {body: start + `{"uid":"1",}}`, err: "invalid character"},
		"a dry run that is a number": {body: start + `{"dryRun":1}}`, err: "request.dryRun: must not be a number"},
		"an object that is not JSON": {body: start + `{"object":{"a":[}}}`, err: "invalid character"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			found, err := decodeReview([]byte(tc.body))
			if tc.err != "" {
				g.Expect(err).To(MatchError(ContainSubstring(tc.err)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(found.request).To(Equal(tc.want))
		})
	}
}

func TestUIDIsKnownAlthoughTheRequestCannotBeDecoded(t *testing.T) {
	found, err := decodeReview([]byte(`{"apiVersion":"admission.k8s.io/v1beta1","request":{"uid":"1","name":7}}`))
	g := NewWithT(t)
	g.Expect(err).To(HaveOccurred())
	g.Expect(found).To(Equal(review{apiVersion: "admission.k8s.io/v1beta1", request: Request{UID: "1"}}))
}

// sample has a field of each type that handlers use.
type sample struct {
	metav1.TypeMeta `json:",inline"`

	Metadata struct {
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec *struct {
		Replicas   *int32   `json:"replicas,omitempty"`
		Containers []*named `json:"containers"`
		Matrix     [][]named
		Raw        jsontext.Value  `json:"raw"`
		Since      *metav1.Time    `json:"since"`
		Any        any             `json:"any"`
		Inner      *sample         `json:"inner"`
		Values     map[string]*int `json:"values"`
	} `json:"spec"`
	Hidden string `json:"-"`
}

type named struct {
	Name string   `json:"name"`
	Env  []string `json:"env"`
}

// mixed stores all members that have no field of their own in one field.
type mixed struct {
	Name   string         `json:"name"`
	Others jsontext.Value `json:",embed"`
}

// TestDecodeSkipsMembersWithoutField compares an object with one that contains only the members for which the type has fields.
func TestDecodeSkipsMembersWithoutField(t *testing.T) {
	type simple struct {
		Name  string  `json:"name"`
		Items []named `json:"items"`
		Raw   any     `json:"raw"`
	}
	for name, tc := range map[string]struct {
		into       func() any
		text, want string
		err        string
	}{
		"members without a field are left out": {text: `{"a":{"name":"}\""},"name":"x" , "b":[1,{"c":2}],"c":null}`, want: `{"name":"x"}`},
		"members of items are left out too": {
			text: `{"items":[{"name":"a","b":1}, null,{"c":{}},{"env":["x"],"name":"b"}]}`,
			want: `{"items":[{"name":"a"},null,{},{"env":["x"],"name":"b"}]}`,
		},
		"a field without a type keeps all": {text: `{"raw":{"a":[1, {"b": "c"}]}}`, want: `{"raw":{"a":[1,{"b":"c"}]}}`},
		"a wrong type is an error":         {text: `{"name":{"a":1},"items":"x"}`, err: "name: must not be an object"},
		"the last of equal names counts":   {text: `{"name":"a","name":"b"}`, want: `{"name":"b"}`},
		"escaped names are understood":     {text: `{"n\u0061me":"a","\"":1}`, want: `{"name":"a"}`},
		"a type may keep members that have no field": {
			into: func() any { return &mixed{} }, text: `{"name":"a","b":[1]}`, want: `{"b":[1],"name":"a"}`,
		},
		"backslashes before quotes are counted": {
			text: `{"a":"\\","b":"\\\"}","c":"\"\\\\\"","\\":"\\","name":"x\\\""}`, want: `{"name":"x\\\""}`,
		},
		"an empty object":                             {text: ` { } `, want: `{}`},
		"a list is an error":                          {text: `[1]`, err: "object: must not be a list"},
		"null is an object without members":           {text: `null`, want: `{}`},
		"what is skipped must nevertheless be JSON":   {text: `{"a":[}],"name":"x"}`, err: "invalid character"},
		"nothing may stand behind the object":         {text: `{"name":"x"}}`, err: "invalid character"},
		"space may stand before and after the object": {text: "\n{\"name\":\"x\"}\n", want: `{"name":"x"}`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			if tc.into == nil {
				tc.into = func() any { return &simple{} }
			}
			found, want := tc.into(), tc.into()
			err := Decode([]byte(tc.text), found)
			if tc.err != "" {
				g.Expect(err).To(MatchError(ContainSubstring(tc.err)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(Decode([]byte(tc.want), want)).To(Succeed())
			g.Expect(found).To(Equal(want))
		})
	}
}

func TestDecodeRefusesWhatIsNotJSON(t *testing.T) {
	for _, text := range []string{
		``, `{`, `{"name`, `{"name"`, `{"name":`, `{"name":"a`, `{"name":"a"`, `{"name":}`, `{name:1}`, `{"name" 1}`, `{"metadata":{"labels"}}`,
		`{"spec":{"containers":[{]}}`, `{"spec":{"containers":[`, `{"a":[`, `{"a":"\`,
	} {
		NewWithT(t).Expect(Decode([]byte(text), &sample{})).NotTo(Succeed(), text)
	}
}

// FuzzEnvelope compares decoded reviews with the results of encoding/json. Both must agree if JSON is unambiguous: no name occurs twice,
// and strings are UTF-8.
func FuzzEnvelope(f *testing.F) {
	f.Add([]byte(usual))
	f.Add([]byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","request":{ "userInfo" : { "groups" : [ ] }, ` +
		`"object":{} } }`))
	f.Add([]byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"options": {"propagationPolicy":"Orphan"} ,` +
		`"object":null}}`))
	f.Add([]byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"options":null}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		found, err := decodeReview(body)
		if err != nil || !jsontext.Value(body).IsValid() {
			return
		}
		g := NewWithT(t)
		whole, request := map[string]json.RawMessage{}, map[string]json.RawMessage{}
		g.Expect(json.Unmarshal(body, &whole)).To(Succeed(), "%s", body)
		g.Expect(json.Unmarshal(whole["request"], &request)).To(Succeed(), "%s", body)
		for name, got := range map[string][]byte{
			"object": found.request.Object, "oldObject": found.request.OldObject, "options": found.request.Options,
		} {
			want := string(request[name])
			if want == "null" {
				want = ""
			}
			g.Expect(string(got)).To(Equal(want), "%s of %s", name, body)
		}
		for name, got := range map[string]string{
			"uid": found.request.UID, "name": found.request.Name, "namespace": found.request.Namespace, "operation": string(found.request.Operation),
			"subResource": found.request.SubResource,
		} {
			want := ""
			if given, ok := request[name]; ok {
				g.Expect(json.Unmarshal(given, &want)).To(Succeed(), "%s", body)
			}
			g.Expect(got).To(Equal(want), "%s of %s", name, body)
		}
	})
}

// FuzzDecode requires that Decode never panics, and that it accepts an object if and only if the object is JSON and the decoder alone
// accepts it too.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{
		`{"kind":"K","apiVersion":"v1","metadata":{"labels":{"a":"b","c":null},"annotations":{"x":"}"}},"spec":{"replicas":3,` +
			`"containers":[{"name":"a","env":["1"],"image":"i"},null],"raw":[1,{"a":"b"}]}}`,
		`{"spec":{"since":"2026-01-01T00:00:00Z","Matrix":[[{"name":"a"}],[]],"any":{"a":1},"inner":{"spec":{"replicas":1}},"values":{"a":1,` +
			`"b":null}},"unknown":[{"spec":{}}]}`,
		`{"spec":null,"metadata":{"labels":[]}}`, `{"spec":{"replicas":"x"}}`, `{"k\u0069nd":"K"}`,
		` { "spec" : { "containers" : [ { "name" : "\"]" } ] } } `, `[]`, `"a"`, `1`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, each := range []func() any{func() any { return &sample{} }, func() any { return &mixed{} }} {
			g := NewWithT(t)
			found, whole := each(), each()
			err := Decode(text, found)
			if !jsontext.Value(text).IsValid(lenient) {
				g.Expect(err).To(HaveOccurred(), "%s", text)
				continue
			}
			wholeErr := jsonv2.Unmarshal(text, whole, lenient)
			g.Expect(err == nil).To(Equal(wholeErr == nil), "%v, and decoded as a whole %v", err, wholeErr)
			if err == nil {
				g.Expect(found).To(BeComparableTo(whole))
			}
		}
	})
}
