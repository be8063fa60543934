// Package tokenmount mounts tokens that expire into Pods whose ServiceAccount forbids the API server to mount any. Nothing
// else of the Pod changes, and ephemeral containers get no mount. Whether a Pod opts out is for the selectors of the webhook
// configuration to say, not for the handler.
package tokenmount

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/webhook/object"
)

const (
	// Name is the handler's in metrics and logs.
	Name = "projected-token-mount"
	// Path is where it is served.
	Path = "/webhooks/mount-projected-service-account-token"
)

// ServiceAccounts looks up ServiceAccounts.
type ServiceAccounts interface {
	// Automount returns what a ServiceAccount says about mounting its tokens; nil if it says nothing. The error is that of
	// an API server: NotFound if there is no such ServiceAccount.
	Automount(ctx context.Context, namespace, name string) (*bool, error)
}

// Handler changes Pods that are created.
type Handler struct {
	// ExpirationSeconds is the lifetime of tokens for Pods whose annotations do not say another one. API servers take no
	// less than 600.
	ExpirationSeconds int64
	// ServiceAccounts are those of the cluster whose API server asks.
	ServiceAccounts ServiceAccounts
}

// Handle implements review.Handler.
func (h Handler) Handle(ctx context.Context, request *review.Request) review.Response {
	found := pod{}
	if verdict, judged := object.Read(request, corev1.SchemeGroupVersion.WithKind("Pod"), &found); judged {
		return verdict
	}
	name := account(found)
	if name == "" {
		return review.Allowed("")
	}
	automount, err := h.ServiceAccounts.Automount(ctx, request.Namespace, name)
	if err != nil {
		return review.Unjudged(err)
	}
	changes, err := plan(found, automount, h.ExpirationSeconds)
	if err != nil {
		return review.Denied(err.Error())
	}
	return review.Patched(changes)
}
