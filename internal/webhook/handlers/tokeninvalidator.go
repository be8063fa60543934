package handlers

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/admission/patch"
	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/webhook/object"
)

// tokenInvalidator replaces the static token of a ServiceAccount by an invalid token if the controller token invalidator has labelled the
// Secret. It removes the invalid token from the Secret if the Secret no longer has the label. Its errors contain no data of the Secret.
func tokenInvalidator() Handler {
	return Handler{
		Name: "token-invalidator", Path: "/webhooks/invalidate-service-account-token-secret", Mutating: true,
		Section: "tokenInvalidator", Switch: func(w *config.Webhooks) *bool { return &w.TokenInvalidator.Enabled }, Registered: true,
		Webhooks: func(Cluster) []registration.Webhook {
			return []registration.Webhook{{
				Rules:      registration.Rules(registration.Rule(registration.OnWrite(), "", registration.Versions("v1"), "secrets")),
				Namespaces: registration.Selection{Standard: true},
				Objects: registration.Selection{
					Labels: registration.Labelled(resourcesv1alpha1.ResourcePurpose, resourcesv1alpha1.PurposeTokenInvalidator),
				},
			}}
		},
		Policy: tokenInvalidatorPolicy(),
		Review: func(Settings) review.Handler {
			return object.Judge(corev1.SchemeGroupVersion.WithKind("Secret"), invalidateToken)
		},
	}
}

func tokenInvalidatorPolicy() *Policy {
	// invalid is the invalid token, three zero bytes, in base64 as a CEL string.
	const invalid = "'AAAA'"
	const considered = "has(object.metadata.labels) && 'token-invalidator.resources.gardener.cloud/consider' in object.metadata.labels"
	return &Policy{
		Conditions: []admissionregistrationv1.MatchCondition{condition("has-data", "has(object.data)")},
		Patch: `(` + considered + `)
  ? [JSONPatch{op: 'add', path: '/data/token', value: ` + invalid + `}]
  : 'token' in object.data && object.data['token'] == ` + invalid + `
    ? [JSONPatch{op: 'remove', path: '/data/token'}]
    : []`,
	}
}

func invalidateToken(request *review.Request) review.Response {
	found := tokenSecret{}
	if err := request.Decode(&found); err != nil {
		return review.Undecodable(withoutValue(err))
	}
	changes, err := planInvalidation(found)
	if err != nil {
		return review.Undecodable(err)
	}
	return review.Patched(changes)
}

// withoutValue returns an error that names the field in which the decoder found an error. The decoder's own text would quote the value.
func withoutValue(err error) error {
	if mismatch := (*json.SemanticError)(nil); errors.As(err, &mismatch) {
		return fmt.Errorf("object: wrong type within %q", string(mismatch.JSONPointer))
	}
	if syntax := (*jsontext.SyntacticError)(nil); errors.As(err, &syntax) {
		return fmt.Errorf("object: no JSON after byte %d", syntax.ByteOffset)
	}
	return err
}

// tokenSecret is the part of a Secret that the handler reads.
type tokenSecret struct {
	Metadata struct {
		Labels struct {
			Consider *string `json:"token-invalidator.resources.gardener.cloud/consider"`
		} `json:"labels"`
	} `json:"metadata"`
	Data *tokenSecretData `json:"data"`
}

type tokenSecretData struct {
	// Token is not decoded, so that no error of the decoder quotes it.
	Token jsontext.Value `json:"token"`
}

var errToken = errors.New("data.token: must be a string in base64")

// invalidToken returns a token that authenticates no user.
func invalidToken() []byte { return []byte{0, 0, 0} }

// planInvalidation makes the token of a labelled Secret invalid. It removes an invalid token from a Secret without the label; then the
// kube-controller-manager creates a new token. It changes nothing in a Secret without data. Its error does not contain the token.
func planInvalidation(found tokenSecret) (patch.Patch, error) {
	changes := patch.Patch{}
	if found.Data == nil {
		return changes, nil
	}
	token, err := decodeToken(found.Data.Token)
	if err != nil {
		return nil, err
	}
	switch consider, isInvalid := found.Metadata.Labels.Consider != nil, bytes.Equal(token, invalidToken()); {
	case consider && !isInvalid:
		changes.Add("/data/token", invalidToken())
	case !consider && isInvalid:
		changes.Remove("/data/token")
	}
	return changes, nil
}

// decodeToken returns the bytes of a value in the field data; nil if the value is absent or null.
func decodeToken(value jsontext.Value) ([]byte, error) {
	switch value.Kind() {
	case jsontext.KindInvalid, jsontext.KindNull:
		return nil, nil
	case jsontext.KindString:
	default:
		return nil, errToken
	}
	encoded, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return nil, errToken
	}
	token, err := base64.StdEncoding.AppendDecode(nil, encoded)
	if err != nil {
		return nil, errToken
	}
	return token, nil
}
