package webhook_test

import (
	"encoding/json"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/admission/reviewtest"
	"github.com/espalier-dev/espalier/internal/project/webhook"
)

var ownership = handler("ownership", webhook.Settings{})

var ownershipProjects = schema.GroupVersionResource{Group: "core.gardener.cloud", Version: "v1beta1", Resource: "projects"}

const (
	ownershipAlice = `{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}`
	ownershipBob   = `{apiGroup: rbac.authorization.k8s.io, kind: User, name: bob}`
	// ownershipAliceOwns is how alice gets into the members.
	ownershipAliceOwns = `{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice, role: admin, roles: [owner]}`
	ownershipBobOwns   = `{apiGroup: rbac.authorization.k8s.io, kind: User, name: bob, role: owner}`
)

func TestOwnership(t *testing.T) {
	for name, tc := range map[string]struct {
		operation  review.Operation
		sent, want string
	}{
		"a Project without spec": {
			review.Create, `{}`,
			`{spec: {createdBy: ` + ownershipAlice + `, owner: ` + ownershipAlice + `, members: [` + ownershipAliceOwns + `]}}`,
		},
		"a spec that is null": {
			review.Create, `{spec: null}`,
			`{spec: {createdBy: ` + ownershipAlice + `, owner: ` + ownershipAlice + `, members: [` + ownershipAliceOwns + `]}}`,
		},
		"members that are null": {
			review.Create, `{spec: {members: null}}`,
			`{spec: {createdBy: ` + ownershipAlice + `, owner: ` + ownershipAlice + `, members: [` + ownershipAliceOwns + `]}}`,
		},
		"another user is said to create it": {
			review.Create, `{spec: {createdBy: ` + ownershipBob + `}}`,
			`{spec: {createdBy: ` + ownershipAlice + `, owner: ` + ownershipAlice + `, members: [` + ownershipAliceOwns + `]}}`,
		},
		"the first owner among the members is the owner": {
			review.Create,
			`{spec: {members: [{kind: User, name: x, role: admin}, ` + ownershipBobOwns + `, {kind: User, name: z, roles: [owner]}]}}`,
			`{spec: {createdBy: ` + ownershipAlice + `, owner: ` + ownershipBob + `, members: [{kind: User, name: x, role: admin}, ` +
				ownershipBobOwns + `, {kind: User, name: z, roles: [owner]}]}}`,
		},
		"also one with more roles": {
			review.Create, `{spec: {members: [{kind: ServiceAccount, namespace: ns, name: s, role: admin, roles: [uam, owner]}]}}`,
			`{spec: {createdBy: ` + ownershipAlice +
				`, owner: {kind: ServiceAccount, namespace: ns, name: s}, members: [{kind: ServiceAccount, namespace: ns, name: s, role: admin, ` +
				`roles: [uam, owner]}]}}`,
		},
		"who becomes the owner gets the role": {
			review.Create, `{spec: {members: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice, role: uam, unknown: kept}]}}`,
			`{spec: {createdBy: ` + ownershipAlice + `, owner: ` + ownershipAlice +
				`, members: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice, role: uam, roles: [owner], unknown: kept}]}}`,
		},
		"also without any other": {
			review.Create, `{spec: {members: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}]}}`,
			`{spec: {createdBy: ` + ownershipAlice + `, owner: ` + ownershipAlice +
				`, members: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice, role: owner}]}}`,
		},
		"also after others": {
			review.Create, `{spec: {members: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice, roles: [uam, viewer]}]}}`,
			`{spec: {createdBy: ` + ownershipAlice + `, owner: ` + ownershipAlice +
				`, members: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice, roles: [uam, viewer, owner]}]}}`,
		},
		"an owner of the user's choice becomes a member": {
			review.Create, `{spec: {owner: {kind: ServiceAccount, namespace: ns, name: s, unknown: kept}, members: [{kind: User, name: x}]}}`,
			`{spec: {createdBy: ` + ownershipAlice +
				`, owner: {kind: ServiceAccount, namespace: ns, name: s, unknown: kept}, members: [{kind: User, name: x}, {kind: ServiceAccount, ` +
				`namespace: ns, name: s, role: admin, roles: [owner]}]}}`,
		},
		"an update makes the owner a member": {
			review.Update, `{spec: {owner: ` + ownershipAlice + `, members: [` + ownershipBobOwns + `]}}`,
			`{spec: {owner: ` + ownershipAlice + `, members: [` + ownershipBobOwns + `, ` + ownershipAliceOwns + `]}}`,
		},
		"who differs in any field is another": {
			review.Update, `{spec: {owner: ` + ownershipAlice + `, members: [{kind: User, name: alice, role: owner}]}}`,
			`{spec: {owner: ` + ownershipAlice + `, members: [{kind: User, name: alice, role: owner}, ` + ownershipAliceOwns + `]}}`,
		},
		"an update changes no existing member": {
			review.Update, `{spec: {createdBy: ` + ownershipBob + `, owner: ` + ownershipAlice + `, members: [` + ownershipAliceOwns + `]}}`,
			`{spec: {createdBy: ` + ownershipBob + `, owner: ` + ownershipAlice + `, members: [` + ownershipAliceOwns + `]}}`,
		},
		"an update gives no owner": {
			review.Update, `{spec: {members: [` + ownershipBobOwns + `]}}`, `{spec: {members: [` + ownershipBobOwns + `]}}`,
		},
		"what is being deleted stays as it is": {
			review.Update, `{metadata: {deletionTimestamp: "2026-01-01T00:00:00Z"}, spec: {owner: ` + ownershipAlice + `}}`,
			`{metadata: {deletionTimestamp: "2026-01-01T00:00:00Z"}, spec: {owner: ` + ownershipAlice + `}}`,
		},
		"so does an update of what has no spec": {review.Update, `{}`, `{}`},
		"a null among the members is passed over": {
			review.Update, `{spec: {owner: ` + ownershipAlice + `, members: [null]}}`,
			`{spec: {owner: ` + ownershipAlice + `, members: [null, ` + ownershipAliceOwns + `]}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			request := reviewtest.Request(t, tc.operation, ownershipProjects, tc.sent)
			request.User.Name = "alice"
			response, after := reviewtest.Handle(t, ownership, request)
			NewWithT(t).Expect(response.Allowed).To(BeTrue(), response.Message)
			reviewtest.Same(t, after, tc.want)
		})
	}
}

func TestAServiceAccountCreatesAsTheUserThatItIs(t *testing.T) {
	request := reviewtest.Request(t, review.Create, ownershipProjects, `{}`)
	request.User.Name = "system:serviceaccount:n:s"
	_, after := reviewtest.Handle(t, ownership, request)
	const robot = `apiGroup: rbac.authorization.k8s.io, kind: User, name: "system:serviceaccount:n:s"`
	reviewtest.Same(t, after, `{spec: {createdBy: {`+robot+`}, owner: {`+robot+`}, members: [{`+robot+`, role: admin, roles: [owner]}]}}`)
}

func TestOwnershipLeavesAlone(t *testing.T) {
	for name, request := range map[string]review.Request{
		"a deletion": {Operation: review.Delete, OldObject: []byte(`{"spec":{}}`)},
		"the status": {Operation: review.Update, SubResource: "status", Object: []byte(`{"spec":{"owner":{"kind":"User","name":"a"}}}`)},
	} {
		t.Run(name, func(t *testing.T) {
			response, _ := reviewtest.Handle(t, ownership, &request)
			NewWithT(t).Expect(response).To(BeComparableTo(review.Response{Allowed: true, Code: 200}))
		})
	}
}

func TestOwnershipRefusesWhatItCannotRead(t *testing.T) {
	response, _ := reviewtest.Handle(t, ownership, &review.Request{Operation: review.Create, Object: []byte(`{"spec":[]}`)})
	NewWithT(t).Expect(response).To(BeComparableTo(review.Response{Code: 400, Message: "spec: must not be a list"}))
}

func FuzzOwnership(f *testing.F) {
	f.Add([]byte(`{"spec":{"owner":{"kind":"User","name":"a"},"members":[{"kind":"User","name":"a"}]}}`), "alice", true)
	f.Add([]byte(`{"spec":{"members":[null,{"roles":["owner"]}]}}`), "", false)
	f.Add([]byte(`{"metadata":{"deletionTimestamp":""}}`), "\xff", true)
	f.Add([]byte(`{}"`), "alice", true)
	f.Fuzz(func(t *testing.T, object []byte, user string, create bool) {
		// The server has read the surrounding review as JSON before it calls a handler. So a handler gets only objects that are JSON to their
		// end, and the test skips all others.
		if read := (map[string]any{}); !json.Valid(object) || review.Decode(object, &read) != nil {
			return
		}
		request := &review.Request{Operation: review.Update, Object: object, User: review.User{Name: strings.ToValidUTF8(user, "?")}}
		if create {
			request.Operation = review.Create
		}
		_, _ = reviewtest.Handle(t, ownership, request)
	})
}
