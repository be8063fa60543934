package local

import (
	"context"
	_ "embed" // for the stages
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	nodeutil "k8s.io/component-helpers/node/util"
)

// FakeNode is the name of the Node that KWOK keeps ready.
const FakeNode = "fake-0"

// KWOK manages only Nodes with this annotation, so that a real Node may join the cluster.
const fakeNodeAnnotation, fakeNodeValue = "kwok.x-k8s.io/node", "fake"

//go:embed stages.yaml
var stages []byte

func (c *ControlPlane) apiServerReady(ctx context.Context) error {
	_, err := c.Clients.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
	return err
}

func (c *ControlPlane) defaultServiceAccountExists(ctx context.Context) error {
	_, err := c.Clients.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	return err
}

func (c *ControlPlane) createFakeNode(ctx context.Context) error {
	_, err := c.Clients.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
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
	node, err := c.Clients.CoreV1().Nodes().Get(ctx, FakeNode, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if len(node.Spec.Taints) > 0 {
		return errors.New("it has taints")
	}
	return NodeReady(node)
}

// NodeReady returns nil if a Node is ready, and otherwise an error with the reason.
func NodeReady(node *corev1.Node) error {
	_, ready := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady)
	if ready == nil {
		return errors.New("it has no condition Ready")
	}
	if ready.Status != corev1.ConditionTrue {
		return fmt.Errorf("%s: %s", ready.Reason, ready.Message)
	}
	return nil
}
