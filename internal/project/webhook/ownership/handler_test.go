package ownership_test

import (
	"encoding/json"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/admission/reviewtest"
	"github.com/espalier-dev/espalier/internal/project/webhook/ownership"
)

var projects = schema.GroupVersionResource{Group: "core.gardener.cloud", Version: "v1beta1", Resource: "projects"} //nolint:gochecknoglobals // a constant, if Go had such

const (
	alice = `{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}`
	bob   = `{apiGroup: rbac.authorization.k8s.io, kind: User, name: bob}`
	// aliceOwns is how alice gets into the members.
	aliceOwns = `{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice, role: admin, roles: [owner]}`
	bobOwns   = `{apiGroup: rbac.authorization.k8s.io, kind: User, name: bob, role: owner}`
)

func TestHandle(t *testing.T) {
	for name, tc := range map[string]struct {
		operation  review.Operation
		sent, want string
	}{
		"a Project without spec": {review.Create, `{}`, `{spec: {createdBy: ` + alice + `, owner: ` + alice + `, members: [` + aliceOwns + `]}}`},
		"a spec that is null": {
			review.Create, `{spec: null}`,
			`{spec: {createdBy: ` + alice + `, owner: ` + alice + `, members: [` + aliceOwns + `]}}`,
		},
		"members that are null": {
			review.Create, `{spec: {members: null}}`,
			`{spec: {createdBy: ` + alice + `, owner: ` + alice + `, members: [` + aliceOwns + `]}}`,
		},
		"somebody else is said to create it": {
			review.Create, `{spec: {createdBy: ` + bob + `}}`,
			`{spec: {createdBy: ` + alice + `, owner: ` + alice + `, members: [` + aliceOwns + `]}}`,
		},
		"the first owner among the members is the owner": {
			review.Create, `{spec: {members: [{kind: User, name: x, role: admin}, ` + bobOwns + `, {kind: User, name: z, roles: [owner]}]}}`,
			`{spec: {createdBy: ` + alice + `, owner: ` + bob + `, members: [{kind: User, name: x, role: admin}, ` + bobOwns + `, {kind: User, name: z, roles: [owner]}]}}`,
		},
		"also one who is more than that": {
			review.Create, `{spec: {members: [{kind: ServiceAccount, namespace: ns, name: s, role: admin, roles: [uam, owner]}]}}`,
			`{spec: {createdBy: ` + alice + `, owner: {kind: ServiceAccount, namespace: ns, name: s}, members: [{kind: ServiceAccount, namespace: ns, name: s, role: admin, roles: [uam, owner]}]}}`,
		},
		"who becomes the owner gets the role": {
			review.Create, `{spec: {members: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice, role: uam, unknown: kept}]}}`,
			`{spec: {createdBy: ` + alice + `, owner: ` + alice + `, members: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice, role: uam, roles: [owner], unknown: kept}]}}`,
		},
		"also without any other": {
			review.Create, `{spec: {members: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}]}}`,
			`{spec: {createdBy: ` + alice + `, owner: ` + alice + `, members: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice, role: owner}]}}`,
		},
		"also after others": {
			review.Create, `{spec: {members: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice, roles: [uam, viewer]}]}}`,
			`{spec: {createdBy: ` + alice + `, owner: ` + alice + `, members: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice, roles: [uam, viewer, owner]}]}}`,
		},
		"an owner of the user's choice becomes a member": {
			review.Create, `{spec: {owner: {kind: ServiceAccount, namespace: ns, name: s, unknown: kept}, members: [{kind: User, name: x}]}}`,
			`{spec: {createdBy: ` + alice + `, owner: {kind: ServiceAccount, namespace: ns, name: s, unknown: kept}, members: [{kind: User, name: x}, {kind: ServiceAccount, namespace: ns, name: s, role: admin, roles: [owner]}]}}`,
		},
		"an update makes the owner a member": {
			review.Update, `{spec: {owner: ` + alice + `, members: [` + bobOwns + `]}}`,
			`{spec: {owner: ` + alice + `, members: [` + bobOwns + `, ` + aliceOwns + `]}}`,
		},
		"who differs in any field is another": {
			review.Update, `{spec: {owner: ` + alice + `, members: [{kind: User, name: alice, role: owner}]}}`,
			`{spec: {owner: ` + alice + `, members: [{kind: User, name: alice, role: owner}, ` + aliceOwns + `]}}`,
		},
		"an update changes nobody who is there": {
			review.Update, `{spec: {createdBy: ` + bob + `, owner: ` + alice + `, members: [` + aliceOwns + `]}}`,
			`{spec: {createdBy: ` + bob + `, owner: ` + alice + `, members: [` + aliceOwns + `]}}`,
		},
		"an update gives no owner":                {review.Update, `{spec: {members: [` + bobOwns + `]}}`, `{spec: {members: [` + bobOwns + `]}}`},
		"what is being deleted stays as it is":    {review.Update, `{metadata: {deletionTimestamp: "2026-01-01T00:00:00Z"}, spec: {owner: ` + alice + `}}`, `{metadata: {deletionTimestamp: "2026-01-01T00:00:00Z"}, spec: {owner: ` + alice + `}}`},
		"so does an update of what has no spec":   {review.Update, `{}`, `{}`},
		"a null among the members is passed over": {review.Update, `{spec: {owner: ` + alice + `, members: [null]}}`, `{spec: {owner: ` + alice + `, members: [null, ` + aliceOwns + `]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			request := reviewtest.Request(t, tc.operation, projects, tc.sent)
			request.User.Name = "alice"
			response, after := reviewtest.Handle(t, ownership.Handler{}, request)
			NewWithT(t).Expect(response.Allowed).To(BeTrue(), response.Message)
			reviewtest.Same(t, after, tc.want)
		})
	}
}

func TestAServiceAccountCreatesAsTheUserThatItIs(t *testing.T) {
	request := reviewtest.Request(t, review.Create, projects, `{}`)
	request.User.Name = "system:serviceaccount:n:s"
	_, after := reviewtest.Handle(t, ownership.Handler{}, request)
	const robot = `apiGroup: rbac.authorization.k8s.io, kind: User, name: "system:serviceaccount:n:s"`
	reviewtest.Same(t, after, `{spec: {createdBy: {`+robot+`}, owner: {`+robot+`}, members: [{`+robot+`, role: admin, roles: [owner]}]}}`)
}

func TestHandleLeavesAlone(t *testing.T) {
	for name, request := range map[string]review.Request{
		"a deletion": {Operation: review.Delete, OldObject: []byte(`{"spec":{}}`)},
		"the status": {Operation: review.Update, SubResource: "status", Object: []byte(`{"spec":{"owner":{"kind":"User","name":"a"}}}`)},
	} {
		t.Run(name, func(t *testing.T) {
			response, _ := reviewtest.Handle(t, ownership.Handler{}, &request)
			NewWithT(t).Expect(response).To(BeComparableTo(review.Response{Allowed: true, Code: 200}))
		})
	}
}

func TestHandleRefusesWhatItCannotRead(t *testing.T) {
	response, _ := reviewtest.Handle(t, ownership.Handler{}, &review.Request{Operation: review.Create, Object: []byte(`{"spec":[]}`)})
	NewWithT(t).Expect(response).To(BeComparableTo(review.Response{Code: 400, Message: "spec: must not be a list"}))
}

func FuzzHandle(f *testing.F) {
	f.Add([]byte(`{"spec":{"owner":{"kind":"User","name":"a"},"members":[{"kind":"User","name":"a"}]}}`), "alice", true)
	f.Add([]byte(`{"spec":{"members":[null,{"roles":["owner"]}]}}`), "", false)
	f.Add([]byte(`{"metadata":{"deletionTimestamp":""}}`), "\xff", true)
	f.Add([]byte(`{}"`), "alice", true)
	f.Fuzz(func(t *testing.T, object []byte, user string, create bool) {
		// What surrounds an object in a review has been read as JSON, so an object is JSON to its end.
		if read := (map[string]any{}); !json.Valid(object) || review.Decode(object, &read) != nil {
			return
		}
		request := &review.Request{Operation: review.Update, Object: object, User: review.User{Name: strings.ToValidUTF8(user, "?")}}
		if create {
			request.Operation = review.Create
		}
		_, _ = reviewtest.Handle(t, ownership.Handler{}, request)
	})
}
