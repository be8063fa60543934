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

// A running controller reacts to new Gardens, to ManagedResources, and to the end of an operation, long before its period ends.
func TestControllerFollowsGardensAndManagedResources(t *testing.T) {
	s := newScene(t)
	skip := true // other tests of this process have a controller of that name too
	mgr, err := manager.New(s.config, manager.Options{
		Scheme: s.admin.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}, Controller: ctrlconfig.Controller{SkipNameValidation: &skip},
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{ // other tests have Gardens in the same cluster
			&operatorv1alpha1.Garden{}: {Field: fields.OneTermEqualSelector("metadata.name", s.garden.Name)},
		}},
	})
	s.Expect(err).NotTo(HaveOccurred())
	controller := &care.Reconciler{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Virtual: s.reconciler.Virtual, Clock: s.clock, Config: s.reconciler.Config,
		Namespace: s.namespace,
	}
	s.Expect(controller.SetupWithManager(mgr)).To(Succeed())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(s.ctx) }()
	t.Cleanup(func() { s.Expect(<-done).To(Succeed()) }) // the context has ended

	reason := func() string {
		for _, each := range s.latest().Status.Conditions {
			if string(each.Type) == runtimes {
				return each.Reason + ": " + each.Message
			}
		}
		return ""
	}
	s.Eventually(reason, binary.Patience).Should(ContainSubstring(`"etcd-druid" not found`))
	druid := s.createManagedResource(s.namespace, "etcd-druid")
	s.Eventually(reason, binary.Patience).Should(ContainSubstring("etcd-druid' outdated (0/1)"))
	s.patchStatus(druid, good)
	s.Eventually(reason, binary.Patience).Should(ContainSubstring(`"garden-system" not found`))
}
