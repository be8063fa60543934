package webhook

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/excerpt"
)

// All Projects are counted.
// +kubebuilder:rbac:groups=core.gardener.cloud,resources=projects,verbs=list

// pageSize is how many Projects are read at once.
const pageSize = 500

// namedInRefusal is how many Projects a refusal names.
const namedInRefusal = 5

// checkCreatorLimit limits the number of Projects that a user may create. It counts the existing Projects that the user has created,
// whether or not the user is the owner. It also counts Projects that are being deleted. If a limit is configured, it reads all Projects
// from the API server for each request. It writes nothing.
//
// No user is exempt: a user that needs more Projects asks another user to create them, or an administrator to raise the limit. Each
// request that the API server processes at the same moment as another one can exceed the limit by one.
func (s Settings) checkCreatorLimit(ctx context.Context, request *review.Request) review.Response {
	limit := s.MaxProjectsPerCreator
	if limit == 0 {
		return review.Allowed("")
	}
	created, err := s.createdBy(ctx, request.User.Name)
	if err != nil || len(created) < limit {
		return respond("", err)
	}
	return review.Denied(creatorRefusal(request.User.Name, created, limit))
}

func creatorRefusal(user string, created []string, limit int) string {
	slices.Sort(created)
	list := strings.Join(created[:min(namedInRefusal, len(created))], ", ")
	if len(created) > namedInRefusal {
		list += ", …"
	}
	return fmt.Sprintf("user %q has created %d projects (%s), and may have created at most %d: delete one that is not needed, or ask an "+
		"administrator to raise espalier.project.maxProjectsPerCreator",
		excerpt.Quoted(user), len(created), list, limit)
}

// createdBy returns the names of the Projects that a user has created.
func (s Settings) createdBy(ctx context.Context, user string) ([]string, error) {
	var names []string
	next := ""
	for {
		page := &corev1beta1.ProjectList{}
		if err := s.Live.List(ctx, page, client.Limit(pageSize), client.Continue(next)); err != nil {
			return nil, fmt.Errorf("count Projects of their creator: %w", err)
		}
		for i := range page.Items {
			creator := page.Items[i].Spec.CreatedBy
			if creator != nil && creator.Kind == rbacv1.UserKind && creator.Name == user {
				names = append(names, page.Items[i].Name)
			}
		}
		next = page.Continue
		if next == "" {
			return names, nil
		}
	}
}
