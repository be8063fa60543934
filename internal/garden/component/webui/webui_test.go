package webui_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/observability"
	"github.com/espalier-dev/espalier/internal/garden/component/webui"
	"github.com/espalier-dev/espalier/internal/garden/goldentest"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

func certificate(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{
		"tls.crt": []byte("certificate"), "tls.key": []byte("key"), "ca.crt": []byte("not copied"),
	}}
}

func TestObjectsAreAsInTheGoldenFiles(t *testing.T) {
	objects := func(wildcard *corev1.Secret, changes ...func(*values.Values)) []client.Object {
		v := goldentest.Values(t, func(v *values.Values) any { return &v.Ingress }, `{domains: [ingress.example.com]}`, changes...)
		certificates := map[string]*corev1.Secret{}
		for _, each := range observability.UIs() {
			certificates[each.Certificate] = certificate(each.Certificate + "-1")
		}
		return webui.Objects(v, certificates, wildcard)
	}
	goldentest.Compare(t, "shipped", map[string][]client.Object{
		"shipped":       objects(nil),
		"wildcard":      objects(certificate("wildcard")),
		"plutono-only":  objects(nil, func(v *values.Values) { v.SkipComponents = []string{"prometheus-operator"} }),
		"victoria-logs": objects(nil, func(v *values.Values) { v.VictoriaLogs = true }),
		"two-domains":   objects(nil, func(v *values.Values) { v.Ingress.Domains = []string{"a.example.com", "b.example.com"} }),
	})
}

func TestRoutesOfAllWebUIsHaveNames(t *testing.T) {
	g := NewWithT(t)
	v := goldentest.Values(t, func(v *values.Values) any { return &v.Ingress }, `{domains: [ingress.example.com]}`)
	for _, object := range webui.Objects(v, nil, certificate("wildcard")) {
		if object.GetObjectKind().GroupVersionKind() == webui.RouteKind {
			g.Expect(webui.RouteNames()).To(ContainElement(object.GetName()))
		}
	}
}

// Without the server, the gateway would pass requests on without asking for a password.
func TestNothingIsExposedWithoutPasswords(t *testing.T) {
	g := NewWithT(t)
	v := values.Values{Operator: values.Operator{SkipComponents: []string{"virtual-garden-istio-basic-auth-server"}}}
	g.Expect(webui.Objects(v, nil, nil)).To(BeEmpty())
	g.Expect(webui.Component.Unwanted(v)).
		To(Equal("The configuration of the operator skips virtual-garden-istio-basic-auth-server, which observability-exposure needs."))
	g.Expect(webui.Component.Deploy.After).To(ContainElement("virtual-garden-istio-basic-auth-server"))
}
