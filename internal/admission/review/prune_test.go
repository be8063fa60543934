package review

import (
	"reflect"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// sample has every kind of field that handlers have.
type sample struct {
	metav1.TypeMeta `json:",inline"`

	Metadata struct {
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec *struct {
		Replicas   *int32   `json:"replicas,omitempty"`
		Containers []*named `json:"containers"`
		Matrix     [][]named
		Raw        jsontext.Value  `json:"raw"`
		Since      *metav1.Time    `json:"since"`
		Any        any             `json:"any"`
		Inner      *sample         `json:"inner"`
		Values     map[string]*int `json:"values"`
	} `json:"spec"`
	Hidden string `json:"-"`
}

type named struct {
	Name string   `json:"name"`
	Env  []string `json:"env"`
}

// mixed has a field that takes what no other does, so that nothing of it may be left out.
type mixed struct {
	Name   string         `json:"name"`
	Others jsontext.Value `json:",embed"`
}

func TestPruneKeepsWhatATypeHasFieldsFor(t *testing.T) {
	type simple struct {
		Name  string  `json:"name"`
		Items []named `json:"items"`
		Raw   any     `json:"raw"`
	}
	for name, tc := range map[string]struct {
		into       any
		text, want string
	}{
		"members without a field are left out":         {&simple{}, `{"a":{"name":"}\""},"name":"x" , "b":[1,{"c":2}],"c":null}`, `{"name":"x"}`},
		"items are pruned one by one":                  {&simple{}, `{"items":[{"name":"a","b":1}, null,{"c":{}},{"env":["x"],"name":"b"}]}`, `{"items":[{"name":"a"},null,{},{"env":["x"],"name":"b"}]}`},
		"what has no type is kept":                     {&simple{}, `{"raw":{"a":[1, {"b": "c"}]}}`, `{"raw":{"a":[1, {"b": "c"}]}}`},
		"what has the wrong type is kept":              {&simple{}, `{"name":{"a":1},"items":"x"}`, `{"name":{"a":1},"items":"x"}`},
		"equal names are kept":                         {&simple{}, `{"name":"a","name":"b"}`, `{"name":"a","name":"b"}`},
		"escaped names are kept":                       {&simple{}, `{"n\u0061me":"a","\"":1}`, `{"n\u0061me":"a","\"":1}`},
		"nothing is left out of a type that takes all": {&mixed{}, `{"name":"a","b":[1]}`, `{"name":"a","b":[1]}`},
		"backslashes before quotes are counted":        {&simple{}, `{"a":"\\","b":"\\\"}","c":"\"\\\\\"","\\":"\\","name":"x\\\""}`, `{"\\":"\\","name":"x\\\""}`},
		"an empty object":                              {&simple{}, ` { } `, `{}`},
		"no object":                                    {&simple{}, `[1]`, `[1]`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			text := []byte(tc.text)
			begin := space(text, 0)
			var known outline
			if text[begin] == '{' {
				_, known = outlined(text[begin:], nil)
				g.Expect(known).NotTo(BeEmpty())
			}
			for _, p := range []*pruner{{text: text[begin:]}, {text: text[begin:], outline: known}} {
				kept, end := p.prune(nil, 0, shapeFor(reflect.TypeOf(tc.into)))
				g.Expect(end).To(BeNumerically(">", 0))
				g.Expect(string(kept)).To(Equal(tc.want))
			}
		})
	}
}

func TestPruneGivesUpOnWhatIsNoJSON(t *testing.T) {
	for _, text := range []string{``, `{`, `{"name`, `{"name"`, `{"name":`, `{"name":"a`, `{"name":"a"`, `{"name":}`, `{name:1}`, `{"name" 1}`, `{"metadata":{"labels"}}`, `{"spec":{"containers":[{]}}`, `{"spec":{"containers":[`, `{"a":[`, `{"a":"\`} {
		_, end := (&pruner{text: []byte(text)}).prune(nil, 0, shapeFor(reflect.TypeFor[*sample]()))
		NewWithT(t).Expect(end).To(Equal(-1), text)
		NewWithT(t).Expect(Decode([]byte(text), &sample{})).NotTo(Succeed(), text)
	}
}

func TestAnOutlineKnowsWhereEverythingEnds(t *testing.T) {
	g := NewWithT(t)
	text := []byte(`{"a":[{},[1,"]}"],{"b":{"\"":[]}}],"c":{}} [`)
	end, known := outlined(text, outline{})
	g.Expect(end).To(Equal(len(text) - 2))
	var found []string
	for _, each := range known {
		g.Expect(int(each.end)).To(Equal(nested(text, int(each.begin))))
		found = append(found, string(text[each.begin:each.end]))
	}
	g.Expect(found).To(Equal([]string{
		`{"a":[{},[1,"]}"],{"b":{"\"":[]}}],"c":{}}`, `[{},[1,"]}"],{"b":{"\"":[]}}]`, `{}`, `[1,"]}"]`, `{"b":{"\"":[]}}`, `{"\"":[]}`, `[]`, `{}`,
	}))
	for _, cut := range []string{`{`, `{"a`, `{"a":[}`} {
		end, _ := outlined([]byte(cut), nil)
		g.Expect(end).To(Equal(-1), cut)
	}
}

func FuzzDecode(f *testing.F) {
	for _, text := range []string{
		`{"kind":"K","apiVersion":"v1","metadata":{"labels":{"a":"b","c":null},"annotations":{"x":"}"}},"spec":{"replicas":3,"containers":[{"name":"a","env":["1"],"image":"i"},null],"raw":[1,{"a":"b"}]}}`,
		`{"spec":{"since":"2026-01-01T00:00:00Z","Matrix":[[{"name":"a"}],[]],"any":{"a":1},"inner":{"spec":{"replicas":1}},"values":{"a":1,"b":null}},"unknown":[{"spec":{}}]}`,
		`{"spec":null,"metadata":{"labels":[]}}`, `{"spec":{"replicas":"x"}}`, `{"k\u0069nd":"K"}`, ` { "spec" : { "containers" : [ { "name" : "\"]" } ] } } `, `[]`, `"a"`, `1`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, each := range []func() any{func() any { return &sample{} }, func() any { return &mixed{} }} {
			g := NewWithT(t)
			pruned, outlining, whole := each(), each(), each()
			err := Decode(text, pruned)
			if len(text) > 0 && text[0] == '{' {
				request := &Request{Object: text}
				_, request.outline = outlined(text, nil)
				outlineErr := request.Decode(outlining)
				g.Expect(outlineErr == nil).To(Equal(err == nil), "%v, and with an outline %v", err, outlineErr)
				g.Expect(outlining).To(BeComparableTo(pruned))
			}
			if !jsontext.Value(text).IsValid(lenient) {
				continue // it is enough that nothing panics
			}
			wholeErr := json.Unmarshal(text, whole, lenient)
			g.Expect(err == nil).To(Equal(wholeErr == nil), "%v, and decoded as a whole %v", err, wholeErr)
			if err == nil {
				g.Expect(pruned).To(BeComparableTo(whole))
			}
		}
	})
}
