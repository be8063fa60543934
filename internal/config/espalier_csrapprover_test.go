package config

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"
)

func csrApprover(section string) string {
	return minimal + "espalier: {csrApprover: " + section + "}\n"
}

func TestCSRApproverIsUnrestrictedAndNotWeakenedByDefault(t *testing.T) {
	g := NewWithT(t)
	for _, file := range []string{minimal, csrApprover("{}"), csrApprover("{deniedIdentities: {}}")} {
		c := load(t, file)
		g.Expect(c.Espalier.CSRApprover).To(BeComparableTo(EspalierCSRApprover{}))
		g.Expect(mistakes(c)).To(BeEmpty())
	}
}

func TestEveryFieldOfTheCSRApprover(t *testing.T) {
	g := NewWithT(t)
	c := load(t, csrApprover(`{observeOnly: true, events: true, withoutMachines: true, subsetOfAddresses: true,
  allowedDNSPatterns: ["ip-*.example.com"], allowedIPPrefixes: [10.0.0.0/8, "2001:db8::/32"], maxExpiration: 24h, allowUnsetExpiration: true,
  waitForObjects: 5m, deniedIdentities: {apiServer: true, dnsPatterns: ["*.svc"], ipPrefixes: [10.0.0.1/32]},
  rateLimit: {requests: 3, period: 2m, maxDelay: 0s}}`))
	g.Expect(mistakes(c)).To(BeEmpty())
	g.Expect(c.Espalier.CSRApprover).To(BeComparableTo(EspalierCSRApprover{
		ObserveOnly: true, Events: true, WithoutMachines: true, SubsetOfAddresses: true,
		AllowedDNSPatterns: &[]string{"ip-*.example.com"}, AllowedIPPrefixes: &[]string{"10.0.0.0/8", "2001:db8::/32"},
		MaxExpiration: minutes(24 * 60), AllowUnsetExpiration: true, WaitForObjects: minutes(5),
		DeniedIdentities: EspalierCSRDeniedIdentities{APIServer: true, DNSPatterns: []string{"*.svc"}, IPPrefixes: []string{"10.0.0.1/32"}},
		RateLimit:        &EspalierCSRRateLimit{Requests: 3, Period: minutes(2), MaxDelay: ptr.To(seconds(0))},
	}))
}

func TestTheRateLimitOfTheCSRApproverHasDefaults(t *testing.T) {
	g := NewWithT(t)
	c := load(t, csrApprover("{rateLimit: {}}"))
	g.Expect(mistakes(c)).To(BeEmpty())
	g.Expect(c.Espalier.CSRApprover.RateLimit).To(BeComparableTo(&EspalierCSRRateLimit{Requests: 5, Period: minutes(1), MaxDelay: minutes(5)}))
}

// An empty list allows nothing; only a missing list means no restriction.
func TestEmptyListsOfTheCSRApproverStayLists(t *testing.T) {
	c := load(t, csrApprover("{allowedDNSPatterns: [], allowedIPPrefixes: []}"))
	NewWithT(t).Expect(c.Espalier.CSRApprover).
		To(BeComparableTo(EspalierCSRApprover{AllowedDNSPatterns: &[]string{}, AllowedIPPrefixes: &[]string{}}))
}

func TestMistakesOfTheCSRApprover(t *testing.T) {
	const name = "must be a DNS name, in whose labels * stands for any characters"
	const prefix = "must be an IP prefix such as 10.250.0.0/16 or 2001:db8::/32"
	for section, want := range map[string][]string{
		`{allowedDNSPatterns: ["a.b", ""]}`: {`espalier.csrApprover.allowedDNSPatterns[1]: Invalid value: "": ` + name},
		`{allowedDNSPatterns: ["a..b"]}`:    {`espalier.csrApprover.allowedDNSPatterns[0]: Invalid value: "a..b": ` + name},
		`{allowedDNSPatterns: ["[a].b"]}`:   {`espalier.csrApprover.allowedDNSPatterns[0]: Invalid value: "[a].b": ` + name},
		`{allowedIPPrefixes: [10.0.0.1]}`:   {`espalier.csrApprover.allowedIPPrefixes[0]: Invalid value: "10.0.0.1": ` + prefix},
		`{allowedIPPrefixes: ["::ffff:10.0.0.0/104"]}`: {
			`espalier.csrApprover.allowedIPPrefixes[0]: Invalid value: "::ffff:10.0.0.0/104": ` + prefix,
		},
		`{maxExpiration: 9m}`: {`espalier.csrApprover.maxExpiration: Invalid value: "9m0s": must be at least 10m`},
		`{allowUnsetExpiration: true}`: {
			`espalier.csrApprover.allowUnsetExpiration: Invalid value: true: only makes sense with maxExpiration`,
		},
		`{waitForObjects: 0s}`: {`espalier.csrApprover.waitForObjects: Invalid value: "0s": must be greater than zero`},
		`{deniedIdentities: {dnsPatterns: ["*."], ipPrefixes: [x]}}`: {
			`espalier.csrApprover.deniedIdentities.dnsPatterns[0]: Invalid value: "*.": ` + name,
			`espalier.csrApprover.deniedIdentities.ipPrefixes[0]: Invalid value: "x": ` + prefix,
		},
		`{rateLimit: {requests: -1, period: -1s, maxDelay: -1s}}`: {
			`espalier.csrApprover.rateLimit.requests: Invalid value: -1: must be at least 1`,
			`espalier.csrApprover.rateLimit.period: Invalid value: "-1s": must be greater than zero`,
			`espalier.csrApprover.rateLimit.maxDelay: Invalid value: "-1s": must be at least 0m`,
		},
	} {
		t.Run(section, func(t *testing.T) { NewWithT(t).Expect(validate(t, csrApprover(section))).To(Equal(want)) })
	}
}
