package garbagecollector

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestReferrers(t *testing.T) {
	var got []string
	for _, each := range referrers() {
		for _, version := range each.versions {
			got = append(got, version.String()+" "+each.kind+" "+each.resource)
		}
	}
	NewWithT(t).Expect(got).To(Equal([]string{
		"resources.gardener.cloud/v1alpha1 ManagedResource managedresources",
		"monitoring.coreos.com/v1 Prometheus prometheuses",
		"apps/v1 Deployment deployments",
		"apps/v1 StatefulSet statefulsets",
		"apps/v1 DaemonSet daemonsets",
		"batch/v1 CronJob cronjobs",
		"batch/v1beta1 CronJob cronjobs",
		"batch/v1 Job jobs",
		"v1 Pod pods",
	}))
}

// To find the objects that protect an object, a user must list every kind. Kinds that may not be served need their own command, because
// kubectl prints nothing if it does not know one of several kinds.
func TestThePageAsksForAllReferrers(t *testing.T) {
	g := NewWithT(t)
	content, err := os.ReadFile(filepath.FromSlash("../../../docs/garbage-collector.md"))
	g.Expect(err).NotTo(HaveOccurred())
	var row string
	for line := range strings.Lines(string(content)) {
		if strings.HasPrefix(line, "| an object is not collected |") {
			row = line
		}
	}
	var asked, always []string
	for _, each := range regexp.MustCompile(`get ([a-z,]+)[ `+"`"+`]`).FindAllStringSubmatch(row, -1) {
		kinds := strings.Split(each[1], ",")
		asked = append(asked, kinds...)
		if len(kinds) > 1 {
			always = kinds
		}
	}
	var want []string
	for _, each := range referrers() {
		want = append(want, each.resource)
	}
	g.Expect(asked).To(ConsistOf(want))
	g.Expect(slices.Contains(always, "managedresources") || slices.Contains(always, "prometheuses")).To(BeFalse())
}
