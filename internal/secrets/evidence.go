package secrets

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Evidence describes the observed objects that refer to the keys of a logical name. If the current Secret does not exist, Evidence decides
// whether a new key may be generated. If the current Secret exists, it decides whether the current key may replace the keys in use.
// Without the right key, data cannot be read, and tokens and certificates are refused. So a new key must not replace a lost key.
type Evidence struct {
	// Preparing is true while a rotation to a new key is being prepared.
	Preparing bool
	// Generation is a clause for messages that says which key the status of the owner knows. It is empty if the status knows no key, or only
	// the key that is being prepared.
	Generation string
	// Secrets are the Secrets with keys of the logical name that were not rotated away.
	Secrets []metav1.ObjectMeta
	// Uses are objects, other than the Secrets with the keys, that need a key of the logical name or contain a part of such a key: for
	// example "Deployment garden/web", or the bundle of an authority. Marked are the objects that need the missing key.
	Uses, Marked []string
	// Lost contains texts about objects that use another key of the logical name, if that key does not exist either: for example "Deployment
	// garden/web uses Secret key-01234567-89abc".
	Lost []string
	// InUse are the keys of the logical name that an object of the owner uses, although they do not exist. The current one is not among them.
	InUse []LostKey
	// Volumes are volumes with data that are older than the owner.
	Volumes []string
	// Confirmed is true if a user has confirmed that the current key is lost, so that it may be generated again.
	Confirmed bool
}

// LostKey is a key whose Secret does not exist.
type LostKey struct {
	// Name is the name of the Secret, and User an object that uses it, for example "Deployment garden/web".
	Name, User string
	// Confirmed is true if a user has confirmed that it is lost.
	Confirmed bool
}

// Replaced returns a lost key that the current key must not replace, or nil if there is no such key. The current key exists, but the
// status of the owner may be from before the rotation that generated the lost key. The current key may replace a lost key if a user has
// confirmed the loss of that key. If a user has confirmed the loss of the current key, so that it was generated again, it may replace any
// key.
func (e Evidence) Replaced() *LostKey {
	for i := range e.InUse {
		if !e.InUse[i].Confirmed && !e.Confirmed {
			return &e.InUse[i]
		}
	}
	return nil
}

// Refusal returns why no new key may be generated. Empty: it may.
func (e Evidence) Refusal() string {
	ambiguity := e.ambiguous()
	switch {
	case ambiguity != "": // no key was lost
		return ambiguity
	case e.Confirmed:
		return ""
	case len(e.Marked) > 0:
		return e.Marked[0] + " uses it"
	case e.Preparing && len(e.Secrets) > 0:
		return ""
	case len(e.Secrets) > 0:
		return fmt.Sprintf("Secret %s of another generation exists", e.Secrets[0].Name)
	case e.Preparing && len(e.Uses) > 0:
		return e.Uses[0] + " uses the one before it, which is missing, too"
	case len(e.Uses) > 0:
		return e.Uses[0] + " uses one of another generation"
	case e.Generation != "":
		return e.Generation
	case len(e.Volumes) > 0:
		return e.Volumes[0] + " is older, and may have data that need it"
	}
	return ""
}

// Confirmable reports whether the confirmation that the missing key is lost ends the refusal.
func (e Evidence) Confirmable() bool { return e.ambiguous() == "" }

// ambiguous returns why the preparation of a rotation does not know which Secret has the old key, or "" if it knows the Secret. There are
// two reasons. Either the Secrets are from several generations, because the status is older than the last rotation, or because a Secret
// was restored after a rotation had dropped it. Or the key in use is missing, so that an existing Secret has an older key.
func (e Evidence) ambiguous() string {
	if e.Preparing && len(e.Secrets) > 0 && len(e.Lost) > 0 {
		return fmt.Sprintf("%s, which is missing, and Secret %s is from an earlier rotation: restore the former, or delete the latter",
			e.Lost[0], e.Secrets[0].Name)
	}
	for i := range e.Secrets {
		if e.Preparing && Generation(&e.Secrets[i]) != Generation(&e.Secrets[0]) {
			return fmt.Sprintf("the Secrets %s and %s are from two earlier rotations: delete the one that nothing needs, or restore a status "+
				"from after both", e.Secrets[0].Name, e.Secrets[i].Name)
		}
	}
	return ""
}

// Generation returns the start of the rotation that a Secret is from, in Unix seconds. A Secret from before the first one has 0.
func Generation(secret metav1.Object) int64 {
	seconds, _ := strconv.ParseInt(secret.GetLabels()[LabelLastRotation], 10, 64) // a malformed label is reported where it is decisive
	return seconds
}

// IsNameOf reports whether a text is the name of a Secret of that logical name, of any generation, or of its bundle.
func IsNameOf(logicalName, text string) (is, isBundle bool) {
	rest, is := strings.CutPrefix(text, logicalName)
	rest, isBundle = strings.CutPrefix(rest, "-bundle")
	is = is && checksums.FindString(rest) == rest && rest != ""
	return is, is && isBundle
}

// checksums matches the end of the name of a Secret.
var checksums = regexp.MustCompile(`-[0-9a-f]{8}(-[0-9a-f]{5})?$`)

// NamesIn returns the words of a text that end with a checksum, in sorted order: these words may be names of managed Secrets of any
// logical name. Words consist of lower-case letters, digits, "-" and ".".
func NamesIn(text []byte) []string {
	names := sets.Set[string]{}
	for word := range bytes.FieldsFuncSeq(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '.'
	}) {
		if bytes.IndexByte(word, '-') > 0 && checksums.Match(word) {
			names.Insert(string(word))
		}
	}
	return sets.List(names)
}
