// Package tokeninvalidator replaces static tokens of ServiceAccounts by what authenticates nobody, in Secrets that the token
// invalidator, a controller, has labelled, and drops that again where the label is gone. What Secrets hold is not told, by
// errors neither.
package tokeninvalidator

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/webhook/object"
)

const (
	// Name is the handler's in metrics and logs.
	Name = "token-invalidator"
	// Path is where it is served.
	Path = "/webhooks/invalidate-service-account-token-secret"
)

// Handler changes Secrets that are created or updated.
type Handler struct{}

// Handle implements review.Handler.
func (Handler) Handle(_ context.Context, request *review.Request) review.Response {
	if verdict, judged := object.Expect(request, corev1.SchemeGroupVersion.WithKind("Secret")); judged {
		return verdict
	}
	found := secret{}
	if err := request.Decode(&found); err != nil {
		return review.Undecodable(withoutValue(err))
	}
	changes, err := plan(found)
	if err != nil {
		return review.Undecodable(err)
	}
	return review.Patched(changes)
}

// withoutValue keeps where something is wrong of an error of the decoder, which quotes what it refuses.
func withoutValue(err error) error {
	if mismatch := (*json.SemanticError)(nil); errors.As(err, &mismatch) {
		return fmt.Errorf("object: wrong type within %q", string(mismatch.JSONPointer))
	}
	if syntax := (*jsontext.SyntacticError)(nil); errors.As(err, &syntax) {
		return fmt.Errorf("object: no JSON after byte %d", syntax.ByteOffset)
	}
	return err
}
