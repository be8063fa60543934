package basicauth_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/basicauth"
	"github.com/espalier-dev/espalier/internal/garden/goldentest"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

func TestObjectsAreAsInTheGoldenFiles(t *testing.T) {
	objects := func(changes ...func(*values.Values)) []client.Object {
		v := goldentest.Values(t, func(v *values.Values) any { return &v.Ingress }, `{domains: [ingress.example.com]}`, changes...)
		all, err := basicauth.Objects(v, basicauth.Credentials{Server: "server-1", Password: "observability-ingress-1", Bundle: []byte("ca")})
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		return all
	}
	goldentest.Compare(t, "shipped", map[string][]client.Object{
		"shipped":       objects(),
		"plutono-only":  objects(func(v *values.Values) { v.SkipComponents = []string{"prometheus-operator"} }),
		"two-domains":   objects(func(v *values.Values) { v.Ingress.Domains = []string{"a.example.com", "b.example.com"} }),
		"victoria-logs": objects(func(v *values.Values) { v.VictoriaLogs = true }),
	})
}

func TestNothingIsAskedForAPasswordIfNothingIsExposed(t *testing.T) {
	g := NewWithT(t)
	unless := func(skipped ...string) string {
		return basicauth.Unless(values.Values{Operator: values.Operator{SkipComponents: skipped}})
	}
	g.Expect(unless()).To(BeEmpty())
	g.Expect(unless("prometheus-operator", "plutono")).To(Equal("No web UI is exposed."))
	g.Expect(unless("observability-exposure")).To(Equal("No web UI is exposed."))
}
