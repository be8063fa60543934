package health_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/health"
)

// outcome contains the results of HealthCondition or ProgressCondition.
type outcome struct {
	Yes             bool
	Reason, Message string
}

func TestHealthCondition(t *testing.T) {
	web := health.Fault{
		Kind: "Service", Namespace: "shop", Name: "web", Problem: health.Unhealthy, Detail: "service is missing ingress status",
	}
	withEvents := web
	withEvents.Events = "-> Events:\n* cloud reported 5s ago: boom"
	secret := health.Fault{Kind: "Secret", Namespace: "shop", Name: "key", Problem: health.Missing}
	role := health.Fault{Kind: "ClusterRole", Name: "system:x", Problem: health.Missing}
	oven := health.Fault{
		Kind: "Oven", Namespace: "shop", Name: "big", Problem: health.Missing, Detail: `no matches for kind "Oven" in version "a/v1"`,
	}
	definition := health.Fault{
		Kind: "CustomResourceDefinition", Name: "ovens.a", Problem: health.CheckFailed,
		Detail: "read fields: cannot restore slice from string",
	}
	node := health.Fault{
		Kind: "CustomResourceDefinition", Name: "ovens.a", Problem: health.Unhealthy, Detail: `condition "Established" is missing`,
	}

	for name, tc := range map[string]struct {
		faults []health.Fault
		want   outcome
	}{
		"nothing wrong": {nil, outcome{true, "ResourcesHealthy", "All resources are healthy."}},
		"missing": {
			[]health.Fault{secret}, outcome{false, "SecretMissing", `Required Secret "key" in namespace "shop" is missing`},
		},
		"missing, cluster-scoped": {
			[]health.Fault{role}, outcome{false, "ClusterRoleMissing", `Required ClusterRole "system:x" in namespace "" is missing`},
		},
		"missing, of a kind that is not served": {
			[]health.Fault{oven},
			outcome{false, "OvenMissing", `Required Oven "big" in namespace "shop" is missing: no matches for kind "Oven" in version "a/v1"`},
		},
		"unhealthy": {
			[]health.Fault{web}, outcome{false, "ServiceUnhealthy", `Service "shop/web" is unhealthy: service is missing ingress status`},
		},
		"unhealthy, cluster-scoped": {
			[]health.Fault{node},
			outcome{
				false, "CustomResourceDefinitionUnhealthy", `CustomResourceDefinition "/ovens.a" is unhealthy: condition "Established" is missing`,
			},
		},
		"unhealthy, with events": {[]health.Fault{withEvents}, outcome{
			false, "ServiceUnhealthy",
			"Service \"shop/web\" is unhealthy: service is missing ingress status\n\n-> Events:\n* cloud reported 5s ago: boom",
		}},
		"cannot be judged": {[]health.Fault{definition}, outcome{
			false, "HealthCheckError",
			`Error executing health check for CustomResourceDefinition "/ovens.a": read fields: cannot restore slice from string`,
		}},
		"several, the first one's reason": {[]health.Fault{secret, withEvents, definition}, outcome{
			false, "SecretMissing",
			`Required Secret "key" in namespace "shop" is missing; Service "shop/web" is unhealthy: service is missing ingress status; ` +
				`Error executing health check for CustomResourceDefinition "/ovens.a": read fields: cannot restore slice from string`,
		}},
		"several behind events": {[]health.Fault{withEvents, secret, role}, outcome{
			false, "ServiceUnhealthy",
			"Service \"shop/web\" is unhealthy: service is missing ingress status\n\n-> Events:\n* cloud reported 5s ago: boom\n\n" +
				`Required Secret "key" in namespace "shop" is missing; Required ClusterRole "system:x" in namespace "" is missing`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			healthy, reason, message := health.HealthCondition(tc.faults)
			NewWithT(t).Expect(outcome{healthy, reason, message}).To(Equal(tc.want))
		})
	}
}

func TestProgressCondition(t *testing.T) {
	web := health.Rolling{Kind: "Deployment", Namespace: "shop", Name: "web", Description: "there are still non-terminated old pods"}
	agent := health.Rolling{Kind: "DaemonSet", Namespace: "shop", Name: "agent", Description: "1 of 2 replica(s) have been updated"}
	for name, tc := range map[string]struct {
		rolling []health.Rolling
		want    outcome
	}{
		"nothing rolls": {nil, outcome{false, "ResourcesRolledOut", "All resources have been fully rolled out."}},
		"one": {
			[]health.Rolling{web},
			outcome{true, "DeploymentProgressing", `Deployment "shop/web" is progressing: there are still non-terminated old pods`},
		},
		"several": {[]health.Rolling{agent, web}, outcome{
			true, "DaemonSetProgressing",
			`DaemonSet "shop/agent" is progressing: 1 of 2 replica(s) have been updated; Deployment "shop/web" is progressing: there are still ` +
				`non-terminated old pods`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			progressing, reason, message := health.ProgressCondition(tc.rolling)
			NewWithT(t).Expect(outcome{progressing, reason, message}).To(Equal(tc.want))
		})
	}
}

// secrets returns faults for n missing Secrets, named s0, s1 and so on.
func secrets(n int, detail string) []health.Fault {
	faults := make([]health.Fault, n)
	for i := range faults {
		faults[i] = health.Fault{Kind: "Secret", Namespace: "a", Name: fmt.Sprintf("s%d", i), Problem: health.Missing, Detail: detail}
	}
	return faults
}

func TestMessagesAreBounded(t *testing.T) {
	message := func(faults []health.Fault) string {
		_, _, text := health.HealthCondition(faults)
		return text
	}
	t.Run("twenty objects are named", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(message(secrets(20, ""))).To(HaveSuffix(`; Required Secret "s19" in namespace "a" is missing`))
		g.Expect(message(secrets(21, ""))).To(HaveSuffix(`; Required Secret "s19" in namespace "a" is missing; and 1 more`))
		g.Expect(message(secrets(1000, ""))).To(HaveSuffix(`; Required Secret "s19" in namespace "a" is missing; and 980 more`))
	})
	t.Run("only as many as fit", func(t *testing.T) {
		g := NewWithT(t)
		text := message(secrets(30, strings.Repeat("x", 250)))
		g.Expect(len(text)).To(And(BeNumerically("<=", 4096), BeNumerically(">", 3600)))
		g.Expect(text).To(MatchRegexp(`xx; Required Secret "s12" in namespace "a" is missing: x{250}; and 17 more$`))
	})
	t.Run("what is said of further objects is cut between two characters", func(t *testing.T) {
		g := NewWithT(t)
		text := message(secrets(2, strings.Repeat("ä", 200)))
		g.Expect(text).To(Equal(`Required Secret "s0" in namespace "a" is missing: ` + strings.Repeat("ä", 200) +
			`; Required Secret "s1" in namespace "a" is missing: ` + strings.Repeat("ä", 126) + "…"))
	})
	t.Run("a long text of a single object is reported as it is", func(t *testing.T) {
		g := NewWithT(t)
		long := strings.Repeat("x", 30_000)
		g.Expect(message(secrets(1, long))).To(Equal(`Required Secret "s0" in namespace "a" is missing: ` + long))
		g.Expect(message(secrets(3, long))).To(Equal(`Required Secret "s0" in namespace "a" is missing: ` + long + "; and 2 more"))
	})
	t.Run("but not an endless one", func(t *testing.T) {
		g := NewWithT(t)
		text := message(secrets(1, strings.Repeat("€", 100_000)))
		g.Expect(len(text)).To(And(BeNumerically("<=", 32768), BeNumerically(">", 32760)))
		g.Expect(utf8.ValidString(text)).To(BeTrue())
		g.Expect(text).To(HaveSuffix("€…"))
	})
	t.Run("the rest is counted behind events too", func(t *testing.T) {
		faults := secrets(2, "")
		faults[0].Events = "-> Events:\n* a reported 5s ago: " + strings.Repeat("x", 5000)
		NewWithT(t).Expect(message(faults)).To(HaveSuffix("xxx\n\nand 1 more"))
	})
	t.Run("progress as well", func(t *testing.T) {
		var rolling []health.Rolling
		for i := range 21 {
			rolling = append(rolling, health.Rolling{Kind: "Deployment", Namespace: "a", Name: fmt.Sprintf("d%d", i), Description: "x"})
		}
		_, _, text := health.ProgressCondition(rolling)
		NewWithT(t).Expect(text).To(HaveSuffix(`; Deployment "a/d19" is progressing: x; and 1 more`))
	})
}
