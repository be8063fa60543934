package csr

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
)

func TestHostOfTheAPIServerIsKnownInEveryFormThatClientsAccept(t *testing.T) {
	for name, tc := range map[string]struct {
		server string
		tls    rest.TLSClientConfig
		want   string
		fails  bool
	}{
		"a URL":                            {server: "https://api.example.com:6443", want: "api.example.com"},
		"a URL with a path":                {server: "https://api.example.com/k8s/clusters/a", want: "api.example.com"},
		"an address and a port":            {server: "10.0.0.1:6443", want: "10.0.0.1"},
		"an address and a port, with TLS":  {server: "10.0.0.1:6443", tls: rest.TLSClientConfig{CAFile: "ca.crt"}, want: "10.0.0.1"},
		"a name and a port":                {server: "api.example.com:6443", want: "api.example.com"},
		"an address":                       {server: "10.0.0.1", want: "10.0.0.1"},
		"a URL with an IPv6 address":       {server: "https://[2001:db8::1]:6443", want: "2001:db8::1"},
		"an IPv6 address without a scheme": {server: "[2001:db8::1]:6443", want: "2001:db8::1"},
		"a URL without a host":             {server: "https://:6443", fails: true},
		"what is no URL":                   {server: "https://a b:6443", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			host, err := hostOf(&rest.Config{Host: tc.server, TLSClientConfig: tc.tls})
			if tc.fails {
				g.Expect(err).To(MatchError(ContainSubstring("address of the API server of the target: ")))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(host).To(Equal(tc.want))
		})
	}
}
