package local

import (
	"context"
	_ "embed" // for the stages
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FakeNode is the name of the Node that KWOK keeps ready.
const FakeNode = "fake-0"

// KWOK ignores every Node without this annotation, so that a real one may join.
const fakeNodeAnnotation, fakeNodeValue = "kwok.x-k8s.io/node", "fake"

//go:embed stages.yaml
var stages []byte

func (c *ControlPlane) apiServerReady(ctx context.Context) error {
	_, err := c.clients.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
	return err
}

func (c *ControlPlane) defaultServiceAccountExists(ctx context.Context) error {
	_, err := c.clients.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	return err
}

func (c *ControlPlane) createFakeNode(ctx context.Context) error {
	_, err := c.clients.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:        FakeNode,
		Annotations: map[string]string{fakeNodeAnnotation: fakeNodeValue},
		Labels: map[string]string{
			corev1.LabelHostname: FakeNode, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64", "type": "kwok",
		},
	}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func (c *ControlPlane) fakeNodeReady(ctx context.Context) error {
	node, err := c.clients.CoreV1().Nodes().Get(ctx, FakeNode, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue && len(node.Spec.Taints) == 0 {
			return nil
		}
	}
	return fmt.Errorf("node %q is not ready yet", FakeNode)
}
