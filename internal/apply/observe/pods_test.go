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
)

// crowd is Pods without an API server: a test plays the reflector.
type crowd struct {
	*WithT
	pods  *Pods
	store *podStore
	// owner is the watch that shows the Deployments.
	owner *store
	told  []string
}

func newCrowd(t *testing.T, namespaces ...string) *crowd {
	t.Helper()
	c := &crowd{WithT: NewWithT(t)}
	c.pods = NewPods(t.Context(), PodOptions{
		Namespaces: namespaces, Log: logr.Discard(), Clock: clocktesting.NewFakeClock(time.Unix(0, 0)),
		OnChange: func(namespace, name string) { c.told = append(c.told, namespace+"/"+name) },
	})
	c.owner = newStore(nil, nil)
	c.pods.owners[c.owner] = struct{}{}
	if len(namespaces) == 0 {
		c.store = c.of("")
	}
	return c
}

func (c *crowd) of(namespace string) *podStore { return c.pods.open(namespace) }

func (c *crowd) track(key types.NamespacedName, rollout health.Rollout) {
	c.pods.track(c.owner, key, rollout)
}
func (c *crowd) forget(key types.NamespacedName) { c.pods.forget(c.owner, key) }

// heard returns which Deployments were told of since the last call.
func (c *crowd) heard() []string {
	told := c.told
	c.told = nil
	return told
}

func (c *crowd) list(store *podStore, pods ...any) { c.Expect(store.Replace(pods, "1")).To(Succeed()) }
func (c *crowd) see(pod any)                       { c.Expect(c.store.Update(pod)).To(Succeed()) }
func (c *crowd) lose(pod any)                      { c.Expect(c.store.Delete(pod)).To(Succeed()) }

func (c *crowd) count(namespace, name string) Count {
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
		"as many as wanted":                   {[]any{pod("shop", "a", "app", "web"), pod("shop", "b", "app", "web", "hash", "1")}, CountMatches},
		"fewer":                               {[]any{pod("shop", "a", "app", "web")}, CountDiffers},
		"none":                                {nil, CountDiffers},
		"more":                                {[]any{pod("shop", "a", "app", "web"), pod("shop", "b", "app", "web"), pod("shop", "c", "app", "web")}, CountDiffers},
		"one with another label, one without": {[]any{pod("shop", "a", "app", "web"), pod("shop", "b", "app", "db"), pod("shop", "c")}, CountDiffers},
		"one in another namespace":            {[]any{pod("shop", "a", "app", "web"), pod("other", "b", "app", "web")}, CountDiffers},
		"others that do not match are not in excess": {[]any{pod("shop", "a", "app", "web"), pod("shop", "b", "app", "web"), pod("shop", "c", "app", "db")}, CountMatches},
	} {
		t.Run(name, func(t *testing.T) {
			t.Run("pods first", func(t *testing.T) {
				c := newCrowd(t)
				c.list(c.store, tc.pods...)
				c.track(web, wants(2, "app", "web"))
				c.Expect(c.count("shop", "web")).To(Equal(tc.want))
			})
			t.Run("Deployment first", func(t *testing.T) {
				c := newCrowd(t)
				c.track(web, wants(2, "app", "web"))
				c.list(c.store, tc.pods...)
				c.Expect(c.count("shop", "web")).To(Equal(tc.want))
			})
			t.Run("one after the other", func(t *testing.T) {
				c := newCrowd(t)
				c.list(c.store)
				c.track(web, wants(2, "app", "web"))
				for _, each := range tc.pods {
					c.see(each)
				}
				c.Expect(c.count("shop", "web")).To(Equal(tc.want))
			})
		})
	}
}

func TestASelectorOfSeveralLabelsWantsAllOfThem(t *testing.T) {
	c := newCrowd(t)
	c.list(c.store, pod("shop", "a", "app", "web"), pod("shop", "b", "app", "web", "tier", "front"), pod("shop", "c", "tier", "front"))
	c.track(web, wants(1, "app", "web", "tier", "front"))
	c.Expect(c.count("shop", "web")).To(Equal(CountMatches))
}

func TestADeploymentHearsOfWhatMattersToIt(t *testing.T) {
	c := newCrowd(t)
	c.list(c.store, pod("shop", "a", "app", "web"))
	c.track(web, wants(1, "app", "web"))
	c.Expect(c.heard()).To(Equal([]string{"shop/web"}), "it is new")
	c.track(web, wants(1, "app", "web"))
	c.Expect(c.heard()).To(BeEmpty(), "nothing is new about it")
	c.see(pod("shop", "a", "app", "web"))
	c.Expect(c.heard()).To(BeEmpty(), "it has what it wants, whatever its pods do")
	c.see(pod("shop", "x", "app", "db"))
	c.see(pod("other", "b", "app", "web"))
	c.Expect(c.heard()).To(BeEmpty(), "pods of others")
	c.see(pod("shop", "b", "app", "web"))
	c.Expect(c.heard()).To(Equal([]string{"shop/web"}), "one too many")
	c.see(pod("shop", "b", "app", "web"))
	c.Expect(c.heard()).To(Equal([]string{"shop/web"}), "a pod in excess may just have ceased to count")
	c.see(pod("shop", "b", "app", "db"))
	c.Expect(c.heard()).To(Equal([]string{"shop/web"}), "a pod was given away")
	c.Expect(c.count("shop", "web")).To(Equal(CountMatches))
	c.lose(pod("shop", "a"))
	c.Expect(c.heard()).To(Equal([]string{"shop/web"}), "one too few")
	c.track(web, wants(0, "app", "web"))
	c.Expect(c.heard()).To(Equal([]string{"shop/web"}), "it wants none")
	c.Expect(c.count("shop", "web")).To(Equal(CountMatches))
	c.forget(web)
	c.Expect(c.heard()).To(BeEmpty(), "nothing was wrong with it")
}

// Otherwise a set would go on rolling out because of a Deployment that is excluded from now on.
func TestADeploymentThatIsForgottenWhileSomethingIsWrongIsToldOf(t *testing.T) {
	c := newCrowd(t)
	c.list(c.store, pod("shop", "a", "app", "web"))
	c.track(web, wants(0, "app", "web"))
	c.heard()
	c.forget(web)
	c.Expect(c.heard()).To(Equal([]string{"shop/web"}))
	c.Expect(c.count("shop", "web")).To(Equal(CountMatches))
	c.forget(web)
	c.Expect(c.heard()).To(BeEmpty())
}

// Pods that do not count, such as evicted ones, may fill the difference: whoever reads the pods has to look again.
func TestADeploymentThatStillLacksPodsIsToldOfWhenItWantsAnotherNumber(t *testing.T) {
	c := newCrowd(t)
	c.list(c.store)
	c.track(web, wants(1, "app", "web"))
	c.heard()
	c.track(web, wants(2, "app", "web"))
	c.Expect(c.heard()).To(Equal([]string{"shop/web"}))
}

func TestAChangedSelectorCountsAnew(t *testing.T) {
	c := newCrowd(t)
	c.list(c.store, pod("shop", "a", "app", "web"), pod("shop", "b", "app", "web"), pod("shop", "c", "app", "db"))
	c.track(web, wants(1, "app", "web"))
	c.Expect(c.count("shop", "web")).To(Equal(CountDiffers))
	c.track(web, wants(1, "app", "db"))
	rollout, count := c.pods.Of("shop", "web")
	c.Expect(count).To(Equal(CountMatches))
	c.Expect(rollout).To(Equal(wants(1, "app", "db")))
}

func TestBeforeTheFirstListingNothingIsKnown(t *testing.T) {
	c := newCrowd(t)
	c.track(web, wants(1, "app", "web"))
	c.heard()
	c.Expect(c.count("shop", "web")).To(Equal(CountPending))
	c.Expect(c.count("shop", "untracked")).To(Equal(CountMatches), "a Deployment whose pods are not looked for")
	c.see(pod("shop", "a", "app", "web"))
	c.Expect(c.count("shop", "web")).To(Equal(CountPending))
	c.heard()
	c.list(c.store, pod("shop", "a", "app", "web"))
	c.Expect(c.heard()).To(Equal([]string{"shop/web"}))
	c.Expect(c.count("shop", "web")).To(Equal(CountMatches))
}

func TestEveryNamespaceIsWaitedForByItself(t *testing.T) {
	c := newCrowd(t, "shop", "bank")
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

func TestANewListingDropsWhatItDoesNotHold(t *testing.T) {
	c := newCrowd(t)
	c.list(c.store, pod("shop", "a", "app", "web"), pod("shop", "b", "app", "web"), pod("bank", "c", "app", "web"))
	c.track(web, wants(1, "app", "web"))
	c.heard()
	c.list(c.store, pod("shop", "b", "app", "web"))
	c.Expect(c.heard()).To(Equal([]string{"shop/web"}))
	c.Expect(c.count("shop", "web")).To(Equal(CountMatches))
	c.Expect(c.pods.pods).To(HaveLen(1))
}

var forbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no right"))

// answer plays an answer of the API server to a request to watch.
func (c *crowd) answer(store *podStore, err error) {
	store.turned(store.admission.answered(true, err), err)
}

// Without the right to see pods nobody waits for them; with it they are counted again.
func TestARefusalOfPodsConcernsOneNamespaceAndEndsWithIt(t *testing.T) {
	c := newCrowd(t, "shop", "bank")
	shop, bank := c.of("shop"), c.of("bank")
	till := types.NamespacedName{Namespace: "bank", Name: "till"}
	c.track(web, wants(1, "app", "web"))
	c.track(till, wants(1, "app", "till"))
	c.list(bank)
	c.answer(bank, nil)
	c.heard()
	c.answer(shop, forbidden)
	c.Expect(c.heard()).To(Equal([]string{"shop/web"}))
	c.Expect(c.count("shop", "web")).To(Equal(CountUnknown))
	c.Expect(c.count("bank", "till")).To(Equal(CountDiffers), "another namespace")
	c.answer(shop, nil)
	c.Expect(c.count("shop", "web")).To(Equal(CountUnknown), "not before they are listed")
	c.list(shop)
	c.Expect(c.heard()).To(ContainElement("shop/web"))
	c.Expect(c.count("shop", "web")).To(Equal(CountDiffers))
}

func TestOneRefusalOfPodsThatWereSeenChangesNothing(t *testing.T) {
	c := newCrowd(t)
	c.track(web, wants(1, "app", "web"))
	c.list(c.store)
	c.answer(c.store, nil)
	c.heard()
	c.answer(c.store, forbidden)
	c.Expect(c.heard()).To(BeEmpty())
	c.Expect(c.count("shop", "web")).To(Equal(CountDiffers))
}

// A Deployment may be shown by several watches: the one of all namespaces and the one of its own, say.
func TestADeploymentIsCountedAsLongAsOneWatchShowsIt(t *testing.T) {
	c := newCrowd(t)
	other := newStore(nil, nil)
	c.pods.start(other)
	c.list(c.store)
	c.track(web, wants(1, "app", "web"))
	c.pods.track(other, web, wants(1, "app", "web"))
	c.heard()
	c.forget(web)
	c.Expect(c.heard()).To(BeEmpty())
	c.Expect(c.count("shop", "web")).To(Equal(CountDiffers))
	c.pods.release(other)
	c.Expect(c.count("shop", "web")).To(Equal(CountMatches), "it is not counted")
	c.pods.track(other, web, wants(1, "app", "web"))
	c.Expect(c.count("shop", "web")).To(Equal(CountMatches), "an event that was under way when its watch was stopped")
}

func TestPodsAreWatchedAsLongAsDeploymentsAre(t *testing.T) {
	c := newCrowd(t)
	stopped := false
	c.store.stop = func() { stopped = true }
	c.list(c.store, pod("shop", "a", "app", "web"))
	c.track(web, wants(0, "app", "web"))
	c.pods.release(c.owner)
	c.Expect(stopped).To(BeTrue())
	c.see(pod("shop", "b", "app", "web"))
	c.list(c.store, pod("shop", "c", "app", "web"))
	c.Expect(c.pods.pods).To(BeEmpty())
	c.Expect(c.pods.sets).To(BeEmpty())
	c.Expect(c.pods.deployments).To(BeEmpty())
	c.Expect(c.pods.streams).To(BeEmpty())
}

// Pods of one Deployment have the same labels: they are kept once, as long as a pod has them.
func TestEqualLabelsAreKeptOnce(t *testing.T) {
	c := newCrowd(t)
	c.list(c.store)
	for i := range 100 {
		c.see(pod("shop", strconv.Itoa(i), "app", "web", "hash", "1"))
	}
	c.see(pod("shop", "bare"))
	c.see(pod("bank", "bare"))
	c.Expect(c.pods.sets).To(HaveLen(2))
	c.see(pod("shop", "0", "app", "web", "hash", "2"))
	c.Expect(c.pods.sets).To(HaveLen(3))
	c.lose(pod("shop", "0"))
	c.Expect(c.pods.sets).To(HaveLen(2))
	for i := range 100 {
		c.lose(pod("shop", strconv.Itoa(i)))
	}
	c.lose(pod("shop", "bare"))
	c.lose(pod("bank", "bare"))
	c.lose(pod("bank", "bare"))
	c.Expect(c.pods.sets).To(BeEmpty())
	c.Expect(c.pods.pods).To(BeEmpty())
}
