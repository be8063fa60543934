//go:build !linux

package node

import (
	"context"
	"errors"
	"io"

	"github.com/espalier-dev/espalier/test/local/child"
)

var errLinux = errors.New("a node needs Linux; the suites also run on kind, or on a cluster of your own (docs/e2e.md)")

// Check fails: a node needs Linux.
func Check() error { return errLinux }

// Up fails: it needs Linux.
func Up(context.Context, string, io.Writer) error { return errLinux }

// Start fails: it needs Linux.
func Start(context.Context, string, string, string, io.Writer) error { return errLinux }

// Forward fails: it needs Linux.
func Forward(context.Context) error { return errLinux }

// ForwardTo fails: it needs Linux.
func ForwardTo(context.Context, int, func(context.Context) (string, error)) error { return errLinux }

// Load fails: it needs Linux.
func Load(context.Context, io.Writer, ...string) error { return errLinux }

// Launch fails: it needs Linux.
func Launch(string, child.Spec, io.Writer) error { return errLinux }

// Memory fails: it needs Linux.
func Memory() (int64, error) { return 0, errLinux }

// Stop fails: it needs Linux.
func Stop(string, ...string) error { return errLinux }

// Down does nothing: there is no node.
func Down(context.Context, string) error { return nil }
