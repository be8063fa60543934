package process

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// The time limits of one probe. Kubelets wait one second by default.
const (
	syncProbeTimeout      = 500 * time.Millisecond
	apiServerProbeTimeout = 900 * time.Millisecond
)

// syncer is a cache that reports whether it is filled.
type syncer interface {
	WaitForCacheSync(ctx context.Context) bool
}

// addProbes adds the checks of /healthz and /readyz. Liveness probes must use /healthz/ping only: an outage of the API server must not
// restart the process.
func addProbes(mgr manager.Manager, caches map[string]syncer, syncDeadline time.Duration, passive clock.PassiveClock) error {
	apiServer, err := apiServerCheck(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return err
	}
	errs := []error{
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddHealthzCheck("apiserver-healthz", apiServer),
	}
	for side, cache := range caches {
		check := syncCheck(cache)
		errs = append(errs,
			mgr.AddReadyzCheck(side+"-informer-sync", check),
			mgr.AddHealthzCheck(side+"-informer-sync", tolerate(check, syncDeadline, passive)),
		)
	}
	return errors.Join(errs...)
}

// syncCheck fails while informers that were started are not synced.
func syncCheck(cache syncer) healthz.Checker {
	return func(req *http.Request) error {
		ctx, cancel := context.WithTimeout(req.Context(), syncProbeTimeout)
		defer cancel()
		if !cache.WaitForCacheSync(ctx) {
			return errors.New("informers are not synced")
		}
		return nil
	}
}

// tolerate returns a check that fails only if the given check has failed for longer than the deadline. The time counts from the last
// success of the given check. If there was none, it counts from the call of tolerate.
func tolerate(check healthz.Checker, deadline time.Duration, passive clock.PassiveClock) healthz.Checker {
	var mu sync.Mutex // Probes may overlap.
	lastGood := passive.Now()
	return func(req *http.Request) error {
		err := check(req)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			lastGood = passive.Now()
			return nil
		}
		if passive.Since(lastGood) <= deadline {
			return nil
		}
		return fmt.Errorf("for more than %s: %w", deadline, err)
	}
}

// apiServerCheck returns a check that fails unless /healthz of the API server returns 200. A client-side rate limit does not delay it.
func apiServerCheck(cfg *rest.Config, httpClient *http.Client) (healthz.Checker, error) {
	client, err := discovery.NewDiscoveryClientForConfigAndClient(withoutLimit(cfg), httpClient)
	if err != nil {
		return nil, fmt.Errorf("create client for health checks: %w", err)
	}
	return func(req *http.Request) error {
		ctx, cancel := context.WithTimeout(req.Context(), apiServerProbeTimeout)
		defer cancel()
		if err := client.RESTClient().Get().AbsPath("/healthz").Do(ctx).Error(); err != nil {
			return fmt.Errorf("ask /healthz of the API server: %w", err)
		}
		return nil
	}, nil
}
