package v1alpha1_test

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

func TestNetworksAreAListOrAString(t *testing.T) {
	for sentence, tc := range map[string]struct {
		json string
		want operatorv1alpha1.CIDRList
	}{
		"a string":               {json: `"10.0.0.0/8"`, want: operatorv1alpha1.CIDRList{"10.0.0.0/8"}},
		"an empty string":        {json: `""`},
		"null":                   {json: `null`},
		"a list":                 {json: `["10.0.0.0/8","2001:db8::/32"]`, want: operatorv1alpha1.CIDRList{"10.0.0.0/8", "2001:db8::/32"}},
		"an empty list":          {json: `[]`, want: operatorv1alpha1.CIDRList{}},
		"a list of an empty one": {json: `[""]`, want: operatorv1alpha1.CIDRList{""}},
		"a number":               {json: `10`, want: operatorv1alpha1.CIDRList{"malformed: 10"}},
		"a list with other types": {
			json: `["10.0.0.0/8",1.5,null,{"a":"b"}]`,
			want: operatorv1alpha1.CIDRList{"10.0.0.0/8", "malformed: 1.5", "malformed: null", `malformed: {"a":"b"}`},
		},
		"an object": {json: `{"cidr":"10.0.0.0/8"}`, want: operatorv1alpha1.CIDRList{`malformed: {"cidr":"10.0.0.0/8"}`}},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			got := operatorv1alpha1.CIDRList{"from before"}
			g.Expect(json.Unmarshal([]byte(tc.json), &got)).To(Succeed())
			g.Expect(got).To(BeComparableTo(tc.want))
		})
	}
}

func TestADomainIsAnObjectOrAString(t *testing.T) {
	for sentence, tc := range map[string]struct {
		json  string
		want  operatorv1alpha1.Domain
		write string
	}{
		"a string": {
			json:  `"a.example.com"`,
			want:  operatorv1alpha1.Domain{Name: "a.example.com"},
			write: `{"name":"a.example.com"}`,
		},
		"an empty string": {json: `""`, write: `{"name":""}`},
		"null":            {json: `null`, write: `{"name":""}`},
		"an object": {
			json:  `{"name":"a.example.com"}`,
			want:  operatorv1alpha1.Domain{Name: "a.example.com"},
			write: `{"name":"a.example.com"}`,
		},
		"an object with provider": {
			json:  `{"name":"a","provider":"p"}`,
			want:  operatorv1alpha1.Domain{Name: "a", Provider: ptr.To("p")},
			write: `{"name":"a","provider":"p"}`,
		},
		"a provider of null": {json: `{"name":"a","provider":null}`, want: operatorv1alpha1.Domain{Name: "a"}, write: `{"name":"a"}`},
		"an object without name": {
			json:  `{"provider":"p"}`,
			want:  operatorv1alpha1.Domain{Provider: ptr.To("p")},
			write: `{"name":"","provider":"p"}`,
		},
		"a number": {json: `5`, want: operatorv1alpha1.Domain{Name: "malformed: 5"}, write: `{"name":"malformed: 5"}`},
		"a list": {
			json:  `["a"]`,
			want:  operatorv1alpha1.Domain{Name: `malformed: ["a"]`},
			write: `{"name":"malformed: [\"a\"]"}`,
		},
		"a field of another type": {
			json:  `{"name":5}`,
			want:  operatorv1alpha1.Domain{Name: `malformed: {"name":5}`},
			write: `{"name":"malformed: {\"name\":5}"}`,
		},
		"a field that is unknown": {
			json:  `{"name":"a","x":"y"}`,
			want:  operatorv1alpha1.Domain{Name: `malformed: {"name":"a","x":"y"}`},
			write: `{"name":"malformed: {\"name\":\"a\",\"x\":\"y\"}"}`,
		},
		"a field in the wrong case": {
			json:  `{"Name":"a"}`,
			want:  operatorv1alpha1.Domain{Name: `malformed: {"Name":"a"}`},
			write: `{"name":"malformed: {\"Name\":\"a\"}"}`,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			got := operatorv1alpha1.Domain{Name: "from before", Provider: ptr.To("from before")}
			g.Expect(json.Unmarshal([]byte(tc.json), &got)).To(Succeed())
			g.Expect(got).To(BeComparableTo(tc.want))
			written, err := json.Marshal(got)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(written).To(MatchJSON(tc.write))
		})
	}
}

func TestIngressDomainsOfEitherField(t *testing.T) {
	list := []operatorv1alpha1.Domain{{Name: "a", Provider: ptr.To("p")}, {Name: "b"}}
	for sentence, tc := range map[string]struct {
		ingress operatorv1alpha1.Ingress
		want    []operatorv1alpha1.Domain
	}{
		"none":                {},
		"an empty domain":     {ingress: operatorv1alpha1.Ingress{Domain: ptr.To("")}},
		"the field of v1.84":  {ingress: operatorv1alpha1.Ingress{Domain: ptr.To("a")}, want: []operatorv1alpha1.Domain{{Name: "a"}}},
		"the list":            {ingress: operatorv1alpha1.Ingress{Domains: list}, want: list},
		"both: the list wins": {ingress: operatorv1alpha1.Ingress{Domain: ptr.To("a"), Domains: list}, want: list},
	} {
		t.Run(sentence, func(t *testing.T) {
			NewWithT(t).Expect(tc.ingress.AllDomains()).To(BeComparableTo(tc.want))
		})
	}
}

func TestEncryptionAtRestOfEitherField(t *testing.T) {
	provider := func(t operatorv1alpha1.EncryptionProviderType) *operatorv1alpha1.EncryptionProviderStatus {
		return &operatorv1alpha1.EncryptionProviderStatus{Type: t}
	}
	for sentence, tc := range map[string]struct {
		status operatorv1alpha1.GardenStatus
		want   operatorv1alpha1.EncryptionAtRest
	}{
		"nothing is known": {want: operatorv1alpha1.EncryptionAtRest{Provider: provider("aescbc")}},
		"the field of v1.107": {
			status: operatorv1alpha1.GardenStatus{EncryptedResources: []string{"configmaps"}, Credentials: &operatorv1alpha1.Credentials{}},
			want:   operatorv1alpha1.EncryptionAtRest{Resources: []string{"configmaps"}, Provider: provider("aescbc")},
		},
		"the current field wins": {
			status: operatorv1alpha1.GardenStatus{EncryptedResources: []string{"configmaps"}, Credentials: &operatorv1alpha1.Credentials{
				EncryptionAtRest: &operatorv1alpha1.EncryptionAtRest{Resources: []string{"pods"}, Provider: provider("secretbox")},
			}},
			want: operatorv1alpha1.EncryptionAtRest{Resources: []string{"pods"}, Provider: provider("secretbox")},
		},
		"an empty provider": {
			status: operatorv1alpha1.GardenStatus{Credentials: &operatorv1alpha1.Credentials{
				EncryptionAtRest: &operatorv1alpha1.EncryptionAtRest{Provider: provider("")},
			}},
			want: operatorv1alpha1.EncryptionAtRest{Provider: provider("aescbc")},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			NewWithT(t).Expect(tc.status.EncryptionAtRest()).To(BeComparableTo(tc.want))
		})
	}
}

// FuzzForms checks that every JSON value can be read as networks and as a domain, and is read the same after it was written.
func FuzzForms(f *testing.F) {
	seeds := []string{`"a"`, `["a",1]`, `{"name":"a","provider":"b"}`, `{"name":1}`, `null`, `1e400`, `"\ud800"`, `["<&>"]`, `{"a":`}
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var value any
		if json.Unmarshal(data, &value) != nil {
			t.Skip()
		}
		g := NewWithT(t)
		var networks, networksAgain operatorv1alpha1.CIDRList
		g.Expect(json.Unmarshal(data, &networks)).To(Succeed())
		written, err := json.Marshal(networks)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(json.Unmarshal(written, &networksAgain)).To(Succeed())
		g.Expect(networksAgain).To(BeComparableTo(networks))

		var domain, domainAgain operatorv1alpha1.Domain
		g.Expect(json.Unmarshal(data, &domain)).To(Succeed())
		written, err = json.Marshal(domain)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(json.Unmarshal(written, &domainAgain)).To(Succeed())
		g.Expect(domainAgain).To(BeComparableTo(domain))
	})
}
