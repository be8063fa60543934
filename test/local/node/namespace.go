package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// namespaceFile is the file of ip(8) for the network namespace.
const namespaceFile = "/run/netns/" + Name

// createNamespace creates the network namespace, with a loopback interface and the Node's address. The default route leads to an interface
// that drops all packets; it exists because the addresses of Services need a route.
func createNamespace(ctx context.Context) error {
	if _, err := os.Stat(namespaceFile); err == nil {
		return nil
	}
	if err := runIP(ctx, "netns", "add", Name); err != nil {
		return err
	}
	for _, arguments := range [][]string{
		{"link", "set", "lo", "up"},
		{"link", "add", "node0", "type", "veth", "peer", "name", "nowhere"}, // not every kernel supports dummy interfaces
		{"address", "add", address + "/32", "dev", "node0"},
		{"link", "set", "node0", "up"},
		{"link", "set", "nowhere", "up"},
		{"route", "add", "default", "dev", "node0"},
	} {
		if err := runIP(ctx, append([]string{"-n", Name}, arguments...)...); err != nil {
			return errors.Join(err, deleteNamespace(context.WithoutCancel(ctx))) // otherwise the next run would use an incomplete namespace
		}
	}
	return nil
}

func deleteNamespace(ctx context.Context) error {
	if _, err := os.Stat(namespaceFile); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return runIP(ctx, "netns", "delete", Name)
}

func runIP(ctx context.Context, arguments ...string) error {
	out, err := exec.CommandContext(ctx, "ip", arguments...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(arguments, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// onThread calls a function on a new thread, which ends with the function. If the function changes the namespaces of its thread, this
// affects nothing else.
func onThread(do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		done <- do()
	}()
	return <-done
}

// inNamespace calls a function on a thread that is in the network namespace.
func inNamespace(do func() error) error {
	return onThread(func() error {
		namespace, err := os.Open(namespaceFile)
		if err != nil {
			return fmt.Errorf("find network namespace: %w", err)
		}
		defer func() { _ = namespace.Close() }()
		if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter network namespace: %w", err)
		}
		return do()
	})
}

// runInNamespace runs a program in the network namespace.
func runInNamespace(ctx context.Context, program string, arguments ...string) error {
	return inNamespace(func() error {
		cmd := exec.CommandContext(ctx, program, arguments...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
		return cmd.Run()
	})
}

// Dial connects to an address in the network namespace.
func Dial(ctx context.Context, network, to string) (connection net.Conn, err error) {
	err = inNamespace(func() (err error) {
		connection, err = (&net.Dialer{}).DialContext(ctx, network, to)
		return err
	})
	return connection, err
}

// Listen listens at an address of the Node, so that Pods can connect to it.
func Listen(ctx context.Context) (listener net.Listener, err error) {
	err = inNamespace(func() (err error) {
		listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(address, "0"))
		return err
	})
	return listener, err
}

// unmountBelow unmounts all mounts in a folder, the innermost first.
func unmountBelow(folder string) error {
	table, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return fmt.Errorf("read mounts: %w", err)
	}
	var failures []error
	for _, line := range slices.Backward(strings.Split(string(table), "\n")) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		if at := unescape(fields[1]); strings.HasPrefix(at, filepath.Clean(folder)+"/") {
			if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
				failures = append(failures, fmt.Errorf("unmount %s: %w", at, err))
			}
		}
	}
	return errors.Join(failures...)
}

// unescape decodes escape sequences in a path of the mount table.
func unescape(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}
