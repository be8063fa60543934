package manifest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf16"

	. "github.com/onsi/gomega"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/espalier-dev/espalier/test/generate"
)

// pick returns one of the values.
func pick[T any](random *rand.Rand, values ...T) T { return values[random.IntN(len(values))] }

// generatedDocument returns the text of an object in one of the notations of YAML and JSON. Lines end with a line feed.
func generatedDocument(random *rand.Rand, name string) string {
	return fmt.Sprintf(pick(random,
		"name: %s\ndata: x\n",
		"name: %s\ndata:\n  k: |\n    x\n    ---\n    y\n",
		"name: %s\ndata: >-\n  a\n  ...\n  b\n\n",
		"name: %s\ndata: [a, 'it''s', \"b\\n---\\n\"] # remark\n",
		"{name: %s, data: {a: b}}\n",
		"{\"name\": %q, \"data\": {\"a\": [1, null]}}\n",
		" {\"name\": %q}\n", // with two spaces, it would belong to the text of a document before it
		"# remark\nname: %s\n",
		"!!map\nname: %s\ndata: &a x\nmore: *a\n",
		"? name\n: %s\n",
		"\"name\": %q\ndata: \"a\n  b\"\n",
		"\nname: %s\ndata: |+\n  x\n\n",
	), name)
}

// usualBreak returns text between two documents that separates them for all tools.
func usualBreak(random *rand.Rand) string {
	return pick(random, "---\n", "---\n", "--- \n", "---\t\n", "--- # remark\n", "---\n---\n", "---\n# nothing\n---\nnull\n---\n",
		"...\n---\n", "---\n\ufeff")
}

// unusualBreak returns text between two documents that separates them for at most one version of YAML.
func unusualBreak(random *rand.Rand) string {
	return pick(random,
		"...\n", "...\n---\n", "... # remark\n---\n", "...\n...\n", "...\n%YAML 1.1\n---\n", "...\n%TAG ! tag:example.com,2000:\n---\n",
		"--- !!map\n", "--- ", "--- &a\n", "----\n", "\u2028---\n", "\u0085---\u0085", "\u2029---\u2029", "\r---\r", "---\r", "--- # remark\r",
		"--- # remark\u2028", "--- # remark\u0085", "\ufeff---\n", "\ufeff", "\f---\n", "\v", ",\n", "\n", " ---\n", "\u00a0---\n",
	)
}

// encode returns text in an encoding: as it is, with a byte order mark, or in UTF-16 or UTF-32 with or without one.
func encode(random *rand.Rand, text string) []byte {
	var order binary.AppendByteOrder = binary.LittleEndian
	if random.IntN(2) == 0 {
		order = binary.BigEndian
	}
	mark := pick(random, "", "\ufeff")
	var encoded []byte
	switch random.IntN(8) {
	case 0:
		for _, unit := range utf16.Encode([]rune(mark + text)) {
			encoded = order.AppendUint16(encoded, unit)
		}
	case 1:
		for _, character := range mark + text {
			encoded = order.AppendUint32(encoded, uint32(character))
		}
	case 2:
		return []byte(mark + text)
	default:
		return []byte(text)
	}
	return encoded
}

// usualValue returns a value of a Secret with so many documents, as all tools read it.
func usualValue(random *rand.Rand, count int) []byte {
	var text strings.Builder
	text.WriteString(pick(random, "---\n", "# remark\n", "\n# remark\n", "\ufeff---\n"))
	for number := range count {
		if number > 0 {
			text.WriteString(usualBreak(random))
		}
		text.WriteString(generatedDocument(random, nameOf(number)))
	}
	text.WriteString(pick(random, "", "", "---\n", "...\n", "---", "# remark"))
	return []byte(strings.ReplaceAll(text.String(), "\n", pick(random, "\n", "\r\n")))
}

// unusualValue returns a value of a Secret with so many documents, in notations that tools read differently.
func unusualValue(random *rand.Rand, count int) []byte {
	var text strings.Builder
	text.WriteString(pick(random, "", "", "", "---\n", "%YAML 1.1\n---\n", "# remark\n", "\n", "\ufeff", "---\r"))
	for number := range count {
		if number > 0 {
			text.WriteString(pick(random, usualBreak, unusualBreak)(random))
		}
		text.WriteString(generatedDocument(random, nameOf(number)))
	}
	text.WriteString(pick(random, "", "", "---\n", "...\n", "---", "\r", "# remark", "\u2028---\n"))
	lineEnd := pick(random, "\n", "\n", "\n", "\n", "\r\n", "\r", "\u0085", "\u2028", "\u2029", "\n\r")
	return encode(random, strings.ReplaceAll(text.String(), "\n", lineEnd))
}

func nameOf(number int) string { return fmt.Sprintf("object-%d", number) }

// ours returns the objects that this package reads from a value, by name, and the first error.
func ours(value []byte) (map[string]any, error) {
	objects := map[string]any{}
	documents, fault := Split("key", value, 0)
	for _, document := range documents {
		object, err := document.Decode()
		if err != nil {
			return objects, err
		}
		if object != nil {
			objects[fmt.Sprint(object["name"])] = object
		}
	}
	if fault != nil {
		return objects, fault
	}
	return objects, nil
}

// ofKubectl returns the objects that kubectl would apply, and its first error.
func ofKubectl(value []byte) (map[string]any, error) {
	objects := map[string]any{}
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(value), 4096)
	for {
		var object map[string]any
		switch err := decoder.Decode(&object); {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return objects, err
		case object != nil:
			objects[fmt.Sprint(object["name"])] = object
		}
	}
}

// TestGeneratedYAMLIsReadWholeOrRefused joins documents with everything that separates documents in some version of YAML, in every
// encoding. Either all of the objects are read, or there is an error.
func TestGeneratedYAMLIsReadWholeOrRefused(t *testing.T) {
	whole, refused := 0, 0
	generate.Cases(t, 10_000, func(t *testing.T, random *rand.Rand) {
		t.Helper()
		count := 1 + random.IntN(4)
		value := unusualValue(random, count)
		if _, fault := ours(value); fault != nil {
			refused++
			return
		}
		whole++
		expectAll(t, value, count)
	})
	t.Logf("%d values were read, %d refused", whole, refused)
}

// TestGeneratedUsualYAMLIsReadAsByKubectl joins documents as all tools understand it.
func TestGeneratedUsualYAMLIsReadAsByKubectl(t *testing.T) {
	generate.Cases(t, 5_000, func(t *testing.T, random *rand.Rand) {
		t.Helper()
		count := 1 + random.IntN(4)
		value := usualValue(random, count)
		expectAll(t, value, count)
		reference, err := ofKubectl(value)
		g := NewWithT(t)
		g.Expect(err).NotTo(HaveOccurred(), "%q", value)
		g.Expect(reference).To(HaveLen(count), "%q", value)
	})
}

// expectAll requires that all objects of a value are read, and that kubectl reads the same objects, if it reads all of them.
func expectAll(t *testing.T, value []byte, count int) {
	t.Helper()
	g := NewWithT(t)
	read, fault := ours(value)
	g.Expect(fault).NotTo(HaveOccurred(), "%q", value)
	for number := range count {
		g.Expect(read).To(HaveKey(nameOf(number)), "dropped from %q", value)
	}
	g.Expect(read).To(HaveLen(count), "%q", value)
	if reference, err := ofKubectl(value); err == nil && len(reference) == count && reference["<nil>"] == nil {
		expected, err := json.Marshal(reference)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(json.Marshal(read)).To(MatchJSON(expected), "%q", value)
	}
}
