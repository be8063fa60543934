package object

import (
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Kept is an item of a list: its decoded fields, and the whole item in JSON, so that a handler can write the list again without losing
// fields of the item that this code does not know.
type Kept[T any] struct {
	Read T
	sent jsontext.Value
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (k *Kept[T]) UnmarshalJSONFrom(decoder *jsontext.Decoder) error {
	sent, err := decoder.ReadValue()
	if err != nil {
		return err // the response contains this text
	}
	k.sent = sent.Clone()
	err = json.Unmarshal(k.sent, &k.Read, decoder.Options())
	if wrong, ok := errors.AsType[*json.SemanticError](err); ok { // its pointer is relative to the item
		wrong.JSONPointer = decoder.StackPointer() + wrong.JSONPointer
	}
	return err // the response contains this text
}

// MarshalJSON returns the item as it was sent.
func (k Kept[T]) MarshalJSON() ([]byte, error) { return k.sent, nil }
