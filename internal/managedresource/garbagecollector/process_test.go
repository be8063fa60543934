package garbagecollector_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
	"github.com/espalier-dev/espalier/test/local"
)

func every(period time.Duration) func(*config.ResourceManagerConfiguration) {
	return func(cfg *config.ResourceManagerConfiguration) {
		cfg.Controllers.GarbageCollector.Enabled = true
		cfg.Controllers.GarbageCollector.SyncPeriod = &metav1.Duration{Duration: period}
	}
}

// runs counts the lists of all Secrets; each run starts with one.
func runs(e *managedresourcetest.Env) func() int {
	return func() int {
		return len(slices.DeleteFunc(e.Requests.Seen(), func(each string) bool { return each != "GET /api/v1/secrets" }))
	}
}

func TestRunsAtStartAndThenPeriodically(t *testing.T) {
	e := managedresourcetest.New(t, managedresourcetest.Options{Stopped: true, Configure: every(200 * time.Millisecond)})
	e.Start()
	e.Eventually(runs(e)).WithTimeout(managedresourcetest.Patience).Should(BeNumerically(">=", 3))
}

func TestRunsAtStartInTheTargetOnly(t *testing.T) {
	e := managedresourcetest.New(t, managedresourcetest.Options{Stopped: true, TwoClusters: true, Configure: every(time.Hour)})
	var hosts atomic.Pointer[string]
	e.Requests.SetHook(func(request *http.Request) error {
		if strings.HasSuffix(request.URL.Path, "/secrets") && request.URL.Query().
			Get("labelSelector") == "resources.gardener.cloud/garbage-collectable-reference=true" {
			host := request.URL.Host
			hosts.Store(&host)
		}
		return nil
	})
	e.Start()
	e.Eventually(hosts.Load).WithTimeout(managedresourcetest.Patience).ShouldNot(BeNil())
	servers, err := local.ForTests()
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(servers.Target.Config.Host).To(HaveSuffix(*hosts.Load()))
}

func TestAFailedRunIsRepeatedSoon(t *testing.T) {
	e := managedresourcetest.New(t, managedresourcetest.Options{Stopped: true, Configure: every(time.Hour)})
	var failed atomic.Bool
	e.Requests.SetHook(func(request *http.Request) error {
		if request.URL.Path == "/api/v1/secrets" && failed.CompareAndSwap(false, true) {
			return errors.New("synthetic")
		}
		return nil
	})
	e.Start()
	e.Eventually(runs(e)).WithTimeout(managedresourcetest.Patience).Should(BeNumerically(">=", 2))
}

func TestIsOffUnlessEnabled(t *testing.T) {
	e := managedresourcetest.New(t, managedresourcetest.Options{})
	e.Fence()
	e.Expect(e.Requests.Seen()).NotTo(ContainElement(HaveSuffix(" /api/v1/configmaps")))
	families, err := e.Registry.Gather()
	e.Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		e.Expect(family.GetName()).NotTo(ContainSubstring("garbage"))
	}
}

// The garbage collector deletes the objects that the ManagedResource controller leaves to it.
func TestObsoleteObjectsOfSetsAreTakenOver(t *testing.T) {
	s := newScene(t, options{})
	every(time.Hour)(s.Config)
	s.Start()
	const label = `labels: {resources.gardener.cloud/garbage-collectable-reference: "true", part-of: test}`
	s.Set("set", s.ConfigMap("settings-1", "1", label))
	s.AwaitApplied("set", "True/ApplySucceeded")
	s.Expect(s.run()).To(Succeed())
	s.Expect(s.left()).To(Equal([]string{"ConfigMap/settings-1"}), "the set contains it")

	s.Secret("set", s.ConfigMap("settings-2", "2", label))
	s.AwaitData("settings-2", "2")
	s.AwaitApplied("set", "True/ApplySucceeded")
	s.Expect(s.left()).To(Equal([]string{"ConfigMap/settings-1", "ConfigMap/settings-2"}), "left to the collector")
	s.Expect(s.run()).To(Succeed())
	s.Expect(s.left()).To(Equal([]string{"ConfigMap/settings-2"}))

	s.Delete("set")
	s.AwaitGone("set")
	s.Expect(s.left()).To(Equal([]string{"ConfigMap/settings-2"}), "left to the collector")
	s.Expect(s.run()).To(Succeed())
	s.Expect(s.left()).To(BeEmpty())
}
