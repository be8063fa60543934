// Package credentialtest finds the credentials in the objects of a Garden, and the rows of the registry that they belong to. It is for
// tests.
package credentialtest

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Found is a credential in an object. It does not contain the credential itself.
type Found struct {
	// Object is the kind, the namespace and the name of the object.
	Object string
	// Path names the fields and data keys on the way to the credential. If a field contains text in YAML or JSON, the path continues in it.
	Path string
	// Kind is the type of a PEM block, "token", or "value" for content of a field for credentials.
	Kind string
	// content are digests of the credential, as it is and decoded.
	content [][sha256.Size]byte
}

func (f Found) String() string { return fmt.Sprintf("%s in %s of %s", f.Kind, f.Path, f.Object) }

// Find returns the credentials in an object: PEM blocks, tokens in the format of JSON Web Tokens and of HTTP headers, and the content of
// fields and data keys for credentials. It also searches in base64, and in text in YAML and JSON such as kubeconfigs and manifests.
func Find(o *unstructured.Unstructured) []Found {
	s := search{object: fmt.Sprintf("%s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName())}
	s.value(o.Object, "")
	return s.found
}

type search struct {
	object string
	found  []Found
}

// fields are names of fields, and of data keys, whose content is a credential.
var fields = []string{"token", "password", "secret", "auth", "bearerToken", "clientSecret", "client-secret", "id_token", "refresh-token"}

var (
	webToken = regexp.MustCompile(`\beyJ[\w-]+\.eyJ[\w-]+\.[\w-]+`)
	header   = regexp.MustCompile(`\b(?:Bearer|Basic) ([\w.~+/=-]{8,})`)
)

// shortest is the length in bytes from which a value in a Secret counts as a credential if it is one word, whatever its key.
const shortest = 16

func (s *search) value(value any, path string) {
	switch v := value.(type) {
	case map[string]any:
		isSecret := v["kind"] == "Secret"
		for _, key := range slices.Sorted(maps.Keys(v)) {
			at := path + "." + key
			text, isText := v[key].(string)
			data, isData := v[key].(map[string]any)
			switch {
			case isSecret && key == "data" && isData:
				s.secret(data, at)
			case isText && text != "" && slices.Contains(fields, key):
				s.add("value", at, []byte(text))
			default:
				s.value(v[key], at)
			}
		}
	case []any:
		for i := range v {
			s.value(v[i], fmt.Sprintf("%s[%d]", path, i))
		}
	case string:
		s.text(v, path)
	}
}

// secret searches in the data of a Secret.
func (s *search) secret(data map[string]any, path string) {
	for _, key := range slices.Sorted(maps.Keys(data)) {
		at := path + "." + key
		encoded, _ := data[key].(string)
		content, err := base64.StdEncoding.DecodeString(encoded)
		before := len(s.found)
		switch {
		case err != nil || len(content) == 0:
			continue
		case strings.HasSuffix(key, ".csv"):
			for line := range strings.Lines(string(content)) {
				token, _, _ := strings.Cut(line, ",")
				s.add("token", at, []byte(token))
			}
		case !slices.Contains(fields, key):
			s.text(string(content), at)
		}
		isWord := len(content) >= shortest && !bytes.ContainsAny(content, " \n")
		if len(s.found) == before && (slices.Contains(fields, key) || isWord || !utf8.Valid(content)) {
			s.add("value", at, content)
		}
	}
}

func (s *search) text(text, path string) {
	before := len(s.found)
	for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
		s.add(block.Type, path, block.Bytes)
	}
	if len(s.found) > before {
		return
	}
	if parsed := parse(text); parsed != nil {
		for _, each := range parsed {
			s.value(each, path)
		}
		return
	}
	for _, token := range webToken.FindAllString(text, -1) {
		s.add("token", path, []byte(token))
	}
	for _, sent := range header.FindAllStringSubmatch(text, -1) {
		s.add("token", path, []byte(sent[1]))
	}
	if decoded, err := base64.StdEncoding.DecodeString(text); err == nil && len(decoded) >= shortest && utf8.Valid(decoded) {
		s.text(string(decoded), path)
	}
}

// parse returns the objects and lists in a text in YAML or JSON, nil if it has none.
func parse(text string) []any {
	if !strings.ContainsAny(text, ":{[") {
		return nil
	}
	var all []any
	for document := range strings.SplitSeq(text, "\n---\n") {
		var parsed any
		if yaml.Unmarshal([]byte(document), &parsed) != nil {
			return nil
		}
		switch parsed.(type) {
		case map[string]any, []any:
			all = append(all, parsed)
		}
	}
	return all
}

func (s *search) add(kind, path string, content []byte) {
	found := Found{Object: s.object, Path: path, Kind: kind, content: [][sha256.Size]byte{sha256.Sum256(content)}}
	if decoded, err := base64.StdEncoding.DecodeString(string(content)); err == nil {
		found.content = append(found.content, sha256.Sum256(decoded))
	}
	s.found = append(s.found, found)
}
