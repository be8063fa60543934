package garbagecollector

import (
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
