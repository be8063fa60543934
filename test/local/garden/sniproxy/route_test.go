package main

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func spec(t *testing.T, text string, into any) {
	t.Helper()
	NewWithT(t).Expect(yaml.UnmarshalStrict([]byte(text), into)).To(Succeed())
}

func gatewayOf(t *testing.T, name, selector, hosts string) gatewayObject {
	t.Helper()
	o := gatewayObject{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: name}}
	spec(t, `{selector: {`+selector+`}, servers: [{hosts: [`+hosts+`], port: {number: 443, protocol: TLS},
tls: {mode: PASSTHROUGH}}]}`, &o.Spec)
	return o
}

func serviceOf(t *testing.T, age time.Duration, exportTo, gateway, hosts, to string) virtualService {
	t.Helper()
	o := virtualService{ObjectMeta: metav1.ObjectMeta{
		Namespace: "garden", CreationTimestamp: metav1.NewTime(time.Unix(0, 0).Add(-age)),
	}}
	spec(t, `{exportTo: [`+exportTo+`], gateways: [`+gateway+`], tls: [{match: [{port: 443, sniHosts: [`+hosts+`]}],
route: [{destination: {host: `+to+`, port: {number: 8443}}}]}]}`, &o.Spec)
	return o
}

func TestRoute(t *testing.T) {
	own := gateway{namespace: "ingress", labels: map[string]string{"istio": "ingressgateway", "app": "a"}}
	api := gatewayOf(t, "api", "istio: ingressgateway", "api.example.com, gardener.example.com")
	wide := gatewayOf(t, "wide", "istio: ingressgateway", `"*.example.com"`)
	defaulted := gatewayOf(t, "api", "istio: ingressgateway", "api.example.com")
	terminating := gatewayOf(t, "api", "istio: ingressgateway", "api.example.com")
	defaulted.Spec.Servers[0].TLS.Mode, terminating.Spec.Servers[0].TLS.Mode = "", "SIMPLE"
	foreign := gatewayOf(t, "foreign", "istio: other", `"*.example.com"`)
	for sentence, tc := range map[string]struct {
		host     string
		gateways []gatewayObject
		services []virtualService
		want     string
	}{
		"the host of both": {
			gateways: []gatewayObject{api},
			services: []virtualService{serviceOf(t, 0, "ingress", "api", "api.example.com", "a")}, want: "a:8443",
		},
		"connections are forwarded by default": {
			gateways: []gatewayObject{defaulted},
			services: []virtualService{serviceOf(t, 0, "ingress", "api", "api.example.com", "a")}, want: "a:8443",
		},
		"a Gateway that ends TLS connections": {
			gateways: []gatewayObject{terminating},
			services: []virtualService{serviceOf(t, 0, "ingress", "api", "api.example.com", "a")},
		},
		"exported to all": {
			gateways: []gatewayObject{api},
			services: []virtualService{serviceOf(t, 0, `"*"`, "garden/api", "api.example.com", "a")}, want: "a:8443",
		},
		"not exported": {
			gateways: []gatewayObject{api},
			services: []virtualService{serviceOf(t, 0, `"~"`, "api", "api.example.com", "a")},
		},
		"another gateway is bound": {
			gateways: []gatewayObject{api},
			services: []virtualService{serviceOf(t, 0, "ingress", "wide", "api.example.com", "a")},
		},
		"another Pod is selected": {
			gateways: []gatewayObject{foreign},
			services: []virtualService{serviceOf(t, 0, "ingress", "foreign", "api.example.com", "a")},
		},
		"the Gateway lacks it": {
			host: "www.example.com", gateways: []gatewayObject{api},
			services: []virtualService{serviceOf(t, 0, "ingress", "api", `"*.example.com"`, "a")},
		},
		"the VirtualService lacks it": {
			gateways: []gatewayObject{wide},
			services: []virtualService{serviceOf(t, 0, "ingress", "wide", "www.example.com", "a")},
		},
		"the domain itself is not below it": {
			host: "example.com", gateways: []gatewayObject{wide},
			services: []virtualService{serviceOf(t, 0, "ingress", "wide", `"*.example.com"`, "a")},
		},
		"the exact host wins": {gateways: []gatewayObject{api, wide}, services: []virtualService{
			serviceOf(t, time.Hour, "ingress", "wide", `"*.example.com"`, "a"), serviceOf(t, 0, "ingress", "api", "api.example.com", "b"),
		}, want: "b:8443"},
		"the longer pattern wins": {host: "a.b.example.com", gateways: []gatewayObject{wide}, services: []virtualService{
			serviceOf(t, time.Hour, "ingress", "wide", `"*.example.com"`, "a"), serviceOf(t, 0, "ingress", "wide", `"*.b.example.com"`, "b"),
		}, want: "b:8443"},
		"the oldest wins": {gateways: []gatewayObject{wide}, services: []virtualService{
			serviceOf(t, 0, "ingress", "wide", "api.example.com", "a"), serviceOf(t, time.Hour, "ingress", "wide", "api.example.com", "b"),
		}, want: "b:8443"},
	} {
		t.Run(sentence, func(t *testing.T) {
			host := tc.host
			if host == "" {
				host = "api.example.com"
			}
			NewWithT(t).Expect(own.route(host, tc.gateways, tc.services)).To(Equal(tc.want))
		})
	}
}

func TestServersThatTerminateTLSAreIgnored(t *testing.T) {
	own := gateway{namespace: "ingress", labels: map[string]string{"istio": "ingressgateway"}}
	for _, server := range []string{
		`{hosts: ["*"], port: {number: 443, protocol: HTTPS}, tls: {mode: SIMPLE}}`,
		`{hosts: ["*"], port: {number: 8443, protocol: TLS}, tls: {mode: PASSTHROUGH}}`,
	} {
		o := gatewayObject{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "api"}}
		spec(t, `{servers: [`+server+`]}`, &o.Spec)
		services := []virtualService{serviceOf(t, 0, "ingress", "api", "api.example.com", "a")}
		NewWithT(t).Expect(own.route("api.example.com", []gatewayObject{o}, services)).To(BeEmpty(), server)
	}
}

func TestLabelsOfPod(t *testing.T) {
	NewWithT(t).Expect(labelsOf("app=\"a\"\nistio=\"b c\"\n")).To(Equal(map[string]string{"app": "a", "istio": "b c"}))
}
