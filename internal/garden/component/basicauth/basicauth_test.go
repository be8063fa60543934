package basicauth_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/basicauth"
	"github.com/espalier-dev/espalier/internal/garden/component/webui"
	"github.com/espalier-dev/espalier/internal/garden/goldentest"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

func TestObjectsAreAsInTheGoldenFiles(t *testing.T) {
	objects := func(changes ...func(*values.Values)) []client.Object {
		v := goldentest.Values(t, func(v *values.Values) any { return &v.Ingress }, `{domains: [ingress.example.com]}`, changes...)
		credentials := basicauth.Credentials{Server: "server-1", Password: "observability-ingress-1", Bundle: []byte("ca")}
		all, err := basicauth.Objects(v, credentials, nil)
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

// The filter changes before the routes. Without a password for a host that has a route, anyone could reach the web UI.
func TestGatewayAsksForAPasswordWhileAHostHasARoute(t *testing.T) {
	route := func(hosts ...any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"hosts": hosts}}}
	}
	allBut := []string{"prometheus-operator", "victoria-operator"} // only Plutono is exposed
	for name, c := range map[string]struct {
		skipped, domains []string
		routes           []*unstructured.Unstructured
		want             []any
	}{
		"no routes yet":   {skipped: allBut, domains: []string{"a", "b"}, want: []any{"plutono-garden.a", "plutono-garden.b"}},
		"nothing changes": {skipped: allBut, domains: []string{"a"}, routes: routes(route("plutono-garden.a")), want: []any{"plutono-garden.a"}},
		"without a domain": {
			skipped: allBut, domains: []string{"a"}, routes: routes(route("plutono-garden.a", "plutono-garden.b")),
			want: []any{"plutono-garden.a", "plutono-garden.b"},
		},
		"with another domain": {
			skipped: allBut, domains: []string{"b"}, routes: routes(route("plutono-garden.a")),
			want: []any{"plutono-garden.b", "plutono-garden.a"},
		},
		"without a web UI": {
			skipped: allBut, domains: []string{"a"}, routes: routes(route("prometheus-garden.a"), route("plutono-garden.a")),
			want: []any{"plutono-garden.a", "prometheus-garden.a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := values.Values{Operator: values.Operator{SkipComponents: c.skipped}}
			v.Ingress.Domains = c.domains
			NewWithT(t).Expect(basicauth.Hosts(v, c.routes)).To(Equal(c.want))
		})
	}
}

func routes(all ...*unstructured.Unstructured) []*unstructured.Unstructured { return all }

// The ManagedResource of the routes keeps the filter, until the routes are gone.
func TestFilterStaysWhileRoutesExist(t *testing.T) {
	g := NewWithT(t)
	g.Expect(basicauth.Component.Users).To(HaveLen(1))
	g.Expect(basicauth.Component.Users[0].Kind).To(Equal("ManagedResource"))
	g.Expect(basicauth.Component.Users[0].Name).To(Equal(webui.Component.Sets[0].Name))
	for _, skipped := range []string{"virtual-garden-istio-basic-auth-server", "observability-exposure"} {
		v := values.Values{Operator: values.Operator{SkipComponents: []string{skipped}}}
		g.Expect(webui.Component.Unwanted(v)).NotTo(BeEmpty(), "the routes are removed")
		g.Expect(basicauth.Component.Unwanted(v)).NotTo(BeEmpty())
	}
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
