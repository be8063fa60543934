// Package systemcomponents lets Pods of system components run on the nodes that are set aside for them: they get a node
// selector, and tolerations for the taints of those nodes. Pods of DaemonSets stay as they are. Whether a Pod opts out is
// for the selectors of the webhook configuration to say, not for the handler.
package systemcomponents

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/webhook/object"
)

const (
	// Name is the handler's in metrics and logs.
	Name = "system-components-config"
	// Path is where it is served.
	Path = "/webhooks/system-components-config"
)

// Nodes looks up nodes.
type Nodes interface {
	// Taints returns the taints of all nodes that have all labels of the selector, in any order, equal ones as often as
	// they occur. An empty selector takes every node. The error is that of an API server.
	Taints(ctx context.Context, selector map[string]string) ([]corev1.Taint, error)
}

// Handler changes Pods that are created.
type Handler struct {
	// Config says which Nodes are set aside (NodeSelector), and what Pods get (PodNodeSelector, PodTolerations).
	Config config.SystemComponentsConfigWebhook
	// Nodes are those of the cluster whose API server asks.
	Nodes Nodes
}

// Handle implements review.Handler.
func (h Handler) Handle(ctx context.Context, request *review.Request) review.Response {
	found := pod{}
	if verdict, judged := object.Read(request, corev1.SchemeGroupVersion.WithKind("Pod"), &found); judged {
		return verdict
	}
	if ofDaemonSet(found) {
		return review.Allowed("")
	}
	taints, err := h.Nodes.Taints(ctx, h.Config.NodeSelector)
	if err != nil {
		return review.Unjudged(err)
	}
	response := review.Patched(plan(found, h.Config, taints))
	response.Warnings = overruled(found, h.Config.PodNodeSelector)
	return response
}
