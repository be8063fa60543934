package care_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/care"
	"github.com/espalier-dev/espalier/test/binary"
)

// A running controller reacts to new Gardens, to ManagedResources, and to the control plane, long before its period ends.
func TestControllerFollowsGardensAndTheirComponents(t *testing.T) {
	s := newScene(t)
	skip := true // other tests of this process have a controller of that name too
	cached := care.Cache(s.Namespace)
	// Other tests have Gardens in the same cluster.
	cached[&operatorv1alpha1.Garden{}] = cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", s.garden.Name)}
	mgr, err := manager.New(s.Config, manager.Options{
		Scheme: s.Admin.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}, Controller: ctrlconfig.Controller{SkipNameValidation: &skip},
		Cache: cache.Options{ByObject: cached},
	})
	s.Expect(err).NotTo(HaveOccurred())
	controller := &care.Reconciler{
		Client: mgr.GetClient(), Reader: mgr.GetCache(), Virtual: s.reconciler.Virtual, Clock: s.clock, Config: s.reconciler.Config,
		Namespace: s.Namespace,
	}
	s.Expect(controller.SetupWithManager(mgr)).To(Succeed())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(s.Ctx) }()
	t.Cleanup(func() { s.Expect(<-done).To(Succeed()) }) // the context has ended

	reason := func(condition string) func() string {
		return func() string {
			for _, each := range s.latest().Status.Conditions {
				if string(each.Type) == condition {
					return each.Reason + ": " + each.Message
				}
			}
			return ""
		}
	}
	s.Eventually(reason(runtimes), binary.Patience).Should(ContainSubstring(`"etcd-druid" not found`))
	druid := s.createManagedResource(s.Namespace, "etcd-druid")
	s.Eventually(reason(runtimes), binary.Patience).Should(ContainSubstring("etcd-druid' outdated (0/1)"))
	s.patchStatus(druid, good)
	s.Eventually(reason(runtimes), binary.Patience).Should(ContainSubstring(`"garden-system" not found`))

	server := s.createDeployment("virtual-garden-kube-apiserver")
	s.createDeployment("virtual-garden-kube-controller-manager")
	s.createDeployment("virtual-garden-gardener-resource-manager")
	s.Eventually(reason(virtual), binary.Patience).Should(HavePrefix("EtcdMissing: "))
	main := s.etcd("virtual-garden-etcd-main", `{ready: false}`)
	s.Expect(s.Admin.Create(s.Ctx, main)).To(Succeed())
	s.Expect(s.Admin.Create(s.Ctx, s.etcd("virtual-garden-etcd-events", `{ready: true}`))).To(Succeed())
	s.Eventually(reason(virtual), binary.Patience).Should(HavePrefix("EtcdUnhealthy: "))
	s.Expect(s.Admin.Patch(s.Ctx, main, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"ready":true}}`)))).To(Succeed())
	s.Eventually(reason(virtual), binary.Patience).Should(ContainSubstring(`"garden-system-virtual" not found`))
	s.patchStatus(server, `{"conditions":[{"type":"Available","status":"False"}]}`)
	s.Eventually(reason(virtual), binary.Patience).Should(HavePrefix("DeploymentUnhealthy: "))
}
