package lifecycle_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/espalier-dev/espalier/test/binary"
)

// While there are several Gardens, none is reconciled, and when one of them is deleted, nothing about the remaining one changes.
func TestRunningControllerReconcilesTheGardenThatIsLeft(t *testing.T) {
	s := newScene(t)
	s.create()
	second := garden("second")
	s.Expect(s.admin.Create(t.Context(), second)).To(Succeed())

	var refused atomic.Int32
	skip := true // a process may have only one controller of that name otherwise
	mgr, err := manager.New(binary.Servers(t).Target.Config, manager.Options{
		Scheme: s.admin.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}, Controller: ctrlconfig.Controller{SkipNameValidation: &skip},
		Logger: funcr.New(func(_, line string) {
			if strings.Contains(line, "there can be at most one operator.gardener.cloud/v1alpha1.Garden resource") {
				refused.Add(1)
			}
		}, funcr.Options{}),
	})
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(s.reconciler.SetupWithManager(mgr)).To(Succeed())
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() { stop(); s.Expect(<-done).To(Succeed()) })

	s.Eventually(refused.Load, binary.Patience).Should(BeEquivalentTo(2), "each Garden was reconciled once")
	s.Expect(s.get().Status).To(BeZero())
	s.Expect(s.admin.Delete(t.Context(), second, client.Preconditions{UID: &second.UID})).To(Succeed())
	s.Eventually(func() []string { return s.get().Finalizers }, binary.Patience).Should(ContainElement("gardener.cloud/operator"))
	s.Expect(s.requests.Writes()).NotTo(ContainElement("PATCH /apis/operator.gardener.cloud/v1alpha1/gardens/second/status"))
}
