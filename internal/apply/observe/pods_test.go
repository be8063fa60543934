package observe

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/espalier-dev/espalier/internal/health"
	"github.com/espalier-dev/espalier/internal/reflector"
)

// podsFixture is Pods without an API server. The test passes objects to it as the reflector would.
type podsFixture struct {
	*WithT
	pods  *Pods
	store *podStore
	// owner is the store of the watch that shows the Deployments.
	owner    *store
	reported []string
}

func newPodsFixture(t *testing.T, namespaces ...string) *podsFixture {
	t.Helper()
	c := &podsFixture{WithT: NewWithT(t)}
	c.pods = NewPods(t.Context(), PodOptions{
		Namespaces: namespaces, Log: logr.Discard(), Clock: clocktesting.NewFakeClock(time.Unix(0, 0)),
		OnChange: func(namespace, name string) { c.reported = append(c.reported, namespace+"/"+name) },
	})
	c.owner = newStore(nil, nil)
	c.pods.owners[c.owner] = struct{}{}
	if len(namespaces) == 0 {
		c.store = c.of("")
	}
	return c
}

func (c *podsFixture) of(namespace string) *podStore { return c.pods.newStore(namespace) }

func (c *podsFixture) track(key types.NamespacedName, rollout health.Rollout) {
	c.pods.track(c.owner, key, rollout)
}
func (c *podsFixture) forget(key types.NamespacedName) { c.pods.forget(c.owner, key) }

// takeReports returns the Deployments for which OnChange was called since the last call of takeReports.
func (c *podsFixture) takeReports() []string {
	reported := c.reported
	c.reported = nil
	return reported
}

func (c *podsFixture) list(store *podStore, pods ...any) {
	c.Expect(reflector.NewStore(labelsOf, store).Replace(pods, "1")).To(Succeed())
}

func (c *podsFixture) update(pod any) {
	c.Expect(reflector.NewStore(labelsOf, c.store).Update(pod)).To(Succeed())
}

func (c *podsFixture) delete(pod any) {
	c.Expect(reflector.NewStore(labelsOf, c.store).Delete(pod)).To(Succeed())
}

func (c *podsFixture) count(namespace, name string) Count {
	_, count := c.pods.Of(namespace, name)
	return count
}

// pod returns the metadata of a pod with labels like "app", "web".
func pod(namespace, name string, labels ...string) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.Namespace, object.Name = namespace, name
	for i := 0; i < len(labels); i += 2 {
		metav1.SetMetaDataLabel(&object.ObjectMeta, labels[i], labels[i+1])
	}
	return object
}

func wants(replicas int32, labels ...string) health.Rollout {
	return health.Rollout{Replicas: replicas, Selector: pod("", "", labels...).Labels}
}

var web = types.NamespacedName{Namespace: "shop", Name: "web"}

func TestPodsAreComparedWithWhatADeploymentAsksFor(t *testing.T) {
	for name, tc := range map[string]struct {
		pods []any
		want Count
	}{
		"as many as wanted": {
			[]any{pod("shop", "a", "app", "web"), pod("shop", "b", "app", "web", "hash", "1")}, CountMatches,
		},
		"fewer": {[]any{pod("shop", "a", "app", "web")}, CountDiffers},
		"none":  {nil, CountDiffers},
		"more": {
			[]any{pod("shop", "a", "app", "web"), pod("shop", "b", "app", "web"), pod("shop", "c", "app", "web")}, CountDiffers,
		},
		"one with another label, one without": {
			[]any{pod("shop", "a", "app", "web"), pod("shop", "b", "app", "db"), pod("shop", "c")}, CountDiffers,
		},
		"one in another namespace": {[]any{pod("shop", "a", "app", "web"), pod("other", "b", "app", "web")}, CountDiffers},
		"pods that do not match are not counted": {
			[]any{pod("shop", "a", "app", "web"), pod("shop", "b", "app", "web"), pod("shop", "c", "app", "db")}, CountMatches,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Run("pods first", func(t *testing.T) {
				c := newPodsFixture(t)
				c.list(c.store, tc.pods...)
				c.track(web, wants(2, "app", "web"))
				c.Expect(c.count("shop", "web")).To(Equal(tc.want))
			})
			t.Run("Deployment first", func(t *testing.T) {
				c := newPodsFixture(t)
				c.track(web, wants(2, "app", "web"))
				c.list(c.store, tc.pods...)
				c.Expect(c.count("shop", "web")).To(Equal(tc.want))
			})
			t.Run("one after the other", func(t *testing.T) {
				c := newPodsFixture(t)
				c.list(c.store)
				c.track(web, wants(2, "app", "web"))
				for _, each := range tc.pods {
					c.update(each)
				}
				c.Expect(c.count("shop", "web")).To(Equal(tc.want))
			})
		})
	}
}

func TestSelectorOfSeveralLabelsMatchesOnlyPodsWithAllOfThem(t *testing.T) {
	c := newPodsFixture(t)
	c.list(c.store, pod("shop", "a", "app", "web"), pod("shop", "b", "app", "web", "tier", "front"), pod("shop", "c", "tier", "front"))
	c.track(web, wants(1, "app", "web", "tier", "front"))
	c.Expect(c.count("shop", "web")).To(Equal(CountMatches))
}

func TestChangesOfPodsAreReportedForTheirDeployments(t *testing.T) {
	c := newPodsFixture(t)
	c.list(c.store, pod("shop", "a", "app", "web"))
	c.track(web, wants(1, "app", "web"))
	c.Expect(c.takeReports()).To(Equal([]string{"shop/web"}), "it is new")
	c.track(web, wants(1, "app", "web"))
	c.Expect(c.takeReports()).To(BeEmpty(), "nothing is new about it")
	c.update(pod("shop", "a", "app", "web"))
	c.Expect(c.takeReports()).To(BeEmpty(), "it has what it wants, whatever its pods do")
	c.update(pod("shop", "x", "app", "db"))
	c.update(pod("other", "b", "app", "web"))
	c.Expect(c.takeReports()).To(BeEmpty(), "pods of others")
	c.update(pod("shop", "b", "app", "web"))
	c.Expect(c.takeReports()).To(Equal([]string{"shop/web"}), "one too many")
	c.update(pod("shop", "b", "app", "web"))
	c.Expect(c.takeReports()).To(Equal([]string{"shop/web"}), "a pod in excess may just have ceased to count")
	c.update(pod("shop", "b", "app", "db"))
	c.Expect(c.takeReports()).To(Equal([]string{"shop/web"}), "a pod was given away")
	c.Expect(c.count("shop", "web")).To(Equal(CountMatches))
	c.delete(pod("shop", "a"))
	c.Expect(c.takeReports()).To(Equal([]string{"shop/web"}), "one too few")
	c.track(web, wants(0, "app", "web"))
	c.Expect(c.takeReports()).To(Equal([]string{"shop/web"}), "it wants none")
	c.Expect(c.count("shop", "web")).To(Equal(CountMatches))
	c.forget(web)
	c.Expect(c.takeReports()).To(BeEmpty(), "nothing was wrong with it")
}

// A Deployment that is excluded from now on must not keep the condition of its set at progressing.
func TestDeploymentForgottenWithWrongPodCountIsReported(t *testing.T) {
	c := newPodsFixture(t)
	c.list(c.store, pod("shop", "a", "app", "web"))
	c.track(web, wants(0, "app", "web"))
	c.takeReports()
	c.forget(web)
	c.Expect(c.takeReports()).To(Equal([]string{"shop/web"}))
	c.Expect(c.count("shop", "web")).To(Equal(CountMatches))
	c.forget(web)
	c.Expect(c.takeReports()).To(BeEmpty())
}

// The difference may consist of pods that do not count, such as evicted ones, so the health check must read the pods again.
func TestDeploymentThatLacksPodsIsReportedWhenItsReplicasChange(t *testing.T) {
	c := newPodsFixture(t)
	c.list(c.store)
	c.track(web, wants(1, "app", "web"))
	c.takeReports()
	c.track(web, wants(2, "app", "web"))
	c.Expect(c.takeReports()).To(Equal([]string{"shop/web"}))
}

func TestChangedSelectorRecountsPods(t *testing.T) {
	c := newPodsFixture(t)
	c.list(c.store, pod("shop", "a", "app", "web"), pod("shop", "b", "app", "web"), pod("shop", "c", "app", "db"))
	c.track(web, wants(1, "app", "web"))
	c.Expect(c.count("shop", "web")).To(Equal(CountDiffers))
	c.track(web, wants(1, "app", "db"))
	rollout, count := c.pods.Of("shop", "web")
	c.Expect(count).To(Equal(CountMatches))
	c.Expect(rollout).To(Equal(wants(1, "app", "db")))
}

func TestCountIsPendingBeforeTheFirstListing(t *testing.T) {
	c := newPodsFixture(t)
	c.track(web, wants(1, "app", "web"))
	c.takeReports()
	c.Expect(c.count("shop", "web")).To(Equal(CountPending))
	c.Expect(c.count("shop", "untracked")).To(Equal(CountMatches), "a Deployment whose pods are not looked for")
	c.update(pod("shop", "a", "app", "web"))
	c.Expect(c.count("shop", "web")).To(Equal(CountPending))
	c.takeReports()
	c.list(c.store, pod("shop", "a", "app", "web"))
	c.Expect(c.takeReports()).To(Equal([]string{"shop/web"}))
	c.Expect(c.count("shop", "web")).To(Equal(CountMatches))
}

func TestCountIsPendingPerNamespace(t *testing.T) {
	c := newPodsFixture(t, "shop", "bank")
	shop, bank := c.of("shop"), c.of("bank")
	till := types.NamespacedName{Namespace: "bank", Name: "till"}
	c.track(web, wants(1, "app", "web"))
	c.track(till, wants(0, "app", "till"))
	c.list(shop, pod("shop", "a", "app", "web"))
	c.Expect(c.count("shop", "web")).To(Equal(CountMatches))
	c.Expect(c.count("bank", "till")).To(Equal(CountPending))
	c.list(bank)
	c.Expect(c.count("shop", "web")).To(Equal(CountMatches), "the listing of one namespace leaves the pods of others")
	c.Expect(c.count("bank", "till")).To(Equal(CountMatches))
}

func TestNewListingDropsMissingPods(t *testing.T) {
	c := newPodsFixture(t)
	c.list(c.store, pod("shop", "a", "app", "web"), pod("shop", "b", "app", "web"), pod("bank", "c", "app", "web"))
	c.track(web, wants(1, "app", "web"))
	c.takeReports()
	c.list(c.store, pod("shop", "b", "app", "web"))
	c.Expect(c.takeReports()).To(Equal([]string{"shop/web"}))
	c.Expect(c.count("shop", "web")).To(Equal(CountMatches))
	c.Expect(c.pods.pods).To(HaveLen(1))
}

var forbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no right"))

// answer records an answer of the API server to a watch request.
func (c *podsFixture) answer(store *podStore, err error) {
	store.onAccessChange(store.access.recordAnswer(true, err), err)
}

// Without the permission to watch pods, callers do not wait for them. With it, pods are counted again.
func TestRefusalOfPodsAffectsOneNamespaceUntilItEnds(t *testing.T) {
	c := newPodsFixture(t, "shop", "bank")
	shop, bank := c.of("shop"), c.of("bank")
	till := types.NamespacedName{Namespace: "bank", Name: "till"}
	c.track(web, wants(1, "app", "web"))
	c.track(till, wants(1, "app", "till"))
	c.list(bank)
	c.answer(bank, nil)
	c.takeReports()
	c.answer(shop, forbidden)
	c.Expect(c.takeReports()).To(Equal([]string{"shop/web"}))
	c.Expect(c.count("shop", "web")).To(Equal(CountUnknown))
	c.Expect(c.count("bank", "till")).To(Equal(CountDiffers), "another namespace")
	c.answer(shop, nil)
	c.Expect(c.count("shop", "web")).To(Equal(CountUnknown), "not before they are listed")
	c.list(shop)
	c.Expect(c.takeReports()).To(ContainElement("shop/web"))
	c.Expect(c.count("shop", "web")).To(Equal(CountDiffers))
}

func TestOneRefusalAfterAListingOfPodsChangesNothing(t *testing.T) {
	c := newPodsFixture(t)
	c.track(web, wants(1, "app", "web"))
	c.list(c.store)
	c.answer(c.store, nil)
	c.takeReports()
	c.answer(c.store, forbidden)
	c.Expect(c.takeReports()).To(BeEmpty())
	c.Expect(c.count("shop", "web")).To(Equal(CountDiffers))
}

// Several watches may contain a Deployment, for example the watch of all namespaces and the watch of its own namespace.
func TestDeploymentIsCountedWhileOneWatchShowsIt(t *testing.T) {
	c := newPodsFixture(t)
	other := newStore(nil, nil)
	c.pods.addOwner(other)
	c.list(c.store)
	c.track(web, wants(1, "app", "web"))
	c.pods.track(other, web, wants(1, "app", "web"))
	c.takeReports()
	c.forget(web)
	c.Expect(c.takeReports()).To(BeEmpty())
	c.Expect(c.count("shop", "web")).To(Equal(CountDiffers))
	c.pods.removeOwner(other)
	c.Expect(c.count("shop", "web")).To(Equal(CountMatches), "it is not counted")
	c.pods.track(other, web, wants(1, "app", "web"))
	c.Expect(c.count("shop", "web")).To(Equal(CountMatches), "an event that was under way when its watch was stopped")
}

func TestPodsAreWatchedWhileDeploymentsAreWatched(t *testing.T) {
	c := newPodsFixture(t)
	stopped := false
	c.store.stop = func() { stopped = true }
	c.list(c.store, pod("shop", "a", "app", "web"))
	c.track(web, wants(0, "app", "web"))
	c.pods.removeOwner(c.owner)
	c.Expect(stopped).To(BeTrue())
	c.update(pod("shop", "b", "app", "web"))
	c.list(c.store, pod("shop", "c", "app", "web"))
	c.Expect(c.pods.pods).To(BeEmpty())
	c.Expect(c.pods.deployments).To(BeEmpty())
	c.Expect(c.pods.stores).To(BeEmpty())
}

// Pods of one Deployment have the same labels. They are stored once, as long as a pod has them.
func TestEqualLabelsAreStoredOnce(t *testing.T) {
	c := newPodsFixture(t)
	stored := func() map[podLabels]bool {
		texts := map[podLabels]bool{}
		for _, pods := range c.pods.pods {
			for _, text := range pods {
				texts[text] = true
			}
		}
		return texts
	}
	c.list(c.store)
	for i := range 100 {
		c.update(pod("shop", strconv.Itoa(i), "app", "web", "hash", "1"))
	}
	c.update(pod("shop", "bare"))
	c.update(pod("bank", "bare"))
	c.Expect(stored()).To(HaveLen(2))
	c.update(pod("shop", "0", "app", "web", "hash", "2"))
	c.Expect(stored()).To(HaveLen(3))
	c.delete(pod("shop", "0"))
	c.Expect(stored()).To(HaveLen(2))
	for i := range 100 {
		c.delete(pod("shop", strconv.Itoa(i)))
	}
	c.delete(pod("shop", "bare"))
	c.delete(pod("bank", "bare"))
	c.delete(pod("bank", "bare"))
	c.Expect(stored()).To(BeEmpty())
	c.Expect(c.pods.pods).To(BeEmpty())
}
