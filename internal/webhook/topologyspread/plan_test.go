package topologyspread

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/admission/review"
)

func TestPlan(t *testing.T) {
	const at = `[{"op":"add","path":"/spec/topologySpreadConstraints/0/labelSelector`
	for name, tc := range map[string]struct{ labels, constraints, want string }{
		"a Pod without labels":                             {constraints: `[{}]`},
		"a Pod without a hash":                             {labels: `{"app":"web"}`, constraints: `[{}]`},
		"no constraints":                                   {labels: `{"pod-template-hash":"123abc"}`},
		"an empty list of constraints":                     {labels: `{"pod-template-hash":"123abc"}`, constraints: `[]`},
		"a constraint that is null":                        {labels: `{"pod-template-hash":"123abc"}`, constraints: `[null]`},
		"no selector":                                      {labels: `{"pod-template-hash":"123abc"}`, constraints: `[{}]`, want: at + `","value":{"matchLabels":{"pod-template-hash":"123abc"}}}]`},
		"a selector that is null":                          {labels: `{"pod-template-hash":"123abc"}`, constraints: `[{"labelSelector":null}]`, want: at + `","value":{"matchLabels":{"pod-template-hash":"123abc"}}}]`},
		"an empty selector":                                {labels: `{"pod-template-hash":"123abc"}`, constraints: `[{"labelSelector":{}}]`, want: at + `/matchLabels","value":{"pod-template-hash":"123abc"}}]`},
		"labels that are null":                             {labels: `{"pod-template-hash":"123abc"}`, constraints: `[{"labelSelector":{"matchLabels":null}}]`, want: at + `/matchLabels","value":{"pod-template-hash":"123abc"}}]`},
		"other labels":                                     {labels: `{"pod-template-hash":"123abc"}`, constraints: `[{"labelSelector":{"matchLabels":{"app":"test"}}}]`, want: at + `/matchLabels/pod-template-hash","value":"123abc"}]`},
		"an empty hash of the Pod":                         {labels: `{"pod-template-hash":""}`, constraints: `[{"labelSelector":{"matchLabels":{}}}]`, want: at + `/matchLabels/pod-template-hash","value":""}]`},
		"a key that is matched by itself":                  {labels: `{"pod-template-hash":"123abc"}`, constraints: `[{"labelSelector":{"matchLabels":{"app":"test"}},"matchLabelKeys":["app","pod-template-hash"]}]`},
		"a key that is matched by itself, no selector":     {labels: `{"pod-template-hash":"123abc"}`, constraints: `[{"matchLabelKeys":["pod-template-hash"]}]`},
		"another key that is matched by itself":            {labels: `{"pod-template-hash":"123abc"}`, constraints: `[{"matchLabelKeys":["app"],"labelSelector":{"matchLabels":{"app":"test"}}}]`, want: at + `/matchLabels/pod-template-hash","value":"123abc"}]`},
		"no keys that are matched by themselves":           {labels: `{"pod-template-hash":"123abc"}`, constraints: `[{"matchLabelKeys":null,"labelSelector":{"matchLabels":{"app":"test"}}}]`, want: at + `/matchLabels/pod-template-hash","value":"123abc"}]`},
		"the same hash":                                    {labels: `{"pod-template-hash":"123abc"}`, constraints: `[{"labelSelector":{"matchLabels":{"pod-template-hash":"123abc"}}}]`},
		"another hash":                                     {labels: `{"pod-template-hash":"123abc"}`, constraints: `[{"labelSelector":{"matchLabels":{"pod-template-hash":"789xyz"}}}]`},
		"an empty hash":                                    {labels: `{"pod-template-hash":"123abc"}`, constraints: `[{"labelSelector":{"matchLabels":{"pod-template-hash":""}}}]`},
		"an expression that names hashes":                  {labels: `{"pod-template-hash":"123abc"}`, constraints: `[{"labelSelector":{"matchExpressions":[{"key":"app","operator":"Exists"},{"key":"pod-template-hash","operator":"In","values":["789xyz"]}]}}]`},
		"an expression that names other labels":            {labels: `{"pod-template-hash":"123abc"}`, constraints: `[{"labelSelector":{"matchExpressions":[{"key":"app","operator":"In","values":["web"]}]}}]`, want: at + `/matchLabels","value":{"pod-template-hash":"123abc"}}]`},
		"an expression that excludes hashes":               {labels: `{"pod-template-hash":"123abc"}`, constraints: `[{"labelSelector":{"matchExpressions":[{"key":"pod-template-hash","operator":"NotIn","values":["789xyz"]}]}}]`, want: at + `/matchLabels","value":{"pod-template-hash":"123abc"}}]`},
		"an expression that asks for a hash":               {labels: `{"pod-template-hash":"123abc"}`, constraints: `[{"labelSelector":{"matchExpressions":[{"key":"pod-template-hash","operator":"Exists"}]}}]`, want: at + `/matchLabels","value":{"pod-template-hash":"123abc"}}]`},
		"an expression that asks for none":                 {labels: `{"pod-template-hash":"123abc"}`, constraints: `[{"labelSelector":{"matchExpressions":[{"key":"pod-template-hash","operator":"DoesNotExist"}]}}]`, want: at + `/matchLabels","value":{"pod-template-hash":"123abc"}}]`},
		"each constraint is decided on by itself, in turn": {labels: `{"pod-template-hash":"123abc"}`, constraints: `[{"labelSelector":{"matchLabels":{"pod-template-hash":"a"}}},{}]`, want: `[{"op":"add","path":"/spec/topologySpreadConstraints/1/labelSelector","value":{"matchLabels":{"pod-template-hash":"123abc"}}}]`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			labels, constraints := tc.labels, tc.constraints
			if labels == "" {
				labels = "null"
			}
			if constraints == "" {
				constraints = "null"
			}
			found := pod{}
			g.Expect(review.Decode([]byte(`{"metadata":{"labels":`+labels+`},"spec":{"topologySpreadConstraints":`+constraints+`}}`), &found)).To(Succeed())
			document, err := plan(found).Encode()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(document)).To(Equal(tc.want))
		})
	}
}

// TestTooManyChangesEndEarly has more than are made to one object.
func TestTooManyChangesEndEarly(t *testing.T) {
	found := pod{}
	g := NewWithT(t)
	g.Expect(review.Decode([]byte(`{"metadata":{"labels":{"pod-template-hash":"a"}},"spec":{"topologySpreadConstraints":[`+strings.Repeat(`{},`, 30_000)+`{}]}}`), &found)).To(Succeed())
	changes := plan(found)
	g.Expect(changes).To(HaveLen(10_001))
	_, err := changes.Encode()
	g.Expect(err).To(MatchError("the object needs too many changes: 10001, at most 10000 are made"))
}
