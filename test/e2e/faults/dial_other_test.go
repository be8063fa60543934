//go:build e2e && !linux

package faults_test

import (
	"context"
	"errors"
	"net"
)

// dialInside fails: the local node needs Linux.
func dialInside(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("the local node needs Linux")
}
