package chart

import (
	"fmt"
	"math"
	"runtime/debug"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// cpuSeconds is the limit of processor time. It ends a child process that loops after its parent process has died. A parent process that
// still runs kills the child process earlier.
const cpuSeconds = 30

// confine limits the memory of this process, and forbids the process to open files and connections, until the process ends. It returns the
// protections that the kernel does not have, as sentences.
func confine(memory uint64) ([]string, error) {
	// The runtime opens its own files when it first needs a timer.
	time.NewTimer(time.Hour).Stop()
	unprotected, err := restrictByLandlock()
	if err != nil {
		return nil, err
	}
	if err := limitMemory(memory); err != nil {
		return nil, err
	}
	for resource, limit := range map[int]uint64{unix.RLIMIT_CPU: cpuSeconds, unix.RLIMIT_CORE: 0} {
		if err := setLimit(resource, limit); err != nil {
			return nil, err
		}
	}
	return unprotected, forbidOpening()
}

// limitMemory makes the process fail if its data grow above the limit, and makes the garbage collector work harder near the limit.
func limitMemory(limit uint64) error {
	if limit < math.MaxInt64 {
		debug.SetMemoryLimit(int64(limit / 4 * 3)) // GOMEMLIMIT
	}
	return setLimit(unix.RLIMIT_DATA, limit)
}

// forbidOpening lets the process open neither files nor sockets. Open ones stay open.
func forbidOpening() error { return setLimit(unix.RLIMIT_NOFILE, 0) }

func setLimit(resource int, limit uint64) error {
	if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		return fmt.Errorf("set limit %d: %w", resource, err)
	}
	return nil
}

// restrictByLandlock refuses all threads of this process all access to files and TCP ports, as far as the kernel can. It returns the
// protections that are missing, as sentences. The limit of open files also forbids this access; Landlock in addition stops foreign code
// that controls the memory of this process and has got a file descriptor.
func restrictByLandlock() ([]string, error) {
	version, err := landlock()
	if err != nil {
		return []string{fmt.Sprintf("the kernel has no Landlock (%v): charts are rendered without its protection of files and network", err)}, nil
	}
	attributes, unprotected := handled(version)
	ruleset, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET,
		uintptr(unsafe.Pointer(&attributes)), unsafe.Sizeof(attributes), 0) //nolint:gosec // the system call takes a pointer
	if errno != 0 {
		return nil, fmt.Errorf("create Landlock ruleset: %w", errno)
	}
	defer func() { _ = unix.Close(int(ruleset)) }()
	// Both system calls affect one thread only; package unix has no call that affects all threads.
	_, _, errno = syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0)
	if errno == syscall.ENOTSUP {
		return []string{"this binary was built with cgo: charts are rendered without Landlock's protection of files and network"}, nil
	}
	if errno != 0 {
		return nil, fmt.Errorf("give up privileges: %w", errno)
	}
	if _, _, errno = syscall.AllThreadsSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0, 0); errno != 0 {
		return nil, fmt.Errorf("restrict process by Landlock: %w", errno)
	}
	return unprotected, nil
}

// landlock returns the version of Landlock in the kernel, and an error if there is none or the container may not use it.
func landlock() (int, error) {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, errno
	}
	return int(version), nil
}

// handled returns the rights that a version of Landlock can refuse. Without rules for exceptions, all of them are refused.
func handled(version int) (attributes unix.LandlockRulesetAttr, unprotected []string) {
	attributes = unix.LandlockRulesetAttr{Handled_access_fs: 2*unix.LANDLOCK_ACCESS_FS_MAKE_SYM - 1} // all rights of version 1
	for _, step := range []struct {
		since   int
		files   uint64
		network uint64
		scopes  uint64
		lacking string
	}{
		{since: 2, files: unix.LANDLOCK_ACCESS_FS_REFER},
		{since: 3, files: unix.LANDLOCK_ACCESS_FS_TRUNCATE, lacking: "truncation of files"},
		{since: 4, network: unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP, lacking: "TCP"},
		{since: 5, files: unix.LANDLOCK_ACCESS_FS_IOCTL_DEV, lacking: "control of devices"},
		{
			since: 6, scopes: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL,
			lacking: "signals and abstract Unix sockets",
		},
	} {
		switch {
		case version >= step.since:
			attributes.Handled_access_fs |= step.files
			attributes.Handled_access_net |= step.network
			attributes.Scoped |= step.scopes
		case step.lacking != "":
			unprotected = append(unprotected, fmt.Sprintf("Landlock version %d of the kernel does not restrict %s", version, step.lacking))
		}
	}
	return attributes, unprotected
}
