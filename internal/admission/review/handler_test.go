package review_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"

	"github.com/espalier-dev/espalier/internal/admission/patch"
	"github.com/espalier-dev/espalier/internal/admission/review"
)

// serve starts a server that answers with the responses of handle. It returns a function that posts a body to the server and returns the
// status code and the body of the answer.
func serve(t *testing.T, registry prometheus.Registerer, handle review.HandlerFunc) func(contentType, body string) (int, string) {
	t.Helper()
	server := httptest.NewServer(&review.Endpoint{
		Name: "test", Mutating: true, Handler: handle, Metrics: review.NewMetrics(registry), Log: logr.Discard(), Clock: clock.RealClock{},
	})
	t.Cleanup(server.Close)
	return func(contentType, body string) (int, string) {
		g := NewWithT(t)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(body))
		g.Expect(err).NotTo(HaveOccurred())
		request.Header.Set("Content-Type", contentType)
		response, err := http.DefaultClient.Do(request)
		g.Expect(err).NotTo(HaveOccurred())
		defer func() { _ = response.Body.Close() }()
		answer, err := io.ReadAll(response.Body)
		g.Expect(err).NotTo(HaveOccurred())
		return response.StatusCode, string(answer)
	}
}

func TestVerdictsBecomeAdmissionReviews(t *testing.T) {
	changes := patch.Patch{}
	changes.Add(patch.Pointer("metadata", "labels", "a/b~c"), "")
	for name, tc := range map[string]struct {
		response review.Response
		want     string
	}{
		"allowed without a word": {review.Allowed(""), `"allowed":true,"status":{"metadata":{},"code":200}`},
		"allowed with a message": {review.Allowed("fine"), `"allowed":true,"status":{"metadata":{},"message":"fine","code":200}`},
		"denied": {
			review.Denied(`no "a"`), `"allowed":false,"status":{"metadata":{},"message":"no \"a\"","reason":"Forbidden","code":403}`,
		},
		"a plain error": {
			review.Refused(errors.New("bad")), `"allowed":false,"status":{"metadata":{},"message":"bad","reason":"Forbidden","code":403}`,
		},
		"an error of an API server": {
			review.Refused(fmt.Errorf("look: %w", apierrors.NewNotFound(schema.GroupResource{Resource: "serviceaccounts"}, "x"))),
			`"allowed":false,"status":{"metadata":{},"message":"serviceaccounts \"x\" not found","reason":"NotFound","details":{"name":"x",` +
				`"kind":"serviceaccounts"},"code":404}`,
		},
		"an invalid object": {
			review.Refused(apierrors.NewInvalid(schema.GroupKind{
				Group: "g", Kind: "K",
			}, "x", field.ErrorList{field.Required(field.NewPath("spec"), "now")})),
			`"allowed":false,"status":{"metadata":{},"status":"Failure","message":"K.g \"x\" is invalid: spec: Required value: now",` +
				`"reason":"Invalid","details":{"name":"x","group":"g","kind":"K","causes":[{"reason":"FieldValueRequired","message":"Required ` +
				`value: now","field":"spec"}]},"code":422}`,
		},
		"an object that cannot be read": {
			review.Undecodable(errors.New("bad")), `"allowed":false,"status":{"metadata":{},"message":"bad","code":400}`,
		},
		"nothing to patch": {review.Patched(nil), `"allowed":true,"status":{"metadata":{},"code":200}`},
		"patched": {
			review.Patched(changes), // [{"op":"add","path":"/metadata/labels/a~1b~0c","value":""}]
			`"allowed":true,"status":{"metadata":{},"code":200},"patchType":"JSONPatch",` +
				`"patch":"W3sib3AiOiJhZGQiLCJwYXRoIjoiL21ldGFkYXRhL2xhYmVscy9hfjFifjBjIiwidmFsdWUiOiIifV0="`,
		},
		"warnings": {
			review.Response{Allowed: true, Code: 200, Warnings: []string{"one", `t"wo`}},
			`"allowed":true,"status":{"metadata":{},"code":200},"warnings":["one","t\"wo"]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			post := serve(t, prometheus.NewRegistry(), func(context.Context, *review.Request) review.Response { return tc.response })
			status, answer := post("application/json", `{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview",`+
				`"request":{"uid":"u\"1","operation":"CREATE"}}`)
			g.Expect(status).To(Equal(200))
			g.Expect(answer).To(Equal(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","response":{"uid":"u\"1",` + tc.want +
				`}}`))
		})
	}
}

func TestWhatIsNoAdmissionReviewIsRefused(t *testing.T) {
	for name, tc := range map[string]struct{ contentType, body, want string }{
		"another content type": {"text/plain", `{}`, "contentType=text/plain, expected application/json"},
		"no content type":      {"", `{}`, "contentType=, expected application/json"},
		"nothing":              {"application/json", "", "there is no content to decode"},
		"not JSON":             {"application/json", "nonsense", `invalid character 'o' `},
		"half of it":           {"application/json", `{"kind": "AdmissionReview"`, "unexpected EOF"},
		"a list":               {"application/json", `[]`, "expected an object, got ["},
		"another kind":         {"application/json", `{"kind": "Pod"}`, `kind: expected AdmissionReview, got "Pod"`},
		"another version": {
			"application/json", `{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v2"}`,
			`apiVersion: expected admission.k8s.io/v1 or admission.k8s.io/v1beta1, got "admission.k8s.io/v2"`,
		},
		"no request":         {"application/json", `{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}`, "request: must be set"},
		"a request of null":  {"application/json", `{"kind": "AdmissionReview", "request": null}`, "request: must be set"},
		"more than a review": {"application/json", `{"request": {"uid": "1"}} {}`, "there is more after the review"},
		"a name of two":      {"application/json", `{"request": {"uid": "a", "name": 2}}`, "request.name: must not be a number"},
		"too much": {
			"application/json", `{"request": "` + strings.Repeat("a", 7<<20) + `"}`, "request entity is too large; limit is 7340032 bytes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			post := serve(t, prometheus.NewRegistry(), func(context.Context, *review.Request) review.Response {
				t.Error("it was judged")
				return review.Response{}
			})
			status, answer := post(tc.contentType, tc.body)
			g.Expect(status).To(Equal(400))
			g.Expect(answer).To(ContainSubstring(`"allowed":false`))
			g.Expect(answer).To(ContainSubstring(`"code":400`))
			g.Expect(strings.ReplaceAll(answer, `\"`, `"`)).To(ContainSubstring(tc.want))
		})
	}
}

func TestHandlersGetTheRequest(t *testing.T) {
	g := NewWithT(t)
	var seen review.Request
	post := serve(t, prometheus.NewRegistry(), func(_ context.Context, request *review.Request) review.Response {
		seen = *request
		seen.Object, seen.OldObject, seen.Options = []byte(string(request.Object)), []byte(string(request.OldObject)),
			[]byte(string(request.Options))
		return review.Allowed("")
	})
	status, answer := post("application/json; "+
		"charset=utf-8", ` {"more": {"a": [1]}, "request": {"uid": "1", "kind": {"group": "g", "version": "v", "kind": "K"},
		"resource": {"group": "h", "version": "w", "resource": "ks"}, "requestKind": {"kind": "L"}, "subResource": "scale", "name": "n", "namespace": "m", "operation": "UPDATE",
		"userInfo": {"username": "me", "uid": "7", "groups": ["a", "b"], "extra": {"x": ["y"]}}, "object" : {"a": "\u00e9"} , "oldObject": [1 , 2], "dryRun": true, "options": {"fieldManager": "me"}}}  `)
	g.Expect(status).To(Equal(200))
	g.Expect(answer).To(Equal(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"1","allowed":true,` +
		`"status":{"metadata":{},"code":200}}}`))
	g.Expect(seen).To(Equal(review.Request{
		UID: "1", Kind: schema.GroupVersionKind{Group: "g", Version: "v", Kind: "K"},
		Resource:    schema.GroupVersionResource{Group: "h", Version: "w", Resource: "ks"},
		SubResource: "scale", Name: "n", Namespace: "m", Operation: "UPDATE",
		User:   review.User{Name: "me", UID: "7", Groups: []string{"a", "b"}, Extra: map[string][]string{"x": {"y"}}},
		Object: []byte(`{"a": "\u00e9"}`), OldObject: []byte(`[1 , 2]`), Options: []byte(`{"fieldManager": "me"}`), DryRun: true,
	}))
	_, _ = post("application/json", `{"request": {"uid": "2", "object": null, "options": null, "dryRun": null, "userInfo": null}}`)
	g.Expect(seen).To(Equal(review.Request{UID: "2", Object: []byte{}, OldObject: []byte{}, Options: []byte{}}))
}

func TestAPanicIsAnErrorAndTheServerSurvives(t *testing.T) {
	g := NewWithT(t)
	post := serve(t, prometheus.NewRegistry(), func(_ context.Context, request *review.Request) review.Response {
		if request.UID == "1" {
			panic("fake")
		}
		return review.Allowed("")
	})
	status, answer := post("application/json", `{"request": {"uid": "1"}}`)
	g.Expect(status).To(Equal(200))
	g.Expect(answer).To(Equal(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"1","allowed":false,` +
		`"status":{"metadata":{},"message":"panic: fake [recovered]","code":500}}}`))
	_, answer = post("application/json", `{"request": {"uid": "2"}}`)
	g.Expect(answer).To(ContainSubstring(`"allowed":true`))
}

func TestMetricsCountOutcomes(t *testing.T) {
	g := NewWithT(t)
	registry := prometheus.NewRegistry()
	changes := patch.Patch{}
	changes.Remove("/a")
	answers := map[string]review.Response{
		"1": review.Allowed(""), "2": review.Patched(changes), "3": review.Denied("no"), "4": review.Errored(500, errors.New("oh")),
		"5": review.Patched(nil),
	}
	post := serve(t, registry, func(_ context.Context, request *review.Request) review.Response { return answers[request.UID] })
	for uid := range answers {
		_, _ = post("application/json", `{"request": {"uid": "`+uid+`"}}`)
	}
	_, _ = post("application/json", `{}`)
	families, err := registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	found := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := []string{family.GetName()}
			for _, label := range metric.GetLabel() {
				name = append(name, label.GetValue())
			}
			found[strings.Join(name, " ")] = metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		}
	}
	g.Expect(found).To(Equal(map[string]float64{
		"espalier_webhook_request_duration_seconds test": 6,
		"espalier_webhook_requests_total test denied":    1,
		"espalier_webhook_requests_total test errored":   2,
		"espalier_webhook_requests_total test patched":   1,
		"espalier_webhook_requests_total test skipped":   2,
	}))
}

func TestObjectsAreReadAsAPIServersReadThem(t *testing.T) {
	type object struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
		Count  *int32            `json:"count"`
		Inner  struct {
			Items []string `json:"items"`
		} `json:"inner"`
	}
	for name, tc := range map[string]struct {
		text string
		want object
		err  string
	}{
		"null is as absent":              {text: `{"name": null, "labels": null, "count": null, "inner": null}`},
		"other members are passed over":  {text: `{"name": "a", "more": {"inner": 3}}`, want: object{Name: "a"}},
		"names are taken to the letter":  {text: `{"Name": "a"}`},
		"the last of equal names counts": {text: `{"name": "a", "name": "b"}`, want: object{Name: "b"}},
		"nothing":                        {text: ``, err: "there is no content to decode"},
		"a wrong type":                   {text: `{"inner": {"items": [1]}}`, err: "inner.items[0]: must not be a number"},
		"no object":                      {text: `"a"`, err: "object: must not be a string"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			found := object{}
			err := review.Decode([]byte(tc.text), &found)
			if tc.err != "" {
				g.Expect(err).To(MatchError(ContainSubstring(tc.err)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(found).To(Equal(tc.want))
		})
	}
}

func FuzzReview(f *testing.F) {
	f.Add([]byte(`{"request": {"uid": "1", "object": {"a": 1}, "oldObject": null}}`))
	f.Add([]byte(`{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request": {"uid": "\ud800", "name": "\n"}}`))
	endpoint := &review.Endpoint{
		Name: "fuzz", Handler: review.HandlerFunc(func(_ context.Context, request *review.Request) review.Response {
			return review.Denied(string(request.Object))
		}),
		Metrics: review.NewMetrics(prometheus.NewRegistry()), Log: logr.Discard(), Clock: clock.RealClock{},
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		g := NewWithT(t)
		recorder := httptest.NewRecorder()
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(string(body)))
		request.Header.Set("Content-Type", "application/json")
		endpoint.ServeHTTP(recorder, request)
		g.Expect(recorder.Code).To(BeElementOf(200, 400))
		answer := struct {
			Kind     string `json:"kind"`
			Response struct {
				Allowed bool `json:"allowed"`
			} `json:"response"`
		}{}
		g.Expect(review.Decode(recorder.Body.Bytes(), &answer)).To(Succeed())
		g.Expect(answer.Kind).To(Equal("AdmissionReview"))
		g.Expect(answer.Response.Allowed).To(BeFalse())
	})
}
