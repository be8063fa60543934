package topologyspread

import (
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
