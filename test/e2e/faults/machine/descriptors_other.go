//go:build !linux

package machine

// keepDescriptors does nothing: the local node needs Linux.
func keepDescriptors() error { return nil }
