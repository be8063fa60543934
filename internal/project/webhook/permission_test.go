package webhook_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/admission/reviewtest"
	"github.com/espalier-dev/espalier/internal/project/webhook"
)

// permissionAuthorizer allows the actions in allows, and records the questions.
type permissionAuthorizer struct {
	allows map[string]bool
	err    error
	asked  []string
}

func (a *permissionAuthorizer) Allowed(_ context.Context, user review.User, action webhook.Action, project string) (bool, error) {
	what := strings.TrimSuffix(action.Verb+" "+action.SubResource, " ")
	a.asked = append(a.asked, user.Name+" "+what+" "+project)
	return a.allows[what], a.err
}

const (
	permissionOwned = `{"metadata":{"name":"p"},"spec":{"owner":{"kind":"User","name":"o"}}}`
	permissionTaken = `{"metadata":{"name":"p"},"spec":{"owner":{"kind":"User","name":"eve"},"members":[{"kind":"User","name":"eve"}],` +
		`"tolerations":{"whitelist":[{"key":"a"}]}}}`
)

func TestPermission(t *testing.T) {
	const (
		whitelist = `user "eve" is not allowed to modify .spec.tolerations.whitelist for "projects"`
		owner     = `user "eve" is not allowed to manage owner in .spec.owner for "projects"`
		members   = `user "eve" is not allowed to manage human users or groups in .spec.members for "projects"`
	)
	forbidden := func(message string) review.Response {
		return review.Response{Code: 403, Reason: "Forbidden", Message: message}
	}
	allowed := review.Response{Allowed: true, Code: 200}
	for name, tc := range map[string]struct {
		request    review.Request
		authorizer permissionAuthorizer
		want       review.Response
		asked      []string
	}{
		"all verbs are asked for, each once": {
			request: review.Request{Operation: review.Update, Object: []byte(permissionTaken), OldObject: []byte(permissionOwned)},
			want:    forbidden(whitelist + ", " + owner + ", " + members),
			asked:   []string{"eve modify-spec-tolerations-whitelist p", "eve manage-members p"},
		},
		"one verb is not enough for two": {
			request:    review.Request{Operation: review.Update, Object: []byte(permissionTaken), OldObject: []byte(permissionOwned)},
			authorizer: permissionAuthorizer{allows: map[string]bool{"modify-spec-tolerations-whitelist": true}},
			want:       forbidden(owner + ", " + members),
			asked:      []string{"eve modify-spec-tolerations-whitelist p", "eve manage-members p"},
		},
		"who has both may": {
			request:    review.Request{Operation: review.Update, Object: []byte(permissionTaken), OldObject: []byte(permissionOwned)},
			authorizer: permissionAuthorizer{allows: map[string]bool{"modify-spec-tolerations-whitelist": true, "manage-members": true}},
			want:       allowed,
			asked:      []string{"eve modify-spec-tolerations-whitelist p", "eve manage-members p"},
		},
		"whose finalizer is removed": {
			request: review.Request{
				Operation: review.Update, Object: []byte(permissionOwned),
				OldObject: []byte(`{"metadata":{"finalizers":["gardener"]},"spec":{"owner":{"kind":"User","name":"eve"}}}`),
			},
			authorizer: permissionAuthorizer{allows: map[string]bool{"manage-members": true}},
			want:       forbidden(`user "eve" is not allowed to remove finalizer "gardener" for "projects"`),
			asked:      []string{"eve update finalizers p"},
		},
		"who may write finalizers removes it": {
			request: review.Request{
				Operation: review.Update, Object: []byte(permissionOwned),
				OldObject: []byte(`{"metadata":{"finalizers":["gardener"]},"spec":{"owner":{"kind":"User","name":"o"}}}`),
			},
			authorizer: permissionAuthorizer{allows: map[string]bool{"update finalizers": true}},
			want:       allowed,
			asked:      []string{"eve update finalizers p"},
		},
		"no review is sent for what needs no verb": {
			request: review.Request{Operation: review.Update, Object: []byte(permissionOwned), OldObject: []byte(permissionOwned)},
			want:    allowed,
		},
		"what was there without spec has no owner": {
			request: review.Request{Operation: review.Update, Object: []byte(permissionOwned), OldObject: []byte(`{}`)}, want: allowed,
		},
		"nor about the status": {
			request: review.Request{
				Operation: review.Update, SubResource: "status", Object: []byte(permissionTaken), OldObject: []byte(permissionOwned),
			},
			want: allowed,
		},
		"nor about a deletion": {
			request: review.Request{Operation: review.Delete, OldObject: []byte(permissionTaken)}, want: allowed,
		},
		"an authorizer that fails allows nothing": {
			request:    review.Request{Operation: review.Create, Object: []byte(permissionTaken)},
			authorizer: permissionAuthorizer{allows: map[string]bool{"modify-spec-tolerations-whitelist": true}, err: errors.New("down")},
			want:       review.Response{Code: 500, Message: `ask whether user "eve" may modify .spec.tolerations.whitelist: down`},
			asked:      []string{"eve modify-spec-tolerations-whitelist p"},
		},
		"an object that cannot be read": {
			request: review.Request{Operation: review.Create, Object: []byte(`[]`)},
			want:    review.Response{Code: 400, Message: "object: must not be a list"},
		},
		"an old object that cannot be read": {
			request: review.Request{Operation: review.Update, Object: []byte(permissionOwned), OldObject: []byte(`{"spec":1}`)},
			want:    review.Response{Code: 400, Message: "spec: must not be a number"},
		},
		"an update that has no old object": {
			request: review.Request{Operation: review.Update, Object: []byte(permissionOwned)},
			want:    review.Response{Code: 400, Message: "there is no content to decode"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			tc.request.User = review.User{Name: "eve"}
			response, _ := reviewtest.Handle(t, handler("permission", webhook.Settings{Authorizer: &tc.authorizer}), &tc.request)
			g.Expect(response).To(BeComparableTo(tc.want))
			g.Expect(tc.authorizer.asked).To(Equal(tc.asked))
		})
	}
}

func TestPermissionIsCheckedForTheUserOfTheRequest(t *testing.T) {
	for name, tc := range map[string]struct {
		status authorizationv1.SubjectAccessReviewStatus
		want   bool
	}{
		"allowed":            {authorizationv1.SubjectAccessReviewStatus{Allowed: true}, true},
		"no opinion":         {authorizationv1.SubjectAccessReviewStatus{}, false},
		"denied":             {authorizationv1.SubjectAccessReviewStatus{Denied: true}, false},
		"allowed and denied": {authorizationv1.SubjectAccessReviewStatus{Allowed: true, Denied: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var asked authorizationv1.SubjectAccessReviewSpec
			c := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
				Create: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
					review, ok := object.(*authorizationv1.SubjectAccessReview)
					g.Expect(ok).To(BeTrue())
					asked, review.Status = review.Spec, tc.status
					return nil
				},
			})
			user := review.User{Name: "eve", UID: "7", Groups: []string{"team"}, Extra: map[string][]string{"k": {"v"}}}
			allowed, err := webhook.APIServer{Client: c}.Allowed(t.Context(), user, webhook.Action{Verb: "update", SubResource: "finalizers"}, "p")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(allowed).To(Equal(tc.want))
			g.Expect(asked).To(Equal(authorizationv1.SubjectAccessReviewSpec{
				User: "eve", UID: "7", Groups: []string{"team"}, Extra: map[string]authorizationv1.ExtraValue{"k": {"v"}},
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Group: "core.gardener.cloud", Version: "v1beta1", Resource: "projects", Subresource: "finalizers", Verb: "update", Name: "p",
				},
			}))
		})
	}
}

func TestAnAPIServerThatDoesNotAnswerAllowsNothing(t *testing.T) {
	g := NewWithT(t)
	c := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return errors.New("down")
		},
	})
	allowed, err := webhook.APIServer{Client: c}.Allowed(t.Context(), review.User{}, webhook.Action{Verb: "manage-members"}, "p")
	g.Expect(err).To(MatchError("create SubjectAccessReview: down"))
	g.Expect(allowed).To(BeFalse())
}
