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

// load counts the requests while it runs, and the failed ones.
type load struct {
	asked, failed atomic.Int64
	// warned is true if a client that gets a failure from now on must not get another one for its next requests.
	warned atomic.Bool
	// again counts the failures of clients that had received one, and were warned, before they sent the request.
	again   atomic.Int64
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu sync.Mutex
	// Guarded by mu.
	failures []string
	met      map[*http.Client]bool
}

// one sends a request as a user, and counts it.
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

// end stops asking, and returns the counts once everything is answered.
func (l *load) end() (asked, failed int64) {
	l.cancel()
	l.running.Wait()
	return l.asked.Load(), l.failed.Load()
}

// reviewOfAPod is a review as an API server would send it.
const reviewOfAPod = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"1","kind":{"group":"",` +
	`"version":"v1","kind":"Pod"},` +
	`"resource":{"group":"","version":"v1","resource":"pods"},"namespace":"a","operation":"CREATE","object":{"kind":"Pod",` +
	`"apiVersion":"v1","metadata":{},"spec":{"containers":[{"name":"c"}]}}}}`

// mostOnTheirWay is how many reviews wait for an answer at most: on a machine that cannot do as many as are asked for, they would
// otherwise pile up until they fail by themselves.
const mostOnTheirWay = 50

// post sends so many reviews a second to a URL, or as many as are answered, by a client that is made anew for each whenever
// clientOf returns another.
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

// create lets an API server create Pods, without storing them, one after the other by each of some clients, which
// pause in between.
func create(t *testing.T, c client.Client, namespace string, clients int, pause time.Duration) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{cancel: cancel, met: map[*http.Client]bool{}}
	for range clients {
		l.running.Go(func() {
			for ctx.Err() == nil {
				l.one(nil, func() error { return createOne(t.Context(), c, namespace) }) // it is the API server that asks
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
