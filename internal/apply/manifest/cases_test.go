package manifest

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// Each text separates or encodes its documents in another way. Either all documents that kubectl would apply are read, or the whole text is
// refused.
func TestDocumentsAreReadAsByKubectlOrRefused(t *testing.T) {
	object := func(name string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\ndata:\n  k: v\n", name)
	}
	inJSON := func(name string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q}}`, name)
	}
	const mark = "\ufeff"
	for name, tc := range map[string]struct {
		text string
		// want are the names of the objects. refused is a part of the error, "" if the text is accepted.
		want    []string
		refused string
	}{
		"space after the separator": {
			text: object("a") + "--- \n" + object("b") + "---\t\n" + object("c") + "--- # remark\n" + object("d") + "---\n",
			want: []string{"a", "b", "c", "d"},
		},
		"a mark before each document":  {text: mark + object("a") + "---\n" + mark + object("b"), want: []string{"a", "b"}},
		"a mark before the separator":  {text: mark + "---\n" + object("a"), want: []string{"a"}},
		"a mark before JSON":           {text: mark + inJSON("a"), want: []string{"a"}},
		"line ends of Windows":         {text: strings.ReplaceAll(object("a")+"---\n"+object("b"), "\n", "\r\n"), want: []string{"a", "b"}},
		"a document after the end":     {text: object("a") + "...\n" + object("b"), refused: "content follows the end"},
		"the end and a new start":      {text: object("a") + "...\n---\n" + object("b") + "...\n", want: []string{"a", "b"}},
		"a line separator":             {text: object("a") + "\u2028---\n" + object("b"), refused: "content follows the end"},
		"a separator inside of a text": {text: object("a") + "  t: |\n    x\n    ---\n    y\n", want: []string{"a"}},
		"a certificate inside":         {text: object("a") + "  t: |\n    -----BEGIN X-----\n    AA==\n", want: []string{"a"}},
		"an anchor":                    {text: object("a") + "  x: &x \"1\"\n  y: *x\n", want: []string{"a"}},
		"a merge key": {
			text: "common: &c {labels: {a: b}}\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  <<: *c\n  name: a\n  labels: {a: c}\n",
			want: []string{"a"},
		},
		"a key twice":             {text: object("a") + "  k: w\n", refused: "a key occurs twice"},
		"texts like numbers":      {text: object("a") + "  o: \"0644\"\n  u: \"1_000\"\n  t: \"12:30:45\"\n", want: []string{"a"}},
		"a directive":             {text: "%YAML 1.1\n---\n" + object("a"), want: []string{"a"}, refused: "expected <document start>"},
		"a tab":                   {text: "apiVersion: v1\nkind: ConfigMap\nmetadata:\n\tname: a\n", refused: "invalid YAML"},
		"bytes of another coding": {text: object("a") + "  c: \"caf\xe9\"\n", refused: "invalid YAML"},
		"a comma between JSON":    {text: inJSON("a") + ",\n" + inJSON("b"), want: []string{"a"}, refused: "invalid JSON"},
		"JSON and YAML": {
			text: inJSON("a") + "\n---\n" + inJSON("b") + "\n---\n" + object("c"), want: []string{"a", "b", "c"},
		},
		"a list of objects": {text: "[" + inJSON("a") + "]", refused: "not an object"},
		"nothing":           {text: "\n\n---\n---\n# nothing\n---\nnull\n---\n~\n"},
		"an empty text":     {text: "---\n\"\"\n", refused: "not an object"},
		"content on the separator": {
			text: object("a") + "--- " + inJSON("b") + "\n", refused: "content on the same line",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var names, faults []string
			documents, fault := Split("key", []byte(tc.text), 0)
			if fault != nil {
				faults = append(faults, fault.Error())
			}
			for _, document := range documents {
				switch content, err := document.Decode(); {
				case err != nil:
					faults = append(faults, err.Error())
				case content != nil:
					metadata, _ := content["metadata"].(map[string]any)
					names = append(names, fmt.Sprint(metadata["name"]))
				}
			}
			g.Expect(names).To(Equal(tc.want))
			if tc.refused == "" {
				g.Expect(faults).To(BeEmpty())
			} else {
				g.Expect(faults).To(ConsistOf(ContainSubstring(tc.refused)))
			}
		})
	}
}
