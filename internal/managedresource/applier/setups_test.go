package applier_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

// longSyncPeriod sets a sync period of a minute, so that only events cause earlier reconciliations.
func longSyncPeriod(c *config.ResourceManagerConfiguration) {
	c.Controllers.ManagedResource.SyncPeriod = &metav1.Duration{Duration: time.Minute}
}

// inBothSetups runs a test with source and target in one cluster, and with two clusters.
func inBothSetups(t *testing.T, test func(e *managedresourcetest.Env)) {
	t.Helper()
	t.Parallel()
	for name, two := range map[string]bool{"one cluster": false, "two clusters": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(managedresourcetest.New(t, managedresourcetest.Options{TwoClusters: two, Configure: longSyncPeriod}))
		})
	}
}

// inOneCluster starts an env whose cluster has the controllers of Kubernetes.
func inOneCluster(t *testing.T) *managedresourcetest.Env {
	t.Helper()
	t.Parallel()
	return managedresourcetest.New(t, managedresourcetest.Options{Configure: longSyncPeriod})
}

// withoutControllers starts an env whose target has none of the controllers of Kubernetes, so that no other client writes.
func withoutControllers(t *testing.T) *managedresourcetest.Env {
	t.Helper()
	t.Parallel()
	return managedresourcetest.New(t, managedresourcetest.Options{TwoClusters: true, Configure: longSyncPeriod})
}

const (
	configMapKind   = "v1/ConfigMap"
	serviceKind     = "v1/Service"
	accountKind     = "v1/ServiceAccount"
	claimKind       = "v1/PersistentVolumeClaim"
	deploymentKind  = "apps/v1/Deployment"
	statefulSetKind = "apps/v1/StatefulSet"
	jobKind         = "batch/v1/Job"
)

// webDeployment returns a Deployment called web. The arguments are parts of its metadata, spec and container, each with a comma at its end.
func webDeployment(e *managedresourcetest.Env, metadata, spec, container string) string {
	return deploymentCalled(e, "web", metadata, spec, container)
}

// deploymentCalled is webDeployment with another name.
func deploymentCalled(e *managedresourcetest.Env, name, metadata, spec, container string) string {
	return e.Fill("apiVersion: apps/v1\nkind: Deployment\nmetadata: {" + metadata + "name: " + name + ", namespace: $NS}\nspec: {" + spec +
		"selector: {matchLabels: {app: " + name + "}}, template: {metadata: {labels: {app: " + name + "}}, spec: {containers: [{" + container +
		"name: c, image: i}]}}}")
}

// webStatefulSet is a StatefulSet called web without Pods, with one claim template.
func webStatefulSet(e *managedresourcetest.Env, metadata, size string) string {
	return e.Fill("apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {" + metadata +
		"name: web, namespace: $NS}\nspec: {replicas: 0, serviceName: web, " +
		"selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}, " +
		"volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: " + size + "}}}}]}")
}

// nightlyCronJob is a CronJob called nightly.
func nightlyCronJob(e *managedresourcetest.Env) string {
	return e.Fill("apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: nightly, namespace: $NS}\nspec: {schedule: '0 3 * * *', " +
		"jobTemplate: {metadata: {labels: {app: nightly}}, spec: {template: {metadata: {labels: {app: nightly}}, spec: {restartPolicy: Never, " +
		"containers: [{name: c, image: i}]}}}}}")
}

// onceJob is a Job called once that creates no Pods.
func onceJob(e *managedresourcetest.Env, metadata string) string {
	return e.Fill("apiVersion: batch/v1\nkind: Job\nmetadata: {" + metadata + "name: once, namespace: $NS}\nspec: {suspend: true, " +
		"template: {metadata: {labels: {app: once}}, spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}")
}

// webService returns a Service called web. The arguments are parts of its metadata and spec, each with a comma at its end.
func webService(e *managedresourcetest.Env, metadata, spec string) string {
	return e.Fill("apiVersion: v1\nkind: Service\nmetadata: {" + metadata + "name: web, namespace: $NS}\nspec: {" + spec +
		"selector: {app: web}}")
}
