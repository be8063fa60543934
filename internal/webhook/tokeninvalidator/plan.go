package tokeninvalidator

import (
	"bytes"
	"encoding/base64"
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/espalier-dev/espalier/internal/admission/patch"
)

// secret is what the handler reads of a Secret.
type secret struct {
	Metadata struct {
		Labels struct {
			Consider *string `json:"token-invalidator.resources.gardener.cloud/consider"`
		} `json:"labels"`
	} `json:"metadata"`
	Data *secretData `json:"data"`
}

type secretData struct {
	// Token stays JSON, so that no error of the decoder quotes it.
	Token jsontext.Value `json:"token"`
}

var errToken = errors.New("data.token: must be a string in base64")

// invalid is a token that authenticates nobody.
func invalid() []byte { return []byte{0, 0, 0} }

// plan invalidates the token of a Secret that is labelled for that, and drops an invalid one where the label is gone, upon
// which the controller manager makes a new one. The error does not tell the token.
func plan(found secret) (patch.Patch, error) {
	changes := patch.Patch{}
	if found.Data == nil {
		return changes, nil
	}
	token, err := decode(found.Data.Token)
	if err != nil {
		return nil, err
	}
	switch consider, isInvalid := found.Metadata.Labels.Consider != nil, bytes.Equal(token, invalid()); {
	case consider && !isInvalid:
		changes.Add("/data/token", invalid())
	case !consider && isInvalid:
		changes.Remove("/data/token")
	}
	return changes, nil
}

// decode returns the bytes that a member of data stands for; nil if it is absent or null.
func decode(value jsontext.Value) ([]byte, error) {
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
