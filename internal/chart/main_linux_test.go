package chart

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
)

// probeArgument makes the test binary apply one protection and try to get around it.
const probeArgument = "probe"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case ChildArgument:
			os.Exit(runChild())
		case probeArgument:
			os.Exit(probe(os.Args[2], os.Args[3]))
		}
	}
	os.Exit(m.Run())
}

func runChild() int {
	if variables := os.Environ(); len(variables) > 0 {
		return 3
	}
	if err := Child(context.Background(), os.Args[2:], os.Stdout); err != nil {
		return 2
	}
	return 0
}

// probe prints the errors of opening a file and a connection after a protection is applied.
func probe(protection, address string) int {
	var err error
	switch protection {
	case "landlock":
		_, err = restrictByLandlock()
	case "opening":
		err = forbidOpening()
	}
	if err != nil {
		return 2
	}
	_, reading := os.ReadFile("/proc/self/status")
	_, writing := os.Create("/tmp/chart-probe")
	connection, dialing := new(net.Dialer).DialContext(context.Background(), "tcp", address)
	if dialing == nil {
		dialing = connection.Close()
	}
	fmt.Println(reading, writing, dialing)
	return 0
}

// program returns the test binary, which is the program of the sandbox, too.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return exec.CommandContext(t.Context(), os.Args[0], args...)
}
