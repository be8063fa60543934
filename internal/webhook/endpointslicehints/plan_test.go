package endpointslicehints

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/admission/review"
)

func TestPlan(t *testing.T) {
	const want = `[{"op":"add","path":"/endpoints/0/hints","value":{"forZones":[{"name":"europe-1a"}]}}]`
	for name, tc := range map[string]struct{ endpoints, want string }{
		"no endpoints":                    {endpoints: `[]`},
		"endpoints are null":              {endpoints: `null`},
		"an endpoint that is null":        {endpoints: `[null]`},
		"no zone":                         {endpoints: `[{}]`},
		"a zone that is null":             {endpoints: `[{"zone":null}]`},
		"an empty zone":                   {endpoints: `[{"zone":""}]`},
		"no zone, but hints":              {endpoints: `[{"hints":{"forZones":[{"name":"wrong"}]}}]`},
		"an empty zone, but hints":        {endpoints: `[{"zone":"","hints":{"forZones":[{"name":"wrong"}]}}]`},
		"a zone":                          {endpoints: `[{"zone":"europe-1a"}]`, want: want},
		"hints that are null":             {endpoints: `[{"zone":"europe-1a","hints":null}]`, want: want},
		"empty hints":                     {endpoints: `[{"zone":"europe-1a","hints":{}}]`, want: want},
		"hints at no zone":                {endpoints: `[{"zone":"europe-1a","hints":{"forZones":[]}}]`, want: want},
		"hints at another zone":           {endpoints: `[{"zone":"europe-1a","hints":{"forZones":[{"name":"europe-1b"}]}}]`, want: want},
		"hints at more zones":             {endpoints: `[{"zone":"europe-1a","hints":{"forZones":[{"name":"europe-1a"},{"name":"europe-1b"}]}}]`, want: want},
		"hints at nodes too":              {endpoints: `[{"zone":"europe-1a","hints":{"forZones":[{"name":"europe-1a"}],"forNodes":[{"name":"node-1"}]}}]`, want: want},
		"hints of a kind yet to come":     {endpoints: `[{"zone":"europe-1a","hints":{"forZones":[{"name":"europe-1a","weight":3}]}}]`, want: want},
		"the right hints":                 {endpoints: `[{"zone":"europe-1a","hints":{"forZones":[{"name":"europe-1a"}]}}]`},
		"each endpoint gets its own zone": {endpoints: `[{"zone":"a"},{},{"zone":"c"}]`, want: `[{"op":"add","path":"/endpoints/0/hints","value":{"forZones":[{"name":"a"}]}},{"op":"add","path":"/endpoints/2/hints","value":{"forZones":[{"name":"c"}]}}]`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			found := slice{}
			g.Expect(review.Decode([]byte(`{"endpoints":`+tc.endpoints+`}`), &found)).To(Succeed())
			document, err := plan(found).Encode()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(document)).To(Equal(tc.want))
		})
	}
}
