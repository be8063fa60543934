package lifecycle_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/test/binary"
)

// pausedLeader is a process of the operator that was paused during a reconciliation, for so long that it has lost its lease.
type pausedLeader struct {
	// paused is closed when the process reaches the request at which it is paused, and ended when its reconciliation has ended.
	paused, ended chan struct{}
	resume        func()
}

// pauseLeader starts another process of the operator, which is paused before the first request that a function selects: it sends no request
// from then on. It waits until the process is paused, or its reconciliation has ended.
func (s *scene) pauseLeader(before func(*http.Request) bool) *pausedLeader {
	s.t.Helper()
	resumed := make(chan struct{})
	l := &pausedLeader{paused: make(chan struct{}), ended: make(chan struct{}), resume: sync.OnceFunc(func() { close(resumed) })}
	s.t.Cleanup(func() { l.resume(); <-l.ended })
	pause := sync.OnceFunc(func() { close(l.paused) })
	requests := &binary.Requests{}
	requests.SetHook(func(request *http.Request) error {
		if before(request) {
			pause()
		}
		select {
		case <-l.paused:
			<-resumed
		default:
		}
		return nil
	})
	process := *s.reconciler
	process.Client = s.connect(prepared.operator, requests.Wrap)
	process.Connection = s.connection(process.Client)
	go func() {
		defer close(l.ended)
		_, _ = process.Reconcile(s.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "garden"}})
	}()
	s.Eventually(func() bool {
		select {
		case <-l.paused:
			return true
		case <-l.ended:
			return true
		default:
			return false
		}
	}, 2*binary.Patience, 5*time.Millisecond).Should(BeTrue())
	return l
}

// wake continues the process, and waits until its reconciliation has ended.
func (s *scene) wake(l *pausedLeader) {
	s.t.Helper()
	l.resume()
	s.Eventually(l.ended, 2*binary.Patience).Should(BeClosed())
}

// ofAPIServer selects requests for the Deployment of kube-apiserver.
func ofAPIServer(method string) func(*http.Request) bool {
	return func(request *http.Request) bool {
		return request.Method == method && strings.HasSuffix(request.URL.Path, "/deployments/"+apiServer)
	}
}

// A leader that is paused loses its lease, and another process of the operator continues. When the former leader wakes up, in whatever
// phase, it must not give API servers keys and authorities that are no longer used: objects that they encrypt with such a key are lost.
func TestPausedLeaderWakesUpInEveryPhase(t *testing.T) {
	s := newInstalledScene(t)
	s.reconciler.Recorder = &events.FakeRecorder{} // it keeps no Events
	virtual := s.connect(s.virtual, nil)
	s.serve(virtual, alwaysEncrypted())
	encrypted := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "encrypted"}}
	s.Expect(virtual.Create(t.Context(), encrypted)).To(Succeed())
	defer func() { s.Expect(virtual.Delete(t.Context(), encrypted)).To(Succeed()) }()
	request := func(step string) {
		t.Helper()
		s.clock.SetTime(s.clock.Now().Add(time.Hour))
		s.edit(annotated("gardener.cloud/operation", strings.ReplaceAll(
			"rotate-ca-X;rotate-serviceaccount-key-X;rotate-etcd-encryption-key-X;rotate-workload-identity-key-X", "X", step,
		)))
	}
	var asleep []*pausedLeader
	// pause pauses leaders, each of which wakes up in another phase.
	pause := func(number int, method string) {
		t.Helper()
		for range number {
			asleep = append(asleep, s.pauseLeader(ofAPIServer(method)))
			s.Expect(asleep[len(asleep)-1].paused).To(BeClosed())
		}
	}
	// wake wakes up some leaders of earlier phases. The API servers keep their credentials.
	wake := func(phase operatorv1alpha1.RotationPhase, leaders ...int) {
		t.Helper()
		authorities, key := s.phases()
		s.Expect([]any{authorities, key}).To(HaveEach(phase))
		kubernetes, gardener := s.apiServer().Spec.Template, s.contents("gardener-apiserver-runtime")
		for _, each := range leaders {
			s.wake(asleep[each])
			s.Expect(s.apiServer().Spec.Template).To(BeComparableTo(kubernetes), "leader %d in %s", each, phase)
			s.Expect(s.contents("gardener-apiserver-runtime")).To(BeComparableTo(gardener), "leader %d in %s", each, phase)
		}
	}
	// waiting calls a function while a reconciliation waits for the proof of its phase.
	waiting := func(f func()) {
		t.Helper()
		_, catchUp := s.leaveBehind()
		done := s.begin()
		s.task(taskProof, operatorv1alpha1.TaskRunning, ContainSubstring("Pod virtual-garden-kube-apiserver"))
		f()
		catchUp()
		s.Eventually(done, 2*binary.Patience).Should(Receive(BeNil()))
	}
	preparing, prepared, completing, completed := operatorv1alpha1.RotationPreparing, operatorv1alpha1.RotationPrepared,
		operatorv1alpha1.RotationCompleting, operatorv1alpha1.RotationCompleted

	pause(5, http.MethodGet) // 0 to 4: before a rotation
	request("start")
	pause(5, http.MethodPut) // 5 to 9: in phase Preparing
	waiting(func() { wake(preparing, 0, 9) })
	wake(prepared, 1, 5)
	pause(3, http.MethodGet) // 10 to 12: in phase Prepared
	request("complete")
	pause(2, http.MethodPut) // 13 and 14: in phase Completing
	waiting(func() { wake(completing, 2, 6, 10) })
	wake(completed, 3, 7, 11, 13)
	s.Expect(s.secrets("kube-apiserver-etcd-encryption-key")).To(HaveLen(1))

	request("start")         // and this rotation is aborted
	pause(1, http.MethodPut) // 15
	s.mustReconcile()
	wake(prepared, 4, 8, 12, 14)
	s.clock.SetTime(s.clock.Now().Add(time.Hour))
	s.edit(annotated("espalier.dev/abort-rotation", "certificate-authorities,service-account-key,encryption-key,workload-identity-key"))
	s.mustReconcile()
	wake(prepared, 15)
	s.mustReconcile()
	authorities, key := s.phases()
	s.Expect([]any{authorities, key}).To(HaveEach(completed))
	for _, name := range []string{"ca-client", "service-account-key", "kube-apiserver-etcd-encryption-key"} {
		s.Expect(s.secrets(name)).To(HaveLen(1), name)
	}
	s.requests.Reset()
	s.mustReconcile()
	s.Expect(s.requests.Writes()).NotTo(ContainElement(HaveSuffix("/deployments/"+apiServer)), "nothing is left of the former leaders")
}
