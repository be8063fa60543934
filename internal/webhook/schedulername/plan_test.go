package schedulername

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/admission/review"
)

func TestPlan(t *testing.T) {
	for name, tc := range map[string]struct{ object, configured, want string }{
		"no spec":                        {object: `{}`, configured: "bin-packing-scheduler", want: `[{"op":"add","path":"/spec","value":{"schedulerName":"bin-packing-scheduler"}}]`},
		"a spec that is null":            {object: `{"spec":null}`, configured: "bin-packing-scheduler", want: `[{"op":"add","path":"/spec","value":{"schedulerName":"bin-packing-scheduler"}}]`},
		"no name":                        {object: `{"spec":{}}`, configured: "bin-packing-scheduler", want: `[{"op":"add","path":"/spec/schedulerName","value":"bin-packing-scheduler"}]`},
		"a name that is null":            {object: `{"spec":{"schedulerName":null}}`, configured: "bin-packing-scheduler", want: `[{"op":"add","path":"/spec/schedulerName","value":"bin-packing-scheduler"}]`},
		"an empty name":                  {object: `{"spec":{"schedulerName":""}}`, configured: "bin-packing-scheduler", want: `[{"op":"add","path":"/spec/schedulerName","value":"bin-packing-scheduler"}]`},
		"the default":                    {object: `{"spec":{"schedulerName":"default-scheduler"}}`, configured: "bin-packing-scheduler", want: `[{"op":"add","path":"/spec/schedulerName","value":"bin-packing-scheduler"}]`},
		"another one":                    {object: `{"spec":{"schedulerName":"bar-scheduler"}}`, configured: "bin-packing-scheduler"},
		"the configured one":             {object: `{"spec":{"schedulerName":"bin-packing-scheduler"}}`, configured: "bin-packing-scheduler"},
		"the default is configured":      {object: `{"spec":{"schedulerName":"default-scheduler"}}`, configured: "default-scheduler"},
		"the default for an empty name":  {object: `{"spec":{}}`, configured: "default-scheduler", want: `[{"op":"add","path":"/spec/schedulerName","value":"default-scheduler"}]`},
		"nothing is configured":          {object: `{"spec":{"schedulerName":"default-scheduler"}}`},
		"nothing, nor is there any spec": {object: `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			found := pod{}
			g.Expect(review.Decode([]byte(tc.object), &found)).To(Succeed())
			document, err := plan(found, tc.configured).Encode()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(document)).To(Equal(tc.want))
		})
	}
}
