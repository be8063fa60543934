package references

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

const (
	// KindConfigMap is the kind of a ConfigMap in an annotation key.
	KindConfigMap = "configmap"
	// KindSecret is the kind of a Secret in an annotation key.
	KindSecret = "secret"

	hashLength = 8
)

// AnnotationKey returns the key of the annotation by which an object refers to the object of the given kind and name:
// the reference prefix, the kind, "-" and the first eight hex digits of the SHA-256 checksum of the name.
// The value of the annotation is the name.
func AnnotationKey(kind, name string) string {
	return resourcesv1alpha1.ReferencePrefix + kind + "-" + shortHash(name)
}

// KindFromAnnotationKey returns the kind in an annotation key, and whether key is the key of a reference: the reference prefix, followed by
// a kind and a hash with exactly one "-" in the rest. The kind may be any text that is not empty, and the hash is not compared with
// anything, so that every annotation with the form of a reference protects its object from deletion.
func KindFromAnnotationKey(key string) (kind string, ok bool) {
	rest, found := strings.CutPrefix(key, resourcesv1alpha1.ReferencePrefix)
	if !found {
		return "", false
	}
	kind, hash, found := strings.Cut(rest, "-")
	if !found || kind == "" || strings.Contains(hash, "-") {
		return "", false
	}
	return kind, true
}

func shortHash(text string) string {
	return fullHash(text)[:hashLength]
}

func fullHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
