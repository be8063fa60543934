package observe_test

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/apply/observe"
)

func TestRestoreDuringAnOutageLongerThanAWatchIsDetected(t *testing.T) {
	g := NewWithT(t)
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	check := &observe.RestoreCheck{Clock: clock}
	away := errors.New("connection refused")
	var outage error
	version, lists := "100", 0
	objects := &cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			lists++
			return &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: version}}, outage
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), outage },
	}
	resume := func() error {
		_, err := check.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "100", TimeoutSeconds: ptr.To[int64](300)}, objects)
		return err
	}

	g.Expect(resume()).To(Succeed())
	clock.SetTime(clock.Now().Add(301 * time.Second))
	g.Expect(resume()).To(Succeed())
	g.Expect(lists).To(BeZero(), "a watch that ended as agreed is resumed without a listing")

	clock.SetTime(clock.Now().Add(time.Minute))
	outage = away
	g.Expect(resume()).To(MatchError(away))
	clock.SetTime(clock.Now().Add(time.Hour))
	g.Expect(resume()).To(MatchError(away))
	outage, version = nil, "50"
	g.Expect(resume()).To(Satisfy(apierrors.IsResourceExpired))
}

// An API server under load answers late, but the timeout of the watch runs from the arrival of the request.
func TestWatchThatOpenedSlowlyEndsAsAgreed(t *testing.T) {
	g := NewWithT(t)
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	clock := clocktesting.NewFakePassiveClock(begin)
	check := &observe.RestoreCheck{Clock: clock}
	lists := 0
	objects := &cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			lists++
			return &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "100"}}, nil
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			clock.SetTime(clock.Now().Add(2 * time.Second))
			return watch.NewFake(), nil
		},
	}
	for _, end := range []time.Time{begin, begin.Add(300 * time.Second)} {
		clock.SetTime(end)
		_, err := check.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "100", TimeoutSeconds: ptr.To[int64](300)}, objects)
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(lists).To(BeZero())
}
