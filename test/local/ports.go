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

// PortTakenError means that another program listens at a requested port.
type PortTakenError struct {
	Port int
	// User is the part that needs the port.
	User string
}

// Error names the port and the part that needs it.
func (e *PortTakenError) Error() string {
	return fmt.Sprintf("port %d on 127.0.0.1 is taken by another program, %s cannot listen there", e.Port, e.User)
}

// CheckPort returns a *PortTakenError if the port is in use now.
func CheckPort(port int, user string) error {
	l, err := net.Listen("tcp", address(port))
	if err != nil {
		return &PortTakenError{Port: port, User: user}
	}
	return l.Close()
}

// Free ports are below the range from which the system takes ports for outgoing connections (32768 and up on Linux). Otherwise a connection
// could use a port before a program listens at it. Ports of control planes have a separate range.
const firstSingle, lastSingle, firstBlock, lastBlock = 12000, 19998, 20000, 32760

// reserve chooses three free ports. No other launcher, in any process, uses them until the returned listener is closed.
func reserve() (Ports, net.Listener, error) {
	first, lock, err := reserveBlock(firstBlock, lastBlock, 3)
	return Ports{APIServer: first, Etcd: first + 1, EtcdPeer: first + 2}, lock, err
}

// FreePort returns an unused port of 127.0.0.1. Until release is called, no other caller gets it, in any process: on a busy machine, a
// program that a test starts may listen only seconds later. After an error, release is nil.
func FreePort() (port int, release func(), err error) {
	port, lock, err := reserveBlock(firstSingle, lastSingle, 1)
	if err != nil {
		return 0, nil, err
	}
	return port, func() { _ = lock.Close() }, nil
}

// reserveBlock chooses free consecutive ports, and returns the first one. The returned listener reserves them: it listens at the port below
// the first one, which no program uses.
func reserveBlock(from, to, count int) (first int, lock net.Listener, err error) {
	size := count + 1
	blocks := (to - from) / size
	start := rand.IntN(blocks)
	for i := range blocks {
		first = from + (start+i)%blocks*size + 1
		if lock, err = net.Listen("tcp", address(first-1)); err != nil {
			continue
		}
		for port := first; port < first+count; port++ {
			err = errors.Join(err, CheckPort(port, "a test"))
		}
		if err == nil {
			return first, lock, nil
		}
		_ = lock.Close()
	}
	return 0, nil, fmt.Errorf("find free ports: all between %d and %d are taken", from, to)
}

// check returns a *PortTakenError for each port that is in use.
func (p Ports) check() error {
	return errors.Join(CheckPort(p.APIServer, apiServer), CheckPort(p.Etcd, etcd), CheckPort(p.EtcdPeer, etcd))
}

// readPorts reads the ports from a file. It returns the zero value if the file does not exist.
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
