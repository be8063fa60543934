package secrets

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Evidence describes the observed objects about the keys of a logical name whose current Secret does not exist. It decides whether a new
// key may be generated. Without a key, data cannot be read and tokens and certificates are refused, so a new one must not replace one that
// was lost.
type Evidence struct {
	// Preparing is true while a rotation to a new key is being prepared.
	Preparing bool
	// Generation says which key the status of the owner knows. Empty: none, or only the one that is being prepared.
	Generation string
	// Secrets are the Secrets with keys of the logical name that were not rotated away.
	Secrets []metav1.ObjectMeta
	// Uses are other objects that need a key of the logical name or have a part of it, for example "Deployment garden/web" and the bundle of
	// an authority. Marked are the objects that need the missing one.
	Uses, Marked []string
	// Lost says which objects use another key of the logical name that does not exist either, for example "Deployment garden/web uses Secret
	// key-01234567-89abc".
	Lost []string
	// Volumes are volumes with data that are older than the owner.
	Volumes []string
	// Confirmed is true if a user has confirmed that the missing key is lost.
	Confirmed bool
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

// ambiguous returns why a rotation does not know which Secret has the old key: there are several generations, because the status is older
// than the last rotation, or because a Secret was restored that had been rotated away; or the key in use is missing, so that an existing
// Secret is an older one. Empty: the rotation knows it.
func (e Evidence) ambiguous() string {
	if e.Preparing && len(e.Secrets) > 0 && len(e.Lost) > 0 {
		return fmt.Sprintf("%s, which is missing, and Secret %s is from an earlier rotation: restore the former, or delete the latter",
			e.Lost[0], e.Secrets[0].Name)
	}
	for i := range e.Secrets {
		if e.Preparing && generation(&e.Secrets[i]) != generation(&e.Secrets[0]) {
			return fmt.Sprintf("the Secrets %s and %s are from two earlier rotations: delete the one that nothing needs, or restore a status "+
				"from after both", e.Secrets[0].Name, e.Secrets[i].Name)
		}
	}
	return ""
}

// generation returns when the rotation began that a Secret is from, in Unix seconds. A Secret from before the first one has 0.
func generation(secret metav1.Object) int64 {
	seconds, _ := strconv.ParseInt(secret.GetLabels()[LabelLastRotation], 10, 64) // a malformed label is reported where it is decisive
	return seconds
}

// IsNameOf reports whether a text is the name of a Secret of that logical name, of any generation, or of its bundle.
func IsNameOf(logicalName, text string) (is, isBundle bool) {
	return matchName(nameOf(logicalName), text)
}

func matchName(name *regexp.Regexp, text string) (is, isBundle bool) {
	found := name.FindStringSubmatch(text)
	return found != nil, len(found) > 1 && found[1] != ""
}

// Mentions reports whether a text has such a name in it.
func Mentions(logicalName string, text []byte) bool { return hasWord(namesOf(logicalName), text) }

// KeysIn returns the names of Secrets with keys of a logical name that a text has in it. Bundles are left out.
func KeysIn(logicalName string, text []byte) []string {
	var names []string
	name := nameOf(logicalName)
	for _, each := range words.FindAll(text, -1) {
		if is, isBundle := matchName(name, string(each)); is && !isBundle && !slices.Contains(names, string(each)) {
			names = append(names, string(each))
		}
	}
	return names
}

// words matches texts between characters that no name has.
var words = regexp.MustCompile(`[a-z0-9.-]+`)

// MentionsName reports whether a text has the name of a Secret in it.
func MentionsName(name string, text []byte) bool { return hasWord(regexp.QuoteMeta(name), text) }

func nameOf(logicalName string) *regexp.Regexp {
	return regexp.MustCompile("^" + namesOf(logicalName) + "$")
}

func namesOf(logicalName string) string {
	return regexp.QuoteMeta(logicalName) + "(-bundle)?-[0-9a-f]{8}(-[0-9a-f]{5})?"
}

// hasWord reports whether a text has a match that no further character of a name follows or precedes.
func hasWord(expression string, text []byte) bool {
	return regexp.MustCompile(`(^|[^a-z0-9.-])(` + expression + `)($|[^a-z0-9.-])`).Match(text)
}
