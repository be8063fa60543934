package webhooktest

import (
	"strings"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/test/binary"
)

// CreatePod creates a Pod from YAML without apiVersion and kind, and returns the stored Pod. A Pod without a name gets a generated one.
func (e *Env) CreatePod(members string) *corev1.Pod {
	e.T.Helper()
	pod, err := e.TryPod(members)
	e.Expect(err).NotTo(HaveOccurred())
	return pod
}

// TryPod is like CreatePod, but returns an error if the Pod is refused. It waits for the ServiceAccount default, which a controller
// creates a moment after the namespace: without this ServiceAccount, the API server refuses Pods before it calls webhooks.
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
