package expiry

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/espalier-dev/espalier/internal/excerpt"
)

// entry is a key of the annotation with its value. The value is nil if it is not valid JSON.
type entry struct {
	key   string
	value json.RawMessage
}

// parse returns the entries up to the point where the text is not valid JSON, and a sentence about that point if there is one. If the text
// is no JSON object, there are no entries, and the sentence says so. parse keeps entries with equal keys.
func parse(text string) (entries []entry, broken string) {
	decoder := json.NewDecoder(strings.NewReader(text))
	if first, err := decoder.Token(); err != nil || first != json.Delim('{') {
		return nil, "Annotation " + Annotation + " is no JSON object and has no effect: correct it"
	}
	for decoder.More() {
		token, err := decoder.Token()
		key, ok := token.(string)
		if err != nil || !ok {
			return entries, describeSyntaxError(decoder)
		}
		each := entry{key: key}
		err = decoder.Decode(&each.value)
		entries = append(entries, each)
		if err != nil {
			return entries, describeSyntaxError(decoder)
		}
	}
	if _, err := decoder.Token(); err != nil {
		return entries, describeSyntaxError(decoder)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return entries, describeSyntaxError(decoder)
	}
	return entries, ""
}

func describeSyntaxError(decoder *json.Decoder) string {
	return fmt.Sprintf("Annotation %s is no JSON after byte %d, and has no effect from there on: correct it", Annotation,
		decoder.InputOffset())
}

// subject returns the subject of the entry, and false if its key is malformed.
func (e entry) subject() (identity, bool) {
	kind, name, _ := strings.Cut(e.key, ":")
	switch kind {
	case rbacv1.UserKind, rbacv1.GroupKind:
		return identify(rbacv1.Subject{Kind: kind, Name: name}), name != ""
	case rbacv1.ServiceAccountKind:
		namespace, account, ok := strings.Cut(name, "/")
		return identity{kind, namespace, account}, ok && namespace != "" && account != "" && !strings.Contains(account, "/")
	}
	return identity{}, false
}

// endOfMembership returns when the membership ends, and false if the value is no time.
func (e entry) endOfMembership() (time.Time, bool) {
	var text string // stays empty for null
	if err := json.Unmarshal(e.value, &text); err != nil {
		return time.Time{}, false
	}
	at, err := time.Parse(time.RFC3339, text)
	return at, err == nil && !at.IsZero()
}

// quoted returns the value as it is in the annotation, in quotation marks.
func (e entry) quoted() string {
	if len(e.value) == 0 {
		return "what is there"
	}
	return excerpt.Quoted(string(e.value))
}

func (e entry) problem(text string) string {
	return fmt.Sprintf("Annotation %s: %q %s", Annotation, excerpt.Quoted(e.key), text)
}
