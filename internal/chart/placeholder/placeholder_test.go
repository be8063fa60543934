package placeholder_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/chart/placeholder"
)

func TestReplace(t *testing.T) {
	resources := placeholder.Resources{"login": {"user": "me", "quote": `a"b`}, "my-login": {"pass.word": "{{ .resources.login.data.user }}"}}
	for name, tc := range map[string]struct {
		values, want string
		fails        string
	}{
		"no values": {},
		"no placeholders": {
			values: `{"a": ["b", 12345678901234567890, null, {"c": true}]}`, want: `{"a": ["b", 12345678901234567890, null, {"c": true}]}`,
		},
		"a whole value":       {values: `{"a": ["{{ .resources.login.data.user }}"]}`, want: `{"a": ["me"]}`},
		"a part of a value":   {values: `{"a": "({{.resources.login.data.user}}@x)"}`, want: `{"a": "(me@x)"}`},
		"an encoded value":    {values: `{"a": "{{ .resources.login.data.user | b64enc }}"}`, want: `{"a": "bWU="}`},
		"a text with a quote": {values: `{"a": "{{ .resources.login.data.quote }}"}`, want: `{"a": "a\"b"}`},
		"keys stay":           {values: `{"{{ .resources.login.data.user }}": 1}`, want: `{"{{ .resources.login.data.user }}": 1}`},
		"a text is not parsed": {
			values: `{"a": "{{ index .resources \"my-login\" \"data\" \"pass.word\" }}"}`, want: `{"a": "{{ .resources.login.data.user }}"}`,
		},

		"a resource that is absent": {values: `{"a": {"b": [0, "{{ .resources.x.data.user }}"]}}`, fails: `a.b[1]: resource "x" does not exist`},
		"a key that is absent":      {values: `{"a": "{{ .resources.login.data.x }}"}`, fails: `a: resource "login" has no key "x"`},
		"a list":                    {values: `["secret"]`, fails: "values are not a JSON object"},
		"a loop":                    {values: `{"a": "{{ range 1000000000000 }}x{{ end }}"}`, fails: "a: a placeholder must have the form"},
		"a definition":              {values: `{"a": "{{ define \"x\" }}{{ end }}"}`, fails: "a: a placeholder must have the form"},
		"a call":                    {values: `{"a": "{{ printf \"%1000000000d\" 1 }}"}`, fails: "a: a placeholder must have the form"},
		"a variable":                {values: `{"a": "{{ $x := .resources.login.data.user }}"}`, fails: "a: a placeholder must have the form"},
		"everything":                {values: `{"a": "{{ . }}"}`, fails: "a: a placeholder must have the form"},
		"another function":          {values: `{"a": "{{ .resources.login.data.user | index }}"}`, fails: "a: a placeholder must have the form"},
		"an index of no resources":  {values: `{"a": "{{ index \"resources\" \"x\" }}"}`, fails: "a: a placeholder must have the form"},
		"an open placeholder":       {values: `{"a": "{{ secret"}`, fails: "a: a placeholder must have the form"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			replaced, err := placeholder.Replace([]byte(tc.values), resources)
			if tc.fails != "" {
				g.Expect(err).To(MatchError(HavePrefix(tc.fails)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			if tc.want == "" {
				g.Expect(replaced).To(BeEmpty())
				return
			}
			g.Expect(string(replaced)).To(Equal(strings.ReplaceAll(strings.ReplaceAll(tc.want, ": ", ":"), ", ", ",")))
		})
	}
}

func TestNames(t *testing.T) {
	g := NewWithT(t)
	g.Expect(placeholder.Names([]byte(
		`{"a": "{{ .resources.b.data.x }}{{ .resources.a.data.y }}", "c": ["{{ index .resources \"b\" \"data\" \"z\" }}"]}`,
	))).To(Equal([]string{"a", "b"}))
	_, err := placeholder.Names([]byte(`{"a": "{{ .x }}"}`))
	g.Expect(err).To(MatchError(HavePrefix("a: a placeholder must have the form")))
}
