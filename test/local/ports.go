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

// Ports are the ports of a control plane, all of them on 127.0.0.1.
type Ports struct {
	APIServer int `json:"apiServer"`
	Etcd      int `json:"etcd"`
	EtcdPeer  int `json:"etcdPeer"`
}

// PortTakenError means that another program listens on a requested port.
type PortTakenError struct {
	Port int
	// User is the part that needs the port.
	User string
}

// Error names the port and the part that needs it.
func (e *PortTakenError) Error() string {
	return fmt.Sprintf("port %d on 127.0.0.1 is taken by another program, %s cannot listen there", e.Port, e.User)
}

// CheckPort returns a *PortTakenError if the port is in use at this moment.
func CheckPort(port int, user string) error {
	l, err := net.Listen("tcp", address(port))
	if err != nil {
		return &PortTakenError{Port: port, User: user}
	}
	return l.Close()
}

// Blocks of free ports are below the range from which the system takes ports for outgoing connections (32768 and up on Linux). Otherwise a
// connection might use a port before a program listens on it.
const firstBlock, lastBlock, blockSize = 20000, 32760, 4

// reserve chooses three free ports. No other launcher, in any process, uses them until the returned listener is closed.
func reserve() (ports Ports, lock net.Listener, err error) {
	lock = reserveBlock(firstBlock, lastBlock, blockSize, func(first int) error {
		ports = Ports{APIServer: first + 1, Etcd: first + 2, EtcdPeer: first + 3}
		return ports.check()
	})
	if lock == nil {
		return Ports{}, nil, fmt.Errorf("find free ports: all between %d and %d are taken", firstBlock, lastBlock)
	}
	return ports, lock, nil
}

// Single ports of programs that tests start are below those blocks, for the same reason.
const firstPair, lastPair, pairSize = 12000, 19998, 2

// FreePort returns an unused port of 127.0.0.1. Until release is called, no other caller gets it, in any process: programs that tests start
// listen only seconds later on a busy machine.
func FreePort() (port int, release func(), err error) {
	lock := reserveBlock(firstPair, lastPair, pairSize, func(first int) error {
		port = first + 1
		return CheckPort(port, "a test")
	})
	if lock == nil {
		return 0, nil, fmt.Errorf("find a free port: all between %d and %d are taken", firstPair, lastPair)
	}
	return port, func() { _ = lock.Close() }, nil
}

// reserveBlock chooses a block of ports whose other ports pass the check. The first one is used by no program: the returned listener
// reserves the block on it. It is nil if there is no such block.
func reserveBlock(from, to, size int, check func(first int) error) net.Listener {
	blocks := (to - from) / size
	start := rand.IntN(blocks)
	for i := range blocks {
		first := from + (start+i)%blocks*size
		lock, err := net.Listen("tcp", address(first))
		if err != nil {
			continue
		}
		if check(first) == nil {
			return lock
		}
		_ = lock.Close()
	}
	return nil
}

// check returns a *PortTakenError for each port that is in use.
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
