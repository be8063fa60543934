package secretversions_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/managedresource/secretversions"
)

func TestOnlyUsedSecretsAreKept(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 20 {
		b.create(fmt.Sprintf("before-%d", i))
	}
	b.start()
	b.use("web", "before-3", "later")
	for i := range 20 {
		b.create(fmt.Sprintf("after-%d", i))
		b.change(fmt.Sprintf("before-%d", i))
	}
	b.create("later")
	b.fence()
	b.Expect(b.tracker.Kept()).To(Equal(2))
	b.Expect(b.changes.take()).To(Equal([]string{"before-3", "later"}))
	b.use("web", "later")
	b.Expect(b.tracker.Kept()).To(Equal(1))
	b.tracker.Release(b.key("web"))
	b.Expect(b.tracker.Kept()).To(BeZero())
}

func TestASecretIsUnknownUntilSomethingHappensToIt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.create("s")
	b.start()
	b.use("web", "s")
	b.fence()
	_, knowledge := b.tracker.Lookup(b.key("s"))
	b.Expect(knowledge).To(Equal(secretversions.Unknown))
	b.Expect(b.changes.take()).To(BeEmpty())

	expectChange := func() { // called after the change is known
		b.t.Helper()
		b.Eventually(b.changes.take).WithTimeout(patience).Should(Equal([]string{"s"}))
	}
	b.awaitVersion("s", b.change("s"))
	expectChange()
	b.remove("s")
	b.awaitAbsent("s")
	expectChange()
	b.awaitVersion("s", b.create("s"))
	expectChange()
}

// expired is the response of an API server that no longer knows the version at which a watch wants to continue.
func expired(request *http.Request) *refusal {
	if !watches(request) || streams(request) || request.URL.Query().Get("resourceVersion") == "" {
		return nil
	}
	return &refusal{http.StatusGone, "Expired", "too old resource version"}
}

// lists is the response of an API server that does not support streaming lists.
func lists(request *http.Request) *refusal {
	if !streams(request) {
		return nil
	}
	return &refusal{
		http.StatusUnprocessableEntity, "Invalid",
		"sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
	}
}

// once limits an answer to the first request that it matches: the watch after the next list must work.
func once(answer func(*http.Request) *refusal) func(*http.Request) *refusal {
	var mu sync.Mutex
	used := false
	return func(request *http.Request) *refusal {
		mu.Lock()
		defer mu.Unlock()
		if used {
			return nil
		}
		refused := answer(request)
		used = refused != nil
		return refused
	}
}

func both(answers ...func(*http.Request) *refusal) func(*http.Request) *refusal {
	return func(request *http.Request) *refusal {
		for _, each := range answers {
			if refused := each(request); refused != nil {
				return refused
			}
		}
		return nil
	}
}

func TestChangesDuringAnInterruptedWatchAreReported(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		before, after func(*http.Request) *refusal
		relists       bool
	}{
		"the watch goes on where it was":        {},
		"the version is known no longer":        {after: once(expired), relists: true},
		"listings are not streamed":             {before: lists, after: lists},
		"nor is the version known any longer":   {before: lists, after: both(once(expired), lists), relists: true},
		"streaming has been switched off since": {after: both(once(expired), lists), relists: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.line.answer(tc.before)
			b.start(b.namespace)
			b.use("web", "changed", "deleted", "created", "untouched", "missing")
			for _, each := range []string{"changed", "deleted", "anew", "untouched", "foreign"} {
				b.create(each)
			}
			b.use("other", "anew")
			b.create("freed", b.finalizer)
			b.fence()
			b.changes.take()
			b.carriers.take()
			listings := len(b.listings())

			b.line.interrupt()
			changed := b.change("changed")
			b.remove("deleted")
			b.remove("anew")
			anew := b.create("anew")
			created := b.create("created")
			b.change("foreign")
			b.create("carrier", b.finalizer)
			b.patch("freed", `{"metadata":{"finalizers":null}}`)
			b.line.answer(tc.after)
			b.line.resume()

			b.awaitVersion("changed", changed)
			b.awaitAbsent("deleted")
			b.awaitVersion("anew", anew)
			b.awaitVersion("created", created)
			b.fence()
			reported := b.changes.take()
			b.Expect(reported).To(ContainElements("anew", "changed", "created", "deleted"))
			b.Expect(reported).NotTo(ContainElements("untouched", "foreign"))
			b.Expect(b.carriers.take()).To(Equal([]string{"carrier"}))
			b.Expect(b.tracker.Carries(b.key("freed"))).To(BeFalse())
			b.Expect(b.tracker.Carries(b.key("carrier"))).To(BeTrue())
			b.Expect(len(b.listings()) > listings).To(Equal(tc.relists))
			b.patch("carrier", `{"metadata":{"finalizers":null}}`)
		})
	}
}

// listings returns the requests for lists of Secrets, streamed or in pages.
func (b *bench) listings() []string {
	return append(withQuery(b.line.seen(), "sendInitialEvents=true"), withQuery(b.line.seen(), "limit=500")...)
}

func TestWhereListingsAreNotStreamedTheyArePaged(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			for i := worker; i < 502; i += 4 {
				b.create(fmt.Sprintf("s-%03d", i))
			}
		})
	}
	group.Wait()
	b.line.answer(both(lists, once(func(request *http.Request) *refusal {
		if request.URL.Query().Get("continue") == "" {
			return nil
		}
		b.remove("s-000") // it was on the first page
		return &refusal{http.StatusGone, "Expired", "The provided continue parameter is too old"}
	})))
	b.prepare(b.namespace)
	b.use("web", "s-000", "s-001", "s-501", "missing")
	go func() { _ = b.tracker.Start(b.ctx) }()
	b.Expect(b.tracker.Changes(nil).WaitForSync(b.ctx)).To(Succeed())

	first, second := HaveSuffix("/secrets?limit=500"), And(ContainSubstring("continue="), HaveSuffix("limit=500"))
	b.Expect(withQuery(b.line.seen(), "limit=500")).To(HaveExactElements(first, second, first, second))
	known := map[string]secretversions.Knowledge{}
	for _, each := range []string{"s-000", "s-001", "s-501", "missing"} {
		_, known[each] = b.tracker.Lookup(b.key(each))
	}
	b.Expect(known).To(Equal(map[string]secretversions.Knowledge{
		"s-000": secretversions.Absent, "s-001": secretversions.Present, "s-501": secretversions.Present, "missing": secretversions.Absent,
	}))
	b.Expect(b.tracker.Kept()).To(Equal(4))
}

func TestOnlyTheConfiguredNamespacesAreRequested(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	one, other := b.namespace, b.newNamespace()
	b.start(one, other)
	b.use("web", "s")
	b.awaitVersion("s", b.create("s"))
	b.namespace = other
	b.use("web", "s")
	b.awaitVersion("s", b.create("s"))
	b.Expect(b.tracker.Kept()).To(Equal(2))
	for _, each := range b.line.seen() {
		b.Expect(each).To(Or(HavePrefix("/api/v1/namespaces/"+one+"/secrets?"), HavePrefix("/api/v1/namespaces/"+other+"/secrets?")))
	}
	b.namespace = "elsewhere"
	b.use("web", "s")
	_, knowledge := b.tracker.Lookup(b.key("s"))
	b.Expect(knowledge).To(Equal(secretversions.Unknown))
}

func TestSecretsWithTheFinalizerAreEnqueued(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.create("before", b.finalizer, "example.org/other")
	b.create("foreign", "example.org/other")
	b.start(b.namespace)
	b.Expect(b.carriers.take()).To(Equal([]string{"before"}))
	b.create("after", b.finalizer)
	b.create("plain")
	b.fence()
	b.Expect(b.carriers.take()).To(Equal([]string{"after"}))
	b.patch("plain", `{"metadata":{"finalizers":["`+b.finalizer+`"]}}`)
	b.remove("before")
	b.fence()
	b.Expect(b.carriers.take()).To(Equal([]string{"before", "plain"}))
	b.Expect(b.tracker.Kept()).To(Equal(3))

	late := newInbox()
	b.Expect(b.tracker.Carriers().Start(b.ctx, late.queue)).To(Succeed())
	b.Expect(late.take()).To(Equal([]string{"after", "before", "plain"}))

	for _, each := range []string{"before", "after", "plain", "foreign"} {
		b.patch(each, `{"metadata":{"finalizers":null}}`)
	}
	b.fence()
	b.Expect(late.take()).To(BeEmpty())
	b.Expect(b.tracker.Kept()).To(BeZero())
}

func TestReadinessAndControllersWaitForTheFirstListing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.line.interrupt()
	b.prepare(b.namespace)
	b.Expect(b.tracker.Ready(nil)).To(Succeed(), "a replica that does not lead")
	go func() { _ = b.tracker.Start(b.ctx) }()
	b.Eventually(func() error { return b.tracker.Ready(nil) }).WithTimeout(patience).
		Should(MatchError("secrets of the source are not listed yet"))

	short, cancel := context.WithTimeout(b.ctx, 10*time.Millisecond)
	defer cancel()
	b.Expect(b.tracker.Changes(nil).WaitForSync(short)).To(MatchError(ContainSubstring(" secrets in namespace %q of the source: ",
		b.namespace)))
	ending, end := context.WithCancel(b.ctx)
	end()
	b.Expect(b.tracker.Carriers().WaitForSync(ending)).To(Succeed(), "the process ends")

	b.line.resume()
	b.Expect(b.tracker.Carriers().WaitForSync(b.ctx)).To(Succeed())
	b.Expect(b.tracker.Ready(nil)).To(Succeed())
}

func TestMissingRightsAreReportedWithTheSolution(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const name = "without-rights"
	_, err := b.admin.CoreV1().ServiceAccounts(b.namespace).Create(b.ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{})
	b.Expect(err).NotTo(HaveOccurred())
	token, err := b.admin.CoreV1().ServiceAccounts(b.namespace).CreateToken(b.ctx, name, &authenticationv1.TokenRequest{},
		metav1.CreateOptions{})
	b.Expect(err).NotTo(HaveOccurred())
	b.config = rest.AnonymousClientConfig(b.config)
	b.config.BearerToken = token.Status.Token
	b.prepare()
	go func() { _ = b.tracker.Start(b.ctx) }()
	b.Eventually(func() string {
		short, cancel := context.WithTimeout(b.ctx, time.Millisecond)
		defer cancel()
		return fmt.Sprint(b.tracker.Changes(nil).WaitForSync(short))
	}).WithTimeout(patience).Should(And(
		HavePrefix("cannot list secrets in all namespaces of the source: secrets is forbidden: "),
		HaveSuffix(": grant list and watch, for example with the roles in deploy/managedresource-controller"),
	))
}
