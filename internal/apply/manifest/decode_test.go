package manifest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

func TestDecode(t *testing.T) {
	for name, tc := range map[string]struct {
		document string
		want     map[string]any
	}{
		"no bytes":                     {document: ""},
		"an empty line":                {document: "\n"},
		"a comment":                    {document: "# nothing\n"},
		"null":                         {document: "null\n"},
		"tilde":                        {document: "~\n"},
		"only a separator":             {document: "---\n"},
		"an empty object is an object": {document: "{}\n", want: map[string]any{}},
		"whole numbers": {
			document: "a: 1\nb: -1\nc: 1.0\nd: 1e3\ne: 0x10\nf: 0b11\ng: 017\nh: 1_000\ni: -0.0\n",
			want: map[string]any{
				"a": int64(1), "b": int64(-1), "c": int64(1), "d": int64(1000), "e": int64(16), "f": int64(3), "g": int64(15), "h": int64(1000),
				"i": int64(0),
			},
		},
		"numbers that are not whole":          {document: "a: 1.5\nb: 1e-9\n", want: map[string]any{"a": 1.5, "b": 1e-9}},
		"the largest int64 keeps every digit": {document: "a: 9223372036854775807\n", want: map[string]any{"a": int64(9223372036854775807)}},
		"numbers beyond int64 become float64": {
			document: "a: 9223372036854775808\nb: 100000000000000000000\nc: 1e30\n",
			want:     map[string]any{"a": float64(1 << 63), "b": 1e20, "c": 1e30},
		},
		"booleans of YAML 1.1": {
			document: "a: yes\nb: off\nc: \"yes\"\nd: y\n", want: map[string]any{"a": true, "b": false, "c": "yes", "d": true},
		},
		"timestamps stay text": {
			document: "a: 2024-01-02\nb: 2024-01-02T03:04:05Z\n", want: map[string]any{"a": "2024-01-02", "b": "2024-01-02T03:04:05Z"},
		},
		"binary values are decoded": {
			document: "a: !!binary aGVsbG8=\nb: !!binary //5h\n", want: map[string]any{"a": "hello", "b": "\uFFFD\uFFFDa"},
		},
		"keys become text": {
			document: "1: a\ntrue: b\n1.5: c\n0x10: d\n.inf: e\n-.inf: f\n.nan: g\n",
			want:     map[string]any{"1": "a", "true": "b", "1.5": "c", "16": "d", ".inf": "e", "-.inf": "f", ".nan": "g"},
		},
		"aliases are resolved and not shared": {
			document: "a: &x {k: [v]}\nb: *x\n",
			want:     map[string]any{"a": map[string]any{"k": []any{"v"}}, "b": map[string]any{"k": []any{"v"}}},
		},
		"a merged key may be overridden": {
			document: "a: &x {k: v, l: w}\nb:\n  <<: *x\n  k: u\n",
			want:     map[string]any{"a": map[string]any{"k": "v", "l": "w"}, "b": map[string]any{"k": "u", "l": "w"}},
		},
		"block scalars, lists and null": {
			document: "a: |\n  x\n  y\nb:\n- 1\n- null\n-\nc:\n", want: map[string]any{"a": "x\ny\n", "b": []any{int64(1), nil, nil}, "c": nil},
		},
		"JSON after a separator": {
			document: "---\n {\"a\": 1.0, \"b\": [\"2\"]}\n", want: map[string]any{"a": int64(1), "b": []any{"2"}},
		},
		"flow YAML that is not JSON":           {document: "{a: 1, b: [x,]} # comment\n", want: map[string]any{"a": int64(1), "b": []any{"x"}}},
		"a byte order mark behind a separator": {document: "---\n\ufeffa: b\n", want: map[string]any{"a": "b"}},
		"an empty document may follow":         {document: "a: b\n...\n# comment\n", want: map[string]any{"a": "b"}},
		"a List is one object": {
			document: "apiVersion: v1\nkind: List\nitems:\n- kind: Pod\n",
			want:     map[string]any{"apiVersion": "v1", "kind": "List", "items": []any{map[string]any{"kind": "Pod"}}},
		},
		"a manifest without kind is decoded": {document: "metadata: {name: a}\n", want: map[string]any{"metadata": map[string]any{"name": "a"}}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got, err := Document{Raw: []byte(tc.document)}.Decode()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(tc.want))
			g.Expect(runtime.DeepCopyJSON(got)).To(Equal(tc.want))
		})
	}
}

func TestDecodeJSON(t *testing.T) {
	for name, tc := range map[string]struct {
		document string
		want     map[string]any
	}{
		"null": {document: "null"},
		"whole numbers": {
			document: `{"a":1,"b":1.0,"c":1e3,"d":-0}`, want: map[string]any{"a": int64(1), "b": int64(1), "c": int64(1000), "d": int64(0)},
		},
		"numbers beyond int64, and fractions": {
			document: `{"a":9223372036854775808,"b":0.5}`, want: map[string]any{"a": float64(1 << 63), "b": 0.5},
		},
		"text that YAML would read as another type": {
			document: `{"a":"yes","b":"1","2024-01-02":null}`, want: map[string]any{"a": "yes", "b": "1", "2024-01-02": nil},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got, err := Document{Raw: []byte(tc.document), JSON: true}.Decode()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(tc.want))
			g.Expect(runtime.DeepCopyJSON(got)).To(Equal(tc.want))
		})
	}
}

// aliasBomb returns a small YAML text whose aliases multiply the number of values by nine in every line.
func aliasBomb() string {
	var bomb strings.Builder
	bomb.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x]\n")
	for i := range 9 {
		fmt.Fprintf(&bomb, "a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 9), ","))
	}
	return bomb.String()
}

const furtherDocument = `content follows the end of the document: separate documents by lines "---" in UTF-8 with line feeds, not by "..."`

func TestDecodeErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		document string
		json     bool
		want     string
	}{
		"a list":                  {document: "- a\n", want: "document is not an object"},
		"a scalar":                {document: "hunter2\n", want: "document is not an object"},
		"a JSON list":             {document: "[1]", json: true, want: "document is not an object"},
		"a JSON scalar":           {document: `"hunter2"`, json: true, want: "document is not an object"},
		"a key that occurs twice": {document: "a: 1\nhunter2: 2\nhunter2: 3\n", want: "invalid YAML at line 3: a key occurs twice"},
		"a key that occurs twice beside a merge key": {
			document: "x: &x {a: 1}\ny:\n  <<: *x\n  a: 2\n  b: 3\n  b: 4\n", want: "invalid YAML at line 6: a key occurs twice",
		},
		"a key that occurs twice in JSON": {document: `{"a":{"b":1,"b":2}}`, json: true, want: "a key occurs twice"},
		"a key that occurs twice in JSON within YAML": {
			document: `{"a":{"b":1,"b":2}}`, want: "invalid YAML at line 1: a key occurs twice",
		},
		"a key that occurs twice once it is text": {document: "1: a\n\"1\": b\n", want: "a key occurs twice"},
		"a key that occurs twice beside a shell document": {
			document: "a: \"cat <<EOF\"\nb: 1\nb: 2\n", want: "invalid YAML at line 3: a key occurs twice",
		},
		"a broken separator": {
			document: "a: b\n--- hunter2: c\n", want: "document separator is followed by content on the same line",
		},
		"a map as key":                   {document: "{a: b}: hunter2\n", want: "invalid YAML: invalid map key"},
		"null as key":                    {document: "~: hunter2\n", want: "document holds a key that JSON cannot express"},
		"infinity":                       {document: "a: .inf\n", want: "document holds a number that JSON cannot express"},
		"not a number":                   {document: "a: [.nan]\n", want: "document holds a number that JSON cannot express"},
		"an anchor that does not exist":  {document: "a: *hunter2\n", want: "invalid YAML: unknown anchor"},
		"an anchor that contains itself": {document: "a: &hunter2 [*hunter2]\n", want: "invalid YAML"},
		"a tag that does not fit":        {document: "a: !!int hunter2\n", want: "invalid YAML: cannot decode"},
		"a broken map": {
			document: "a: b\npassword: hunter2: x\n", want: "invalid YAML at line 2: mapping values are not allowed in this context",
		},
		"a broken quotation": {
			document: "a: b\nc: \"hunter2\n", want: "invalid YAML at line 3: found unexpected end of stream",
		},
		"a control character": {
			document: "a: \"\x01\"\n", want: "invalid YAML: control characters are not allowed",
		},
		"bytes that are not text": {document: "a: \xff\xfe\n", want: "invalid YAML: invalid leading UTF-8 octet"},
		"broken JSON":             {document: `{"password":hunter2}`, json: true, want: "invalid JSON at byte 13"},
		"an alias bomb":           {document: aliasBomb(), want: "invalid YAML: document contains excessive aliasing"},
		"deep nesting in flow YAML": {
			document: "a: " + strings.Repeat("[", 100_000), want: "invalid YAML: exceeded max depth of 10000",
		},
		"deep nesting in block YAML": {
			document: strings.Repeat("- ", 100_000) + "a\n", want: "invalid YAML: exceeded max depth of 10000",
		},
		"deep nesting in JSON": {
			document: `{"a":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + "}", json: true,
			want: "invalid JSON at byte 10005",
		},
		"nesting that the parsers accept and Decode refuses": {
			document: "a: " + strings.Repeat("[", 1_000) + strings.Repeat("]", 1_000) + "\n", want: "document is nested too deeply",
		},
		"nesting in JSON that the parser accepts and Decode refuses": {
			document: `{"a":` + strings.Repeat("[", 1_000) + strings.Repeat("]", 1_000) + "}", json: true,
			want: "document is nested too deeply",
		},
		"1 MiB of one list":                 {document: strings.Repeat("- abcdefghijklm\n", 1<<16), want: "document is not an object"},
		"3 MiB of nothing":                  {document: "a: b" + strings.Repeat("\n", 3<<20), want: "document is larger than 3145728 bytes"},
		"a document after the end of one":   {document: "a: b\n...\nc: d\n", want: furtherDocument},
		"a document after carriage returns": {document: "a: b\r---\rc: d\r", want: furtherDocument},
		"a document after a next line":      {document: "a: b\u0085---\u0085c: d\n", want: furtherDocument},
		"a document after a line separator": {document: "a: b\u2028---\nc: d\n", want: furtherDocument},
		"a remark and a line separator": {
			document: "a: b\n--- # remark\u2028c: d\n", want: "document separator is followed by content on the same line",
		},
		"two documents in UTF-16": {
			document: "\xff\xfea\x00:\x00 \x001\x00\n\x00-\x00-\x00-\x00\n\x00b\x00:\x00 \x002\x00", want: furtherDocument,
		},
		"a byte order mark behind a remark": {
			document: "# remark\n\ufeffa: b\n", want: "a byte order mark is not at the beginning of the document",
		},
		"two byte order marks in UTF-16": {
			document: "\xfe\xff\xfe\xff\x00a\x00:\x00 \x00b", want: "a byte order mark is not at the beginning of the document",
		},
		"many opening braces and colons": {document: strings.Repeat("{a:", 9_000), want: `invalid YAML: did not find expected "," or "}"`},
		"a long text that might be a key": {
			document: "a: b\n" + strings.Repeat("x", 1<<20) + "\n", want: `invalid YAML at line 3: could not find expected ":"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got, err := Document{Raw: []byte(tc.document), JSON: tc.json}.Decode()
			g.Expect(err).To(MatchError(tc.want))
			g.Expect(got).To(BeNil())
		})
	}
}

func TestDecodeAcceptsNestingBelowTheLimit(t *testing.T) {
	g := NewWithT(t)
	_, err := Document{Raw: []byte("a: " + strings.Repeat("[", 998) + strings.Repeat("]", 998) + "\n")}.Decode()
	g.Expect(err).NotTo(HaveOccurred())
}

func TestDecodingError(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"an error of this package stays unchanged": {err: &DocumentError{Index: 3, Err: errNotObject}, want: "document is not an object"},
		"the quotation in a YAML error is removed": {
			err:  errors.New("error converting YAML to JSON: yaml: line 7: cannot decode !!str `hunter2` as a !!int"),
			want: "invalid YAML at line 7: cannot decode",
		},
		"marks that the library expects stay": {
			err:  errors.New("yaml: line 7: did not find expected ',' or ']'"),
			want: `invalid YAML at line 7: did not find expected "," or "]"`,
		},
		"an encoding stays": {
			err:  errors.New("yaml: invalid trailing UTF-8 octet"),
			want: "invalid YAML: invalid trailing UTF-8 octet",
		},
		"the quotation of a name is removed": {
			err:  errors.New("yaml: unknown anchor 'hunter2' referenced"),
			want: "invalid YAML: unknown anchor",
		},
		"an unknown YAML error loses its text": {err: errors.New("yaml: line 7: hunter2"), want: "invalid YAML at line 7"},
		"any other error loses its text":       {err: errors.New("hunter2"), want: "invalid YAML"},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(DecodingError(3, "data.yaml", "garden", "set-1", tc.err)).
				To(Equal("Could not decode resource at index 3 in 'data.yaml' in secret 'garden/set-1': " + tc.want + "."))
		})
	}
}

func TestFoldStringData(t *testing.T) {
	for name, tc := range map[string]struct{ object, want map[string]any }{
		"texts are encoded and win": {
			object: map[string]any{
				"apiVersion": "v1", "kind": "Secret", "data": map[string]any{"a": "b2xk", "b": "Yg=="},
				"stringData": map[string]any{"a": "new", "c": nil},
			},
			want: map[string]any{"apiVersion": "v1", "kind": "Secret", "data": map[string]any{"a": "bmV3", "b": "Yg==", "c": ""}},
		},
		"no data yet": {
			object: map[string]any{"apiVersion": "v1", "kind": "Secret", "stringData": map[string]any{"a": "new"}},
			want:   map[string]any{"apiVersion": "v1", "kind": "Secret", "data": map[string]any{"a": "bmV3"}},
		},
		"no texts": {
			object: map[string]any{"apiVersion": "v1", "kind": "Secret", "stringData": nil},
			want:   map[string]any{"apiVersion": "v1", "kind": "Secret"},
		},
		"no stringData": {
			object: map[string]any{"apiVersion": "v1", "kind": "Secret", "data": nil},
			want:   map[string]any{"apiVersion": "v1", "kind": "Secret", "data": nil},
		},
		"a kind of the same name": {
			object: map[string]any{"apiVersion": "example.com/v1", "kind": "Secret", "stringData": map[string]any{"a": "b"}},
			want:   map[string]any{"apiVersion": "example.com/v1", "kind": "Secret", "stringData": map[string]any{"a": "b"}},
		},
		"another kind": {
			object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "stringData": map[string]any{"a": "b"}},
			want:   map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "stringData": map[string]any{"a": "b"}},
		},
		"values that are not texts": {
			object: map[string]any{"apiVersion": "v1", "kind": "Secret", "stringData": map[string]any{"a": int64(1)}},
			want:   map[string]any{"apiVersion": "v1", "kind": "Secret", "stringData": map[string]any{"a": int64(1)}},
		},
		"stringData that is not a map": {
			object: map[string]any{"apiVersion": "v1", "kind": "Secret", "stringData": "a"},
			want:   map[string]any{"apiVersion": "v1", "kind": "Secret", "stringData": "a"},
		},
		"data that is not a map": {
			object: map[string]any{"apiVersion": "v1", "kind": "Secret", "data": "a", "stringData": map[string]any{"a": "b"}},
			want:   map[string]any{"apiVersion": "v1", "kind": "Secret", "data": "a", "stringData": map[string]any{"a": "b"}},
		},
		"the input data is not changed": {
			object: map[string]any{"apiVersion": "v1", "kind": "Secret", "data": map[string]any{}, "stringData": map[string]any{}},
			want:   map[string]any{"apiVersion": "v1", "kind": "Secret", "data": map[string]any{}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			FoldStringData(tc.object)
			NewWithT(t).Expect(tc.object).To(Equal(tc.want))
		})
	}
}

// FuzzDecode compares Decode with sigs.k8s.io/yaml. If both succeed, the results are equal. Decode may refuse more documents: ambiguous or
// too deeply nested ones, and values that JSON cannot express. It may accept JSON with characters that YAML does not allow.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		"a: b\n", "a: [1, 1.0, 1e3, 0x1, 0o7, 017, 1_0, .5, 1e30, 9223372036854774784.0]\n", "a: {b: yes, ~: c}\n", "<<: {a: b}\na: c\n",
		"a: &x [1]\nb: *x\n", "? a\n: b\n", "a: !!binary //5h\n", "a: !!float 1\n", "a: >-\n  x\n\n  y\n", "{\"a\": 1.0, \"b\": \"\\ud800\"}",
		"1: a\n0x1: b\n",
		"a: 2001-01-01\n", "!!set {a, b}\n", "a: \"\\x41\\u263a\\\n  b\"\n", "%YAML 1.1\n", "{\"a\": 1e400}", "...\n", "a: 'it''s'\r\nb: c\r\n",
		"- - - - a\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		g := NewWithT(t)
		_, _ = Document{Raw: raw, JSON: true}.Decode()
		got, err := Document{Raw: raw}.Decode()
		want, wantErr := decodeWithSigsYAML(raw)
		switch {
		case err != nil:
			// Allowed are: both fail, Decode returns one of its additional errors, or the JSON reader of sigs.k8s.io/yaml is less strict.
			if wantErr == nil {
				g.Expect(err.Error()).To(Or(ContainSubstring("a key occurs twice"), ContainSubstring("not an object"),
					ContainSubstring("followed by content"), ContainSubstring("nested too deeply"), ContainSubstring("JSON cannot express")))
			}
		case wantErr == nil:
			g.Expect(got).To(Equal(want))
			g.Expect(runtime.DeepCopyJSON(got)).To(Equal(want))
		default:
			// JSON may contain characters that YAML may not, such as control characters.
			g.Expect(strings.TrimSpace(strings.TrimPrefix(string(raw), "---"))).To(HavePrefix("{"))
		}
	})
}

// decodeWithSigsYAML decodes as apimachinery does, through JSON text. A panic of the library counts as an error.
func decodeWithSigsYAML(raw []byte) (object map[string]any, err error) {
	defer func() {
		if recovered := recover(); recovered != nil {
			err = fmt.Errorf("panic: %v", recovered)
		}
	}()
	err = utilyaml.Unmarshal(raw, &object)
	return object, err
}
