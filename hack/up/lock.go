package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lock prevents two runs from working on the same state. The operating system releases it when the process ends, in any way.
func (s settings) lock() (unlock func(), err error) {
	if err = os.MkdirAll(s.state(), 0o700); err != nil {
		return nil, fmt.Errorf("create state folder: %w", err)
	}
	file, err := os.OpenFile(s.state("lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock state folder: %w", err)
	}
	if err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.New("another make up or make down is running; wait for its end")
		}
		return nil, fmt.Errorf("lock state folder: %w", err)
	}
	return func() { _ = file.Close() }, nil
}
