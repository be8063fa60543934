package manager

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/secrets"
)

// Collector gets several Secrets of a Manager, with one check for errors at the end. After an error it does nothing more, and returns
// empty Secrets.
type Collector struct {
	manager *Manager
	err     error
}

// Collect returns a Collector without an error.
func (m *Manager) Collect() *Collector { return &Collector{manager: m} }

// Generate calls Manager.Generate.
func (c *Collector) Generate(ctx context.Context, request secrets.Request) *corev1.Secret {
	return c.get(func() (*corev1.Secret, error) { return c.manager.Generate(ctx, request) })
}

// Bundle calls Manager.Bundle.
func (c *Collector) Bundle(name string) *corev1.Secret {
	return c.get(func() (*corev1.Secret, error) { return c.manager.Bundle(name) })
}

// Current calls Manager.Current.
func (c *Collector) Current(name string) *corev1.Secret {
	return c.get(func() (*corev1.Secret, error) { return c.manager.Current(name) })
}

// Err returns the first error.
func (c *Collector) Err() error { return c.err }

func (c *Collector) get(secret func() (*corev1.Secret, error)) *corev1.Secret {
	if c.err == nil {
		found, err := secret()
		if err == nil {
			return found
		}
		c.err = err
	}
	return &corev1.Secret{}
}
