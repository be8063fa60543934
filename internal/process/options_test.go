package process

import (
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/espalier-dev/espalier/internal/config"
)

func seconds(n int) metav1.Duration { return metav1.Duration{Duration: time.Duration(n) * time.Second} }

func processConfig() config.Process {
	return config.Process{
		Source: config.ClientConnection{CacheResyncPeriod: ptr.To(seconds(60))},
		LeaderElection: config.LeaderElection{
			LeaderElect: ptr.To(true), LeaseDuration: seconds(15), RenewDeadline: seconds(10), RetryPeriod: seconds(2),
			ResourceLock: "leases", ResourceName: "lease", ResourceNamespace: "garden",
		},
		Server: config.Server{
			Webhooks:     config.WebhookServer{BindAddress: "127.0.0.3", Port: 3, TLS: config.TLSServer{ServerCertDir: "/certs"}},
			HealthProbes: &config.Endpoint{BindAddress: "127.0.0.1", Port: 1},
			Metrics:      &config.Endpoint{Port: 2},
		},
		CacheSyncTimeout: time.Minute,
	}
}

func liveKinds() client.Options {
	meta := func(apiVersion, kind string) client.Object {
		return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}}
	}
	return client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{
		meta("v1", "Secret"), meta("v1", "Event"), meta("events.k8s.io/v1", "Event"),
	}}}
}

// expectFields compares every exported field of a struct with want; a field that is not in want must be zero.
func expectFields(t *testing.T, got any, want map[string]any) {
	t.Helper()
	g := NewWithT(t)
	value := reflect.ValueOf(got)
	seen := map[string]bool{}
	for i := range value.NumField() {
		field := value.Type().Field(i)
		if !field.IsExported() {
			continue
		}
		seen[field.Name] = true
		if expected, ok := want[field.Name]; ok {
			g.Expect(value.Field(i).Interface()).To(Equal(expected), field.Name)
		} else {
			g.Expect(value.Field(i).IsZero()).To(BeTrue(), "%s must be unset", field.Name)
		}
	}
	for name := range want {
		g.Expect(seen).To(HaveKey(name))
	}
}

func TestManagerOptions(t *testing.T) {
	scheme := runtime.NewScheme()
	log := logr.Discard().WithName("test")
	secret, configMap := &corev1.Secret{}, &corev1.ConfigMap{}
	labelled := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{"a": "b"})}
	server := webhook.NewServer(webhook.Options{})
	defaults := func() map[string]any {
		return map[string]any{
			"Scheme":                        scheme,
			"Cache":                         cache.Options{SyncPeriod: ptr.To(time.Minute)},
			"Client":                        liveKinds(),
			"Logger":                        log,
			"LeaderElection":                true,
			"LeaderElectionResourceLock":    "leases",
			"LeaderElectionNamespace":       "garden",
			"LeaderElectionID":              "lease-gardener",
			"LeaderElectionReleaseOnCancel": true,
			"LeaseDuration":                 ptr.To(15 * time.Second),
			"RenewDeadline":                 ptr.To(10 * time.Second),
			"RetryPeriod":                   ptr.To(2 * time.Second),
			"Metrics":                       metricsserver.Options{BindAddress: ":2"},
			"HealthProbeBindAddress":        "127.0.0.1:1",
			"GracefulShutdownTimeout":       ptr.To(4500 * time.Millisecond),
			"Controller": controllerconfig.Controller{
				RecoverPanic: ptr.To(true), CacheSyncTimeout: time.Minute, SkipNameValidation: ptr.To(false),
			},
		}
	}
	for name, tc := range map[string]struct {
		program Program
		change  func(*config.Process, *Needs)
		want    func(map[string]any)
	}{
		"as configured": {
			change: func(*config.Process, *Needs) {},
			want:   func(map[string]any) {},
		},
		"a binary with webhooks": {
			change: func(_ *config.Process, n *Needs) { n.WebhookServer = server },
			want:   func(w map[string]any) { w["WebhookServer"] = server },
		},
		"a binary that shares its lease": {
			program: Program{Name: "gardener", SharesLease: true},
			change:  func(*config.Process, *Needs) {},
			want:    func(w map[string]any) { w["LeaderElectionID"] = "lease" },
		},
		"without leader election": {
			change: func(c *config.Process, _ *Needs) { c.LeaderElection.LeaderElect = ptr.To(false) },
			want:   func(w map[string]any) { w["LeaderElection"] = false },
		},
		"with leader election neither on nor off": {
			change: func(c *config.Process, _ *Needs) { c.LeaderElection.LeaderElect = nil },
			want:   func(map[string]any) {},
		},
		"a binary of which every replica works": {
			change: func(_ *config.Process, n *Needs) { n.EveryReplica = true },
			want:   func(w map[string]any) { w["LeaderElection"] = false },
		},
		"several managers in a test process": {
			change: func(_ *config.Process, n *Needs) { n.SkipNameValidation = true },
			want: func(w map[string]any) {
				w["Controller"] = controllerconfig.Controller{
					RecoverPanic: ptr.To(true), CacheSyncTimeout: time.Minute, SkipNameValidation: ptr.To(true),
				}
			},
		},
		"restricted to namespaces": {
			change: func(c *config.Process, _ *Needs) { c.Source.Namespaces = []string{"a", "b"} },
			want: func(w map[string]any) {
				w["Cache"] = cache.Options{SyncPeriod: ptr.To(time.Minute), DefaultNamespaces: map[string]cache.Config{"a": {}, "b": {}}}
			},
		},
		"with cache entries for both sides of one cluster": {
			change: func(_ *config.Process, n *Needs) {
				n.SourceCache.ByObject = map[client.Object]cache.ByObject{secret: labelled}
				n.TargetCache.ByObject = map[client.Object]cache.ByObject{configMap: labelled}
			},
			want: func(w map[string]any) {
				w["Cache"] = cache.Options{
					SyncPeriod: ptr.To(time.Minute), ByObject: map[client.Object]cache.ByObject{secret: labelled, configMap: labelled},
				}
			},
		},
		"with cache entries for the target alone, of one cluster": {
			change: func(_ *config.Process, n *Needs) {
				n.TargetCache.ByObject = map[client.Object]cache.ByObject{configMap: labelled}
			},
			want: func(w map[string]any) {
				w["Cache"] = cache.Options{SyncPeriod: ptr.To(time.Minute), ByObject: map[client.Object]cache.ByObject{configMap: labelled}}
			},
		},
		"with cache entries for another target": {
			change: func(c *config.Process, n *Needs) {
				c.Target = &config.ClientConnection{}
				n.SourceCache.ByObject = map[client.Object]cache.ByObject{secret: labelled}
				n.TargetCache.ByObject = map[client.Object]cache.ByObject{configMap: labelled}
			},
			want: func(w map[string]any) {
				w["Cache"] = cache.Options{SyncPeriod: ptr.To(time.Minute), ByObject: map[client.Object]cache.ByObject{secret: labelled}}
			},
		},
		"without servers": {
			change: func(c *config.Process, _ *Needs) { c.Server.HealthProbes, c.Server.Metrics = nil, nil },
			want: func(w map[string]any) {
				w["HealthProbeBindAddress"] = "0"
				w["Metrics"] = metricsserver.Options{BindAddress: "0"}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, needs := processConfig(), Needs{Scheme: scheme}
			tc.change(&cfg, &needs)
			if tc.program.Name == "" {
				tc.program = gardener()
			}
			want := defaults()
			tc.want(want)
			expectFields(t, ManagerOptions(tc.program, cfg, needs, log), want)
			NewWithT(t).Expect(needs.SourceCache.DefaultNamespaces).To(BeNil())
		})
	}
}

func TestProfilingIsServedOnlyIfAskedFor(t *testing.T) {
	g := NewWithT(t)
	cfg := processConfig()
	cfg.Debugging = config.Debugging{EnableProfiling: true}
	handlers := ManagerOptions(gardener(), cfg, Needs{}, logr.Discard()).Metrics.ExtraHandlers
	g.Expect(slices.Sorted(maps.Keys(handlers))).To(Equal([]string{
		"/debug/pprof", "/debug/pprof/", "/debug/pprof/profile", "/debug/pprof/symbol", "/debug/pprof/trace",
	}))
	cfg.Debugging = config.Debugging{EnableContentionProfiling: true}
	g.Expect(ManagerOptions(gardener(), cfg, Needs{}, logr.Discard()).Metrics.ExtraHandlers).To(BeEmpty())
}

func TestTargetOptions(t *testing.T) {
	scheme := runtime.NewScheme()
	log := logr.Discard().WithName("test")
	byObject := map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {}}
	needs := Needs{Scheme: scheme, TargetCache: cache.Options{ByObject: byObject}}
	got := TargetOptions(config.ClientConnection{Namespaces: []string{"a"}, CacheResyncPeriod: ptr.To(seconds(30))}, needs, log)
	expectFields(t, got, map[string]any{
		"Scheme": scheme,
		"Cache":  cache.Options{ByObject: byObject, SyncPeriod: ptr.To(30 * time.Second), DefaultNamespaces: map[string]cache.Config{"a": {}}},
		"Client": liveKinds(),
		"Logger": log,
	})
}

func TestMetadataOfNeedsNoScheme(t *testing.T) {
	gvk := schema.GroupVersionKind{Group: "g", Version: "v", Kind: "K"}
	NewWithT(t).Expect(metadataOf(gvk).GetObjectKind().GroupVersionKind()).To(Equal(gvk))
}
