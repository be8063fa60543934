package applier_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	. "github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
	"github.com/espalier-dev/espalier/test/binary"
)

// setWrites lists the writes to a ManagedResource since the requests were reset: "" for the object, "/status" for its status.
func setWrites(e *Env, name string) []string {
	var found []string
	for _, each := range e.Requests.Writes() {
		if _, rest, matches := strings.Cut(each, "/namespaces/"+e.Namespace+"/managedresources/"+name); matches {
			found = append(found, rest)
		}
	}
	return found
}

// settledSet waits until all three conditions are final and no controller sends further requests.
func settledSet(e *Env, name string) *resourcesv1alpha1.ManagedResource {
	e.T.Helper()
	e.AwaitApplied(name, succeeded)
	e.AwaitCondition(name, "ResourcesHealthy", "True/ResourcesHealthy")
	e.AwaitCondition(name, "ResourcesProgressing", "False/ResourcesRolledOut")
	return e.Get(name)
}

// plain returns objects that are healthy as soon as they exist. For some of them, a health rule has to confirm that.
func plain(e *Env, value string) []string {
	all := manifests(e)
	return append([]string{e.ConfigMap("one", value)}, all[1:len(all)-1]...) // the last one is a Deployment
}

func TestANewSetNeedsThreeWritesOfItsManagedResource(t *testing.T) {
	t.Parallel()
	for name, two := range map[string]bool{"one cluster": false, "two clusters": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := New(t, Options{TwoClusters: two, Configure: longSyncPeriod})
			e.Set("mr", plain(e, "1")...)
			settledSet(e, "mr")
			e.Expect(setWrites(e, "mr")).To(Equal([]string{"", "/status", "/status"}), "finalizer, announcement, result")
		})
	}
}

// No Deployment controller runs in the target; the test does its work. Time passes only when the test advances the clock.
func TestTheResultWaitsForTheControllerOfADeploymentForALimitedTime(t *testing.T) {
	t.Parallel()
	now := clocktesting.NewFakeClock(time.Now())
	e := New(t, Options{TwoClusters: true, Clock: now, Configure: longSyncPeriod})
	all := manifests(e)
	web := all[len(all)-1]
	awaitPasses := func() {
		e.T.Helper()
		before := e.Counter("espalier_managedresource_requests_saved_total")
		e.Eventually(func() float64 { return e.Counter("espalier_managedresource_requests_saved_total") }).WithTimeout(Patience).
			Should(BeNumerically(">", before+3))
	}
	e.Set("mr", web, e.ConfigMap("one", "1"))
	e.Await("apps/v1/Deployment", "web", func(Gomega, *unstructured.Unstructured) {})
	awaitPasses()
	e.Expect(setWrites(e, "mr")).To(Equal([]string{"", "/status"}), "finalizer, announcement")
	e.PatchStatus("apps/v1/Deployment", "web", `{"status": {"observedGeneration": 1, "conditions": [{"type": "Available", "status": "True"},
		{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}]}}`)
	settledSet(e, "mr")
	e.Expect(setWrites(e, "mr")).To(Equal([]string{"", "/status", "/status"}), "finalizer, announcement, result")

	e.Requests.Reset()
	e.Secret("mr", strings.Replace(web, "replicas: 0", "replicas: 1", 1))
	e.AwaitAbsent("v1/ConfigMap", "one")
	awaitPasses()
	e.Expect(setWrites(e, "mr")).To(Equal([]string{"/status"}), "announcement")
	e.Expect(slices.DeleteFunc(e.Requests.Seen(), func(each string) bool { return !strings.HasSuffix(each, "/configmaps/one") })).
		To(HaveExactElements(HavePrefix("DELETE ")), "later passes do not read it")
	now.Step(300 * time.Millisecond)
	e.AwaitCondition("mr", "ResourcesHealthy", "False/DeploymentUnhealthy")
	e.AwaitCondition("mr", "ResourcesProgressing", "True/DeploymentProgressing")
	e.Expect(setWrites(e, "mr")).To(Equal([]string{"/status", "/status"}), "announcement, result")
}

func TestAChangeWithoutNewReferencesNeedsOneWriteOfTheManagedResource(t *testing.T) {
	t.Parallel()
	for name, two := range map[string]bool{"one cluster": false, "two clusters": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := New(t, Options{TwoClusters: two, Configure: longSyncPeriod})
			e.Set("mr", plain(e, "1")...)
			before := settledSet(e, "mr")
			e.AwaitRest()
			e.Secret("mr", plain(e, "2")...)
			e.Eventually(func() *string { return e.Get("mr").Status.SecretsDataChecksum }).WithTimeout(Patience).
				ShouldNot(Equal(before.Status.SecretsDataChecksum))
			e.Expect(describeConditions(e.Get("mr"))).To(Equal(healthyAndApplied()))
			e.AwaitData("one", "2")
			e.Expect(setWrites(e, "mr")).To(Equal([]string{"/status"}), "the result")
		})
	}
}

func TestConflictAtTheFinalizerOfASetIsRetriedAtOnce(t *testing.T) {
	t.Parallel()
	log := &binary.Log{}
	e := New(t, Options{Log: log.Logger()})
	var conflicts atomic.Int32
	e.Requests.SetHook(func(r *http.Request) error {
		if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/managedresources/mr") && conflicts.Add(1) == 1 {
			return apierrors.NewConflict(schema.GroupResource{Group: "resources.gardener.cloud", Resource: "managedresources"}, "mr",
				errors.New("changed"))
		}
		return nil
	})
	e.Set("mr", e.ConfigMap("c", "1"))
	e.AwaitApplied("mr", succeeded)
	e.Expect(conflicts.Load()).To(BeNumerically(">=", 2), "the second attempt adds the finalizer")
	e.Expect(log.Containing("Reconciler error")).To(BeEmpty(), "a conflict is retried without the back-off of failures")
}
