package webhook_test

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/admission/reviewtest"
	"github.com/espalier-dev/espalier/internal/project/webhook"
)

var validation = handler("validation", webhook.Settings{})

var validationProjects = schema.GroupVersionResource{Group: "core.gardener.cloud", Version: "v1beta1", Resource: "projects"}

func TestValidation(t *testing.T) {
	for name, tc := range map[string]struct{ spec, want string }{
		"nothing": {`{}`, ``},
		"members that differ": {
			`{members: [{kind: User, name: a}, {kind: Group, name: a}, {kind: ServiceAccount, namespace: ns, name: a}, {kind: ServiceAccount, ` +
				`namespace: ms, name: a}, null]}`,
			``,
		},
		"the same twice": {
			`{members: [{kind: User, name: a, role: admin}, {kind: User, name: b}, {kind: User, name: a, role: viewer}]}`,
			`spec.members[2]: Duplicate value: "User a"`,
		},
		"three times": {
			`{members: [{kind: User, name: a}, {kind: User, name: a}, {kind: User, name: a}]}`,
			`[spec.members[1]: Duplicate value: "User a", spec.members[2]: Duplicate value: "User a"]`,
		},
		"a ServiceAccount in two ways": {
			`{members: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: "system:serviceaccount:foo:bar"}, {kind: ServiceAccount, ` +
				`namespace: foo, name: bar}]}`,
			`spec.members[1]: Duplicate value: "ServiceAccount foo/bar"`,
		},
		"and the other way round": {
			`{members: [{kind: ServiceAccount, namespace: foo, name: bar}, {kind: User, name: "system:serviceaccount:foo:bar"}]}`,
			`spec.members[1]: Duplicate value: "User system:serviceaccount:foo:bar"`,
		},
		"a user who is none": {
			`{members: [{kind: User, name: "system:serviceaccount:abcd"}, {kind: User, name: "system:serviceaccount:abcd"}]}`,
			`[spec.members[0].name: Invalid value: "system:serviceaccount:abcd": unsupported service account user name: ` +
				`"system:serviceaccount:abcd", spec.members[1].name: Invalid value: "system:serviceaccount:abcd": unsupported service account ` +
				`user name: "system:serviceaccount:abcd"]`,
		},
		"a group may be called so": {`{members: [{kind: Group, name: "system:serviceaccount:abcd"}]}`, ``},
		"an account that cannot exist": {
			`{members: [{kind: ServiceAccount, namespace: ns, name: ../a}]}`,
			`spec.members[0].name: Invalid value: "../a": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, ` +
				`'-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is ` +
				`'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
		},
		"one in no possible namespace": {
			`{members: [{kind: ServiceAccount, namespace: A, name: a}]}`,
			`spec.members[0].namespace: Invalid value: "A": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or ` +
				`'-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is ` +
				`'[a-z0-9]([-a-z0-9]*[a-z0-9])?')`,
		},
		"tolerations that differ": {
			`{tolerations: {defaults: [{key: a}, {key: b, value: v}, {key: b, value: w}], whitelist: [{key: a}]}}`, ``,
		},
		"a toleration twice": {
			`{tolerations: {defaults: [{key: foo}, {key: bar, value: baz}, {key: foo}, {key: bar, value: baz}]}}`,
			`[spec.tolerations.defaults[2]: Duplicate value: "foo", spec.tolerations.defaults[3]: Duplicate value: "bar=baz"]`,
		},
		"a value after every value": {
			`{tolerations: {whitelist: [{key: baz}, {key: baz, value: v}]}}`, `spec.tolerations.whitelist[1]: Duplicate value: "baz=v"`,
		},
		"every value after a value": {`{tolerations: {whitelist: [{key: baz, value: v}, {key: baz}]}}`, ``},
		"an empty value is one":     {`{tolerations: {whitelist: [{key: baz, value: ""}, {key: baz}]}}`, ``},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			object := `{metadata: {name: p}, spec: ` + tc.spec + `}`
			request := reviewtest.Request(t, review.Create, validationProjects, object)
			response, _ := reviewtest.Handle(t, validation, request)
			if tc.want == "" {
				g.Expect(response).To(BeComparableTo(review.Response{Allowed: true, Code: 200}))
				return
			}
			g.Expect(response.Message).To(Equal(`Project.core.gardener.cloud "p" is invalid: ` + tc.want))
			g.Expect(response.Code).To(Equal(int32(422)))
			request = reviewtest.Request(t, review.Update, validationProjects, object)
			response, _ = reviewtest.Handle(t, validation, request)
			g.Expect(response.Allowed).To(BeTrue(), "what is stored must not stand in the way of other changes")
			request.OldObject = []byte(`{}`)
			response, _ = reviewtest.Handle(t, validation, request)
			g.Expect(response.Message).To(Equal(`Project.core.gardener.cloud "p" is invalid: ` + tc.want))
		})
	}
}

// TestStoredMistakesDoNotBlockUpdates updates old, invalid objects: a user changes another field, and other webhooks have filled in
// missing fields.
func TestStoredMistakesDoNotBlockUpdates(t *testing.T) {
	const (
		account = `{kind: User, name: "system:serviceaccount:foo:bar"}, {kind: ServiceAccount, namespace: foo, name: bar}`
		filled  = `{kind: User, apiGroup: rbac.authorization.k8s.io, name: "system:serviceaccount:foo:bar"}, {kind: ServiceAccount, ` +
			`namespace: foo, name: bar}`
		invalid = `{kind: User, name: "system:serviceaccount:abcd"}`
		gone    = `{kind: ServiceAccount, namespace: ns, name: ../a}`
	)
	for name, tc := range map[string]struct{ before, now, metadata, want string }{
		"apiGroups are filled in": {before: `{members: [` + account + `]}`, now: `{members: [` + filled + `]}`},
		"or are not":              {before: `{members: [` + filled + `]}`, now: `{members: [` + account + `]}`},
		"the owner is appended": {
			before: `{owner: {kind: User, name: o}, members: [` + account + `]}`,
			now: `{owner: {kind: User, apiGroup: rbac.authorization.k8s.io, name: o}, members: [` + filled +
				`, {kind: User, apiGroup: rbac.authorization.k8s.io, name: o}]}`,
		},
		"an owner who is a member by a name": {
			before: `{owner: {kind: User, name: "system:serviceaccount:foo:bar"}, members: [{kind: ServiceAccount, namespace: foo, name: bar}]}`,
			now: `{owner: {kind: User, name: "system:serviceaccount:foo:bar"}, members: [{kind: ServiceAccount, namespace: foo, name: bar}, ` +
				`{kind: User, name: "system:serviceaccount:foo:bar"}]}`,
		},
		"an owner that cannot exist": {before: `{owner: ` + invalid + `}`, now: `{owner: ` + invalid + `, members: [` + invalid + `]}`},
		"the garden tolerates protected seeds": {
			before: `{namespace: garden, tolerations: {whitelist: [{key: a}, {key: a, value: v}]}}`,
			now: `{namespace: garden, tolerations: {defaults: [{key: seed.gardener.cloud/protected}], whitelist: [{key: a}, {key: a, value: ` +
				`v}, {key: seed.gardener.cloud/protected}]}}`,
		},
		"another member is added": {
			before: `{members: [` + account + `, ` + invalid + `, ` + gone + `]}`,
			now:    `{members: [{kind: User, name: a}, ` + account + `, ` + invalid + `, ` + gone + `]}`,
		},
		"a member is removed, the rest is moved": {
			before: `{members: [` + account + `, ` + invalid + `, {kind: User, name: a}, {kind: User, name: a}]}`,
			now:    `{members: [{kind: User, name: a}, ` + invalid + `, ` + account + `]}`,
		},
		"a role changes": {
			before: `{members: [` + invalid + `]}`, now: `{members: [{kind: User, name: "system:serviceaccount:abcd", role: admin}]}`,
		},
		"the Project is being deleted": {
			before: `{}`, now: `{members: [` + account + `]}`, metadata: `deletionTimestamp: "2026-01-01T00:00:00Z"`,
		},

		"one more of the same": {
			before: `{members: [{kind: User, name: a}, {kind: User, name: a}]}`,
			now:    `{members: [{kind: User, name: a}, {kind: User, name: a}, {kind: User, name: a}]}`,
			want:   `spec.members[2]: Duplicate value: "User a"`,
		},
		"a ServiceAccount under its other name": {
			before: `{members: [{kind: ServiceAccount, namespace: foo, name: bar}]}`, now: `{members: [` + account + `]}`,
			want: `spec.members[1]: Duplicate value: "ServiceAccount foo/bar"`,
		},
		"a new owner who is a member already": {
			before: `{owner: {kind: User, name: o}, members: [{kind: ServiceAccount, namespace: foo, name: bar}]}`,
			now: `{owner: {kind: User, name: "system:serviceaccount:foo:bar"}, members: [` +
				"{kind: ServiceAccount, namespace: foo, name: bar}, {kind: User, name: \"system:serviceaccount:foo:bar\"}" + `]}`,
			want: `spec.members[1]: Duplicate value: "User system:serviceaccount:foo:bar"`,
		},
		"one more that cannot exist": {
			before: `{members: [` + gone + `]}`, now: `{members: [` + gone + `, ` + invalid + `]}`,
			want: `spec.members[1].name: Invalid value: "system:serviceaccount:abcd": unsupported service account user name: ` +
				`"system:serviceaccount:abcd"`,
		},
		"a list of tolerations that differs": {
			before: `{tolerations: {whitelist: [{key: a, value: v}, {key: a}]}}`,
			now:    `{tolerations: {whitelist: [{key: a}, {key: a, value: v}]}}`, want: `spec.tolerations.whitelist[1]: Duplicate value: "a=v"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			request := reviewtest.Request(t, review.Update, validationProjects, `{metadata: {name: p, `+tc.metadata+`}, spec: `+tc.now+`}`)
			request.OldObject = reviewtest.Request(t, review.Delete, validationProjects, `{spec: `+tc.before+`}`).OldObject
			response, _ := reviewtest.Handle(t, validation, request)
			if tc.want == "" {
				g.Expect(response).To(BeComparableTo(review.Response{Allowed: true, Code: 200}))
				return
			}
			g.Expect(response.Message).To(Equal(`Project.core.gardener.cloud "p" is invalid: ` + tc.want))
		})
	}
}

func TestNumberOfReportedMistakesIsLimited(t *testing.T) {
	g := NewWithT(t)
	members := strings.Repeat(`{"kind":"User","name":"`+strings.Repeat("a", 100_000)+`"},`, 50)
	response, _ := reviewtest.Handle(t, validation, &review.Request{
		Operation: review.Create, Object: []byte(`{"spec":{"members":[` + strings.TrimSuffix(members, ",") + `]}}`),
	})
	g.Expect(response.Code).To(Equal(int32(422)))
	g.Expect(strings.Count(response.Message, "Duplicate value")).To(Equal(20))
	g.Expect(len(response.Message)).To(BeNumerically("<", 20_000))
}

func TestValidationLeavesAlone(t *testing.T) {
	const twice = `{"spec":{"members":[{"kind":"User","name":"a"},{"kind":"User","name":"a"}]}}`
	for name, request := range map[string]review.Request{
		"a deletion": {Operation: review.Delete, OldObject: []byte(twice)},
		"the status": {Operation: review.Update, SubResource: "status", Object: []byte(twice), OldObject: []byte(`{}`)},
	} {
		t.Run(name, func(t *testing.T) {
			response, _ := reviewtest.Handle(t, validation, &request)
			NewWithT(t).Expect(response).To(BeComparableTo(review.Response{Allowed: true, Code: 200}))
		})
	}
}

func TestValidationRefusesWhatItCannotRead(t *testing.T) {
	for name, tc := range map[string]struct {
		request review.Request
		want    string
	}{
		"the object": {
			review.Request{Operation: review.Create, Object: []byte(`{"spec":{"members":1}}`)}, "spec.members: must not be a number",
		},
		"the old object": {
			review.Request{Operation: review.Update, Object: []byte(`{}`), OldObject: []byte(`{"spec":{"members":1}}`)},
			"spec.members: must not be a number",
		},
	} {
		t.Run(name, func(t *testing.T) {
			response, _ := reviewtest.Handle(t, validation, &tc.request)
			NewWithT(t).Expect(response).To(BeComparableTo(review.Response{Code: 400, Message: tc.want}))
		})
	}
}

func BenchmarkValidationTenThousandMembers(b *testing.B) {
	members := strings.Builder{}
	for i := range 10_000 {
		fmt.Fprintf(&members, `{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"u%d","role":"viewer"},`, i)
	}
	request := &review.Request{
		Operation: review.Create, Object: []byte(`{"spec":{"members":[` + strings.TrimSuffix(members.String(), ",") + `]}}`),
	}
	for b.Loop() {
		validation.Handle(b.Context(), request)
	}
}
