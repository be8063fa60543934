// Package creatorlimit refuses to create more Projects than one user may have created. It counts those that exist, also the
// ones that are being deleted, by who created them, not by owner. It asks the API server each time and writes nothing.
//
// Nobody may exceed the limit: who needs more Projects has others create them, or the limit raised. Requests in the same
// moment can exceed it by as many as they are.
package creatorlimit

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/excerpt"
	"github.com/espalier-dev/espalier/internal/project/webhook/normalform"
)

const (
	// Name is the handler's in metrics and logs.
	Name = "creator-limit"
	// Path is where it is served.
	Path = "/webhooks/validate-project-creator"
)

// All Projects are counted.
// +kubebuilder:rbac:groups=core.gardener.cloud,resources=projects,verbs=list

// pageSize is how many Projects are read at once.
const pageSize = 500

// named is how many Projects a refusal names.
const named = 5

// Handler judges the creation of Projects.
type Handler struct {
	// Projects lists Projects. It must not read from a cache.
	Projects client.Reader
	// Limit is how many Projects a user may have created; 0 for any number, for which nothing is read.
	Limit int
}

// Handle implements review.Handler.
func (h *Handler) Handle(ctx context.Context, request *review.Request) review.Response {
	if h.Limit == 0 || request.SubResource != "" || request.Operation != review.Create {
		return review.Allowed("")
	}
	created, err := h.createdBy(ctx, request.User.Name)
	if err != nil {
		return review.Errored(http.StatusInternalServerError, err)
	}
	if len(created) < h.Limit {
		return review.Allowed("")
	}
	return review.Denied(refusal(request.User.Name, created, h.Limit))
}

func refusal(user string, created []string, limit int) string {
	slices.Sort(created)
	list := strings.Join(created[:min(named, len(created))], ", ")
	if len(created) > named {
		list += ", …"
	}
	return fmt.Sprintf("user %q has created %d projects (%s), and may have created at most %d: delete one that nobody needs, or ask an administrator to raise espalier.project.maxProjectsPerCreator",
		excerpt.Quoted(user), len(created), list, limit)
}

// createdBy returns the names of the Projects that a user has created.
func (h *Handler) createdBy(ctx context.Context, user string) ([]string, error) {
	var names []string
	next := ""
	for {
		page := &corev1beta1.ProjectList{}
		if err := h.Projects.List(ctx, page, client.Limit(pageSize), client.Continue(next)); err != nil {
			return nil, fmt.Errorf("count Projects of their creator: %w", err)
		}
		for i := range page.Items {
			creator := page.Items[i].Spec.CreatedBy
			if creator != nil && creator.Kind == normalform.User && creator.Name == user {
				names = append(names, page.Items[i].Name)
			}
		}
		next = page.Continue
		if next == "" {
			return names, nil
		}
	}
}
