package cluster

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Notes returns the notes of the Events with a reason in a namespace.
func (c *Cluster) Notes(ctx context.Context, namespace, reason string) ([]string, error) {
	events, err := c.Clients.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list Events: %w", err)
	}
	var notes []string
	for _, event := range events.Items {
		if event.Reason == reason {
			notes = append(notes, event.Note)
		}
	}
	return notes, nil
}
