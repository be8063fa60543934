package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
)

// Ports are those a control plane listens on, all of them on 127.0.0.1.
type Ports struct {
	APIServer int `json:"apiServer"`
	Etcd      int `json:"etcd"`
	EtcdPeer  int `json:"etcdPeer"`
}

// PortTakenError tells that somebody else listens on a port that was asked for.
type PortTakenError struct {
	Port int
	// User is what wanted to listen there.
	User string
}

// Error names the port and who wanted it.
func (e *PortTakenError) Error() string {
	return fmt.Sprintf("port %d on 127.0.0.1 is taken by another program, %s cannot listen there", e.Port, e.User)
}

// CheckPort returns a *PortTakenError if nobody can listen on the port at this moment.
func CheckPort(port int, user string) error {
	l, err := net.Listen("tcp", address(port))
	if err != nil {
		return &PortTakenError{Port: port, User: user}
	}
	return l.Close()
}

// Blocks of free ports lie below the range from which the system serves outgoing connections (32768 and up on Linux),
// or one of those might take a port between our choice and the moment somebody listens on it.
const firstBlock, lastBlock, blockSize = 20000, 32760, 4

// reserve chooses three free ports. The block of a control plane starts with a port that nobody uses and that the
// returned listener holds: another launcher, in whatever process, leaves the block alone until it is closed.
func reserve() (Ports, net.Listener, error) {
	const blocks = (lastBlock - firstBlock) / blockSize
	start := rand.IntN(blocks)
	for i := range blocks {
		first := firstBlock + (start+i)%blocks*blockSize
		lock, err := net.Listen("tcp", address(first))
		if err != nil {
			continue
		}
		ports := Ports{APIServer: first + 1, Etcd: first + 2, EtcdPeer: first + 3}
		if ports.check() == nil {
			return ports, lock, nil
		}
		_ = lock.Close()
	}
	return Ports{}, nil, fmt.Errorf("find free ports: all between %d and %d are taken", firstBlock, lastBlock)
}

// Single ports of programs that tests start lie below those blocks, and for the same reason below what the system gives away.
const firstPair, lastPair = 12000, 19998

// FreePort returns a port of 127.0.0.1 that nobody uses. Until release is called nobody else is given it, in whatever process:
// programs that tests start listen only seconds later on a busy machine.
func FreePort() (port int, release func(), err error) {
	const pairs = (lastPair - firstPair) / 2
	start := rand.IntN(pairs)
	for i := range pairs {
		held := firstPair + (start+i)%pairs*2 // a listener that nobody is told of
		lock, err := net.Listen("tcp", address(held))
		if err != nil {
			continue
		}
		if CheckPort(held+1, "a test") == nil {
			return held + 1, func() { _ = lock.Close() }, nil
		}
		_ = lock.Close()
	}
	return 0, nil, fmt.Errorf("find a free port: all between %d and %d are taken", firstPair, lastPair)
}

// check returns a *PortTakenError for each port that is not free.
func (p Ports) check() error {
	return errors.Join(CheckPort(p.APIServer, apiServer), CheckPort(p.Etcd, etcd), CheckPort(p.EtcdPeer, etcd))
}

// readPorts returns no ports if the file does not exist.
func readPorts(file string) (Ports, error) {
	var ports Ports
	data, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return ports, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &ports)
	}
	if err != nil {
		return Ports{}, fmt.Errorf("read ports from %s: %w", file, err)
	}
	return ports, nil
}

func writePorts(file string, ports Ports) error {
	data, err := json.Marshal(ports)
	if err != nil {
		return fmt.Errorf("write ports: %w", err)
	}
	return os.WriteFile(file, data, 0o600)
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
