package servicehost

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/admission/review"
)

func TestPlan(t *testing.T) {
	for name, tc := range map[string]struct{ spec, host, want string }{
		"no containers":                              {spec: `{}`},
		"containers are null":                        {spec: `{"initContainers":null,"containers":null}`},
		"a container that is null":                   {spec: `{"containers":[null]}`},
		"an absent list of variables is set":         {spec: `{"containers":[{"name":"a"}]}`, want: `[{"op":"add","path":"/spec/containers/0/env","value":[{"name":"KUBERNETES_SERVICE_HOST","value":"api.example.com"}]}]`},
		"so is one that is null":                     {spec: `{"containers":[{"env":null}]}`, want: `[{"op":"add","path":"/spec/containers/0/env","value":[{"name":"KUBERNETES_SERVICE_HOST","value":"api.example.com"}]}]`},
		"and an empty one":                           {spec: `{"containers":[{"env":[]}]}`, want: `[{"op":"add","path":"/spec/containers/0/env","value":[{"name":"KUBERNETES_SERVICE_HOST","value":"api.example.com"}]}]`},
		"other variables precede":                    {spec: `{"containers":[{"env":[{"name":"A","value":"1"}]}]}`, want: `[{"op":"add","path":"/spec/containers/0/env/-","value":{"name":"KUBERNETES_SERVICE_HOST","value":"api.example.com"}}]`},
		"init containers come first":                 {spec: `{"containers":[{}],"initContainers":[{}]}`, want: `[{"op":"add","path":"/spec/initContainers/0/env","value":[{"name":"KUBERNETES_SERVICE_HOST","value":"api.example.com"}]},{"op":"add","path":"/spec/containers/0/env","value":[{"name":"KUBERNETES_SERVICE_HOST","value":"api.example.com"}]}]`},
		"a value is kept":                            {spec: `{"containers":[{"env":[{"name":"KUBERNETES_SERVICE_HOST","value":"already-set"}]}]}`},
		"an empty value is kept":                     {spec: `{"containers":[{"env":[{"name":"KUBERNETES_SERVICE_HOST"}]}]}`},
		"a value from elsewhere is kept":             {spec: `{"containers":[{"env":[{"name":"KUBERNETES_SERVICE_HOST","valueFrom":{"fieldRef":{"fieldPath":"status.hostIP"}}}]}]}`},
		"each container is decided on by itself":     {spec: `{"containers":[{"env":[{"name":"KUBERNETES_SERVICE_HOST"}]},{}]}`, want: `[{"op":"add","path":"/spec/containers/1/env","value":[{"name":"KUBERNETES_SERVICE_HOST","value":"api.example.com"}]}]`},
		"ephemeral containers stay":                  {spec: `{"ephemeralContainers":[{"name":"debug"}]}`},
		"an empty host is set":                       {spec: `{"containers":[{}]}`, host: "-", want: `[{"op":"add","path":"/spec/containers/0/env","value":[{"name":"KUBERNETES_SERVICE_HOST"}]}]`},
		"the name of the port's variable is another": {spec: `{"containers":[{"env":[{"name":"KUBERNETES_SERVICE_PORT","value":"443"}]}]}`, want: `[{"op":"add","path":"/spec/containers/0/env/-","value":{"name":"KUBERNETES_SERVICE_HOST","value":"api.example.com"}}]`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			host := map[string]string{"": "api.example.com", "-": ""}[tc.host]
			found := pod{}
			g.Expect(review.Decode([]byte(`{"spec":`+tc.spec+`}`), &found)).To(Succeed())
			document, err := plan(found, host).Encode()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(document)).To(Equal(tc.want))
		})
	}
}

// TestTooManyChangesEndEarly has more than are made to one object.
func TestTooManyChangesEndEarly(t *testing.T) {
	found := pod{}
	g := NewWithT(t)
	g.Expect(review.Decode([]byte(`{"spec":{"initContainers":[`+strings.Repeat(`{},`, 30_000)+`{}],"containers":[`+strings.Repeat(`{},`, 30_000)+`{}]}}`), &found)).To(Succeed())
	changes := plan(found, "api.example.com")
	g.Expect(changes).To(HaveLen(10_001))
	_, err := changes.Encode()
	g.Expect(err).To(MatchError("the object needs too many changes: 10001, at most 10000 are made"))
}
