package together_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/binary"
)

// load sends requests until it is stopped. It counts all requests, and the failed ones.
type load struct {
	asked, failed atomic.Int64
	// warned is set to true by the test when, from then on, a client whose request has failed must not get a second failure.
	warned atomic.Bool
	// again counts such second failures: the client had a failure, and warned was true, before it sent the request.
	again   atomic.Int64
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu sync.Mutex
	// mu guards the fields below.
	failures []string
	met      map[*http.Client]bool
}

// one sends a request of a client, and counts it.
func (l *load) one(by *http.Client, send func() error) {
	l.mu.Lock()
	knows := l.met[by] && l.warned.Load()
	l.mu.Unlock()
	err := send()
	l.asked.Add(1)
	if err == nil {
		return
	}
	l.failed.Add(1)
	if knows {
		l.again.Add(1)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.met[by] = true
	if len(l.failures) < 5 {
		l.failures = append(l.failures, err.Error())
	}
}

// end stops sending requests, waits until all are answered, and returns the counts.
func (l *load) end() (asked, failed int64) {
	l.cancel()
	l.running.Wait()
	return l.asked.Load(), l.failed.Load()
}

// reviewOfAPod is an AdmissionReview in the form that an API server sends.
const reviewOfAPod = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"1","kind":{"group":"",` +
	`"version":"v1","kind":"Pod"},` +
	`"resource":{"group":"","version":"v1","resource":"pods"},"namespace":"a","operation":"CREATE","object":{"kind":"Pod",` +
	`"apiVersion":"v1","metadata":{},"spec":{"containers":[{"name":"c"}]}}}}`

// mostOnTheirWay is the maximum number of reviews without a response. On a slow machine, more of them would accumulate until they fail.
const mostOnTheirWay = 50

// post sends reviews to a URL, rate per second, or fewer if responses are slow. It calls clientOf for the client of each review.
func post(t *testing.T, url string, rate int, clientOf func() *http.Client) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{cancel: cancel, met: map[*http.Client]bool{}}
	l.running.Go(func() {
		const perBurst = 10
		ticker := time.NewTicker(time.Second * perBurst / time.Duration(rate))
		defer ticker.Stop()
		slots := make(chan struct{}, mostOnTheirWay)
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			for range perBurst {
				slots <- struct{}{}
				l.running.Go(func() {
					defer func() { <-slots }()
					by := clientOf()
					l.one(by, func() error { return postOne(t.Context(), by, url) })
				})
			}
		}
	})
	return l
}

func postOne(ctx context.Context, c *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, binary.Patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(reviewOfAPod))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err == nil && !strings.Contains(string(answer), `"patchType":"JSONPatch"`) {
		err = fmt.Errorf("%d %s", response.StatusCode, answer)
	}
	return err
}

// create makes an API server create Pods, without storing them. Each of the given number of clients creates one after the other, with a
// pause between them.
func create(t *testing.T, c client.Client, namespace string, clients int, pause time.Duration) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{cancel: cancel, met: map[*http.Client]bool{}}
	for range clients {
		l.running.Go(func() {
			for ctx.Err() == nil {
				l.one(nil, func() error { return createOne(t.Context(), c, namespace) }) // no client, because the API server sends the review
				time.Sleep(pause)
			}
		})
	}
	return l
}

func createOne(ctx context.Context, c client.Client, namespace string) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "a-", Namespace: namespace},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}}},
	}
	if err := c.Create(ctx, pod, client.DryRunAll); err != nil {
		return err
	}
	if pod.Spec.SecurityContext == nil || pod.Spec.SecurityContext.SeccompProfile == nil {
		return fmt.Errorf("the Pod was created without a seccomp profile")
	}
	return nil
}
