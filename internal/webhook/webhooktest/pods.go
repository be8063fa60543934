package webhooktest

import (
	"strings"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/test/binary"
)

// CreatePod creates a Pod, written as YAML without apiVersion and kind, and returns it as it was stored. It gets a name unless
// it has one.
func (e *Env) CreatePod(members string) *corev1.Pod {
	e.T.Helper()
	pod, err := e.TryPod(members)
	e.Expect(err).NotTo(HaveOccurred())
	return pod
}

// TryPod is CreatePod for a Pod that may be refused. It waits for the ServiceAccount default, which comes a moment after its
// namespace, and without which Pods are refused before any webhook is called.
func (e *Env) TryPod(members string) (*corev1.Pod, error) {
	e.T.Helper()
	object := e.Object("{apiVersion: v1, kind: Pod, " + strings.TrimPrefix(strings.TrimSpace(members), "{"))
	if object.GetName() == "" {
		object.SetGenerateName("pod-")
	}
	var err error
	e.Eventually(func() bool {
		err = e.Target.Create(e.Ctx, object)
		return err == nil || !strings.Contains(err.Error(), `serviceaccount "default" not found`)
	}, binary.Patience).Should(BeTrue())
	if err != nil {
		return nil, err
	}
	pod := &corev1.Pod{}
	e.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, pod)).To(Succeed())
	return pod, nil
}
