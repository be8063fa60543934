package seccompprofile

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/admission/review"
)

func TestPlan(t *testing.T) {
	for name, tc := range map[string]struct{ object, want string }{
		"no spec":                       {object: `{}`, want: `[{"op":"add","path":"/spec","value":{"securityContext":{"seccompProfile":{"type":"RuntimeDefault"}}}}]`},
		"no security context":           {object: `{"spec":{}}`, want: `[{"op":"add","path":"/spec/securityContext","value":{"seccompProfile":{"type":"RuntimeDefault"}}}]`},
		"one that is null":              {object: `{"spec":{"securityContext":null}}`, want: `[{"op":"add","path":"/spec/securityContext","value":{"seccompProfile":{"type":"RuntimeDefault"}}}]`},
		"an empty one":                  {object: `{"spec":{"securityContext":{}}}`, want: `[{"op":"add","path":"/spec/securityContext/seccompProfile","value":{"type":"RuntimeDefault"}}]`},
		"a profile that is null":        {object: `{"spec":{"securityContext":{"seccompProfile":null}}}`, want: `[{"op":"add","path":"/spec/securityContext/seccompProfile","value":{"type":"RuntimeDefault"}}]`},
		"a profile without a type":      {object: `{"spec":{"securityContext":{"seccompProfile":{"localhostProfile":"a.json"}}}}`, want: `[{"op":"add","path":"/spec/securityContext/seccompProfile","value":{"type":"RuntimeDefault"}}]`},
		"a profile with an empty type":  {object: `{"spec":{"securityContext":{"seccompProfile":{"type":""}}}}`, want: `[{"op":"add","path":"/spec/securityContext/seccompProfile","value":{"type":"RuntimeDefault"}}]`},
		"no profile, on purpose":        {object: `{"spec":{"securityContext":{"seccompProfile":{"type":"Unconfined"}}}}`},
		"a profile of the node":         {object: `{"spec":{"securityContext":{"seccompProfile":{"type":"Localhost","localhostProfile":"a.json"}}}}`},
		"the wanted profile":            {object: `{"spec":{"securityContext":{"seccompProfile":{"type":"RuntimeDefault"}}}}`},
		"a container's profile is none": {object: `{"spec":{"containers":[{"securityContext":{"seccompProfile":{"type":"Unconfined"}}}]}}`, want: `[{"op":"add","path":"/spec/securityContext","value":{"seccompProfile":{"type":"RuntimeDefault"}}}]`},
		"Pods for Windows as well":      {object: `{"spec":{"os":{"name":"windows"}}}`, want: `[{"op":"add","path":"/spec/securityContext","value":{"seccompProfile":{"type":"RuntimeDefault"}}}]`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			found := pod{}
			g.Expect(review.Decode([]byte(tc.object), &found)).To(Succeed())
			document, err := plan(found).Encode()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(document)).To(Equal(tc.want))
		})
	}
}
