package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/admission/reviewtest"
	"github.com/espalier-dev/espalier/internal/project/webhook"
)

// creatorLimitProjects lists two Projects a page.
type creatorLimitProjects struct {
	client.Reader
	all   []corev1beta1.Project
	err   error
	pages int
}

func (p *creatorLimitProjects) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	asked := &client.ListOptions{}
	asked.ApplyOptions(options)
	page, ok := list.(*corev1beta1.ProjectList)
	if !ok || asked.Limit != 500 {
		return errors.New("asked for something else")
	}
	p.pages++
	begin := 0
	if asked.Continue != "" {
		if _, err := fmt.Sscan(asked.Continue, &begin); err != nil {
			return err
		}
	}
	end := min(begin+2, len(p.all))
	page.Items = p.all[begin:end]
	if end < len(p.all) {
		page.Continue = strconv.Itoa(end)
	}
	return p.err
}

func creatorLimitCreated(name, kind, by string) corev1beta1.Project {
	p := corev1beta1.Project{}
	p.Name, p.Spec.CreatedBy = name, &rbacv1.Subject{Kind: kind, Name: by}
	return p
}

func TestCreatorLimit(t *testing.T) {
	allowed := review.Response{Allowed: true, Code: 200}
	create := review.Request{Operation: review.Create, User: review.User{Name: "alice"}, Object: []byte(`{}`)}
	three := []corev1beta1.Project{
		creatorLimitCreated("c", "User", "alice"), creatorLimitCreated("b", "User", "bob"),
		{},
		creatorLimitCreated("g", "Group", "alice"),
		creatorLimitCreated("a", "User", "alice"), creatorLimitCreated("d", "User", "alice"),
	}
	var seven []corev1beta1.Project
	for i := range 7 {
		seven = append(seven, creatorLimitCreated(fmt.Sprintf("p%d", i), "User", "alice"))
	}
	for name, tc := range map[string]struct {
		request  review.Request
		limit    int
		projects creatorLimitProjects
		want     review.Response
		pages    int
	}{
		"fewer than the limit": {create, 4, creatorLimitProjects{all: three}, allowed, 3},
		"as many as the limit": {
			create, 3,
			creatorLimitProjects{all: three},
			review.Response{
				Code: 403, Reason: "Forbidden",
				Message: `user "alice" has created 3 projects (a, c, d), and may have created at most 3: delete one that is not needed, or ask an ` +
					`administrator to raise espalier.project.maxProjectsPerCreator`,
			},
			3,
		},
		"more than are named": {
			create, 1,
			creatorLimitProjects{all: seven},
			review.Response{
				Code: 403, Reason: "Forbidden",
				Message: `user "alice" has created 7 projects (p0, p1, p2, p3, p4, …), and may have created at most 1: delete one that is not ` +
					`needed, or ask an administrator to raise espalier.project.maxProjectsPerCreator`,
			},
			4,
		},
		"no limit": {create, 0, creatorLimitProjects{all: seven}, allowed, 0},
		"an update": {
			review.Request{Operation: review.Update, User: review.User{Name: "alice"}}, 1, creatorLimitProjects{all: seven}, allowed, 0,
		},
		"an error of the API server": {
			create, 1,
			creatorLimitProjects{err: errors.New("down")},
			review.Response{Code: 500, Message: "count Projects of their creator: down"},
			1,
		},
		"a user without Project": {
			review.Request{Operation: review.Create, User: review.User{Name: "carol"}}, 1, creatorLimitProjects{all: seven}, allowed, 4,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			settings := webhook.Settings{Live: &tc.projects, MaxProjectsPerCreator: tc.limit}
			response, _ := reviewtest.Handle(t, handler("creator-limit", settings), &tc.request)
			g.Expect(response).To(BeComparableTo(tc.want))
			g.Expect(tc.projects.pages).To(Equal(tc.pages))
		})
	}
}
