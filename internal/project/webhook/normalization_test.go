package webhook_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/admission/reviewtest"
	"github.com/espalier-dev/espalier/internal/project/webhook"
	"github.com/espalier-dev/espalier/internal/project/webhook/normalform"
)

var normalization = handler("normalization", webhook.Settings{})

var normalizationProjects = schema.GroupVersionResource{Group: "core.gardener.cloud", Version: "v1beta1", Resource: "projects"}

func TestNormalizationChangesSingleFields(t *testing.T) {
	response, after := reviewtest.Handle(t, normalization, reviewtest.Request(t, review.Update, normalizationProjects, `
apiVersion: core.gardener.cloud/v1beta1
kind: Project
metadata: {name: p, unknown: kept}
spec:
  unknown: kept
  namespace: garden
  createdBy: {kind: User, name: a}
  owner: {kind: User, name: o, unknown: kept}
  members:
  - {kind: User, name: o, role: admin, unknown: kept}
  - null
  - {apiGroup: rbac.authorization.k8s.io, kind: User, name: fine, role: viewer, roles: [uam], unknown: kept}
  - {apiGroup: rbac.authorization.k8s.io, kind: User, name: former, role: owner, roles: [uam], unknown: kept}
  - {kind: ServiceAccount, namespace: ns, name: s, unknown: kept}
  tolerations: {unknown: kept, whitelist: [{key: a, unknown: kept}]}
status: {phase: Ready}
`))
	NewWithT(t).Expect(response.Allowed).To(BeTrue(), response.Message)
	reviewtest.Same(t, after, `
apiVersion: core.gardener.cloud/v1beta1
kind: Project
metadata: {name: p, unknown: kept}
spec:
  unknown: kept
  namespace: garden
  createdBy: {kind: User, name: a}
  owner: {apiGroup: rbac.authorization.k8s.io, kind: User, name: o, unknown: kept}
  members:
  - {apiGroup: rbac.authorization.k8s.io, kind: User, name: o, role: admin, roles: [owner], unknown: kept}
  - null
  - {apiGroup: rbac.authorization.k8s.io, kind: User, name: fine, role: viewer, roles: [uam], unknown: kept}
  - {apiGroup: rbac.authorization.k8s.io, kind: User, name: former, role: uam, unknown: kept}
  - {kind: ServiceAccount, namespace: ns, name: s, role: viewer, unknown: kept}
  tolerations:
    unknown: kept
    defaults: [{key: seed.gardener.cloud/protected}]
    whitelist: [{key: a, unknown: kept}, {key: seed.gardener.cloud/protected}]
status: {phase: Ready}
`)
}

func TestNormalizationLeavesAlone(t *testing.T) {
	for name, request := range map[string]review.Request{
		"a deletion": {Operation: review.Delete, OldObject: []byte(`{"spec":{"members":[{"kind":"User"}]}}`)},
		"the status": {
			Operation: review.Update, SubResource: "status", Object: []byte(`{"spec":{"members":[{"kind":"User"}]}}`),
		},
		"a Project without spec": {Operation: review.Create, Object: []byte(`{}`)},
		"a spec that is null":    {Operation: review.Create, Object: []byte(`{"spec":null}`)},
		"a Project in its normal form": {
			Operation: review.Create,
			Object: []byte(`{"spec":{"namespace":"garden-x","members":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"a",` +
				`"role":"admin","roles":[]}]}}`),
		},
		"members that are none": {Operation: review.Create, Object: []byte(`{"spec":{"members":null,"tolerations":{}}}`)},
	} {
		t.Run(name, func(t *testing.T) {
			response, _ := reviewtest.Handle(t, normalization, &request)
			NewWithT(t).Expect(response).To(BeComparableTo(review.Response{Allowed: true, Code: 200}))
		})
	}
}

func TestNormalizationRefusesWhatItCannotRead(t *testing.T) {
	for name, tc := range map[string]struct{ object, want string }{
		"members that are an object":  {`{"spec":{"members":{}}}`, "spec.members: must not be an object"},
		"a role that is a number":     {`{"spec":{"members":[{"role":7}]}}`, "spec.members[0].role: must not be a number"},
		"nothing":                     {``, "there is no content to decode"},
		"a namespace that is a list":  {`{"spec":{"namespace":[]}}`, "spec.namespace: must not be a list"},
		"a toleration that is a word": {`{"spec":{"tolerations":{"whitelist":["a"]}}}`, "spec.tolerations.whitelist[0]: must not be a string"},
	} {
		t.Run(name, func(t *testing.T) {
			response, _ := reviewtest.Handle(t, normalization, &review.Request{Operation: review.Create, Object: []byte(tc.object)})
			NewWithT(t).Expect(response).To(BeComparableTo(review.Response{Code: 400, Message: tc.want}))
		})
	}
}

// TestTooManyChangesOfAProjectAreRefused sends more members than the schema takes, all of which lack something.
func TestTooManyChangesOfAProjectAreRefused(t *testing.T) {
	members := strings.Repeat(`{"kind":"User","name":"a","roles":["admin","uam"]},`, 10_000)
	response, _ := reviewtest.Handle(t, normalization, &review.Request{
		Operation: review.Create, Object: []byte(`{"spec":{"members":[` + strings.TrimSuffix(members, ",") + `]}}`),
	})
	NewWithT(t).Expect(response).
		To(BeComparableTo(review.Response{Code: 413, Message: "the object needs too many changes: 30000, at most 10000 are made"}))
}

// normalizationProject makes a Project from bytes, as a client may send it, and a copy without the fields that the handler may change.
func normalizationProject(choices []byte) (sent map[string]any) {
	next := func() int {
		if len(choices) == 0 {
			return 0
		}
		first := int(choices[0])
		choices = choices[1:]
		return first
	}
	pick := func(normalizationValues ...any) any { return normalizationValues[next()%len(normalizationValues)] }
	subject := func() map[string]any {
		made := map[string]any{"kind": pick("User", "Group", "ServiceAccount", "Robot", ""), "name": pick("a", "b", "c", ""), "unknown": "kept"}
		if group := pick(nil, "", "rbac.authorization.k8s.io", "x", true); group != any(true) {
			made["apiGroup"] = group
		}
		if next()%4 == 0 {
			made["namespace"] = "n"
		}
		return made
	}
	spec := map[string]any{"unknown": []any{1, "kept"}, "namespace": pick("garden", "garden-a", "", nil)}
	if next()%3 > 0 {
		spec["owner"] = subject()
	}
	var members []any
	for range next() % 6 {
		member := subject()
		if role := pick(nil, "", "owner", "admin", "viewer", true); role != any(true) {
			member["role"] = role
		}
		var roles []any
		for range next() % 4 {
			roles = append(roles, pick("owner", "admin", "viewer", "", "uam"))
		}
		member["roles"] = roles
		members = append(members, pick(member, member, member, member, nil))
	}
	spec["members"] = members
	list := func() any {
		var made []any
		for range next() % 3 {
			made = append(made, map[string]any{"key": pick("a", "seed.gardener.cloud/protected"), "value": pick(nil, "", "v"), "unknown": "kept"})
		}
		return made
	}
	spec["tolerations"] = pick(nil, map[string]any{"unknown": "kept", "defaults": list(), "whitelist": list()})
	return map[string]any{
		"metadata": map[string]any{"name": "p"}, "spec": pick(spec, spec, spec, nil), "unknown": map[string]any{"kept": true},
	}
}

// FuzzNormalization requires that handling never panics, that the handler does not change its own result again, that the result is the
// normal form, and that fields which the handler does not know stay.
func FuzzNormalization(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 1, 0, 0, 0, 0, 5, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Add([]byte("a project with an owner, members and tolerations, more or less"))
	f.Fuzz(func(t *testing.T, choices []byte) {
		g := NewWithT(t)
		sent := normalizationProject(choices)
		object, err := json.Marshal(sent)
		g.Expect(err).NotTo(HaveOccurred())
		response, after := reviewtest.Handle(t, normalization, &review.Request{Operation: review.Create, Object: object})
		g.Expect(response.Allowed).To(BeTrue(), response.Message)
		read, was := normalform.Project{}, normalform.Project{}
		g.Expect(review.Decode(after, &read)).To(Succeed())
		g.Expect(review.Decode(object, &was)).To(Succeed())
		g.Expect(fmt.Sprintf("%+v", normalizationValues(read.Spec))).To(Equal(fmt.Sprintf("%+v", normalizationValues(normalform.Of(was.Spec)))))
		g.Expect(normalizationUnrelated(t, after)).To(Equal(normalizationUnrelated(t, object)))
	})
}

// normalizationValues shows the values of pointers, and empty fields as absent ones.
func normalizationValues(spec *normalform.Spec) string {
	encoded, err := json.Marshal(spec)
	if err != nil {
		return err.Error()
	}
	return strings.ReplaceAll(string(encoded), `"members":[]`, `"members":null`)
}

// normalizationUnrelated returns an object without the fields that the handler changes.
func normalizationUnrelated(t *testing.T, object []byte) map[string]any {
	t.Helper()
	read := map[string]any{}
	NewWithT(t).Expect(json.Unmarshal(object, &read)).To(Succeed())
	spec, _ := read["spec"].(map[string]any)
	drop := func(from any, names ...string) {
		members, _ := from.(map[string]any)
		for _, name := range names {
			delete(members, name)
		}
	}
	drop(spec["owner"], "apiGroup")
	members, _ := spec["members"].([]any)
	for _, member := range members {
		drop(member, "apiGroup", "role", "roles")
	}
	tolerations, _ := spec["tolerations"].(map[string]any)
	drop(tolerations, "defaults", "whitelist")
	if len(tolerations) == 0 {
		delete(spec, "tolerations")
	}
	return read
}
