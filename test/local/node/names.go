package node

import "path/filepath"

const (
	// Name is the name of the Node.
	Name = "espalier-node"
	// Port is the port of the API server at 127.0.0.1, both outside and inside of the network namespace.
	Port = 26643
	// GatewayPort is the port of a local garden's gateway at 127.0.0.1, outside of the network namespace.
	GatewayPort = 26653
	// SeedGatewayPort is the port of the gateway for the Shoots of a local garden's Seed at 127.0.0.1, outside of the network namespace.
	SeedGatewayPort = 26663

	// address is the address of the Node, on an interface that is connected to nothing.
	address = "10.250.0.1"
	// pods is the address range of Pods.
	pods = "10.251.0.0/24"
	// cgroup is the name of the cgroup below the root of each hierarchy. processes is the cgroup of the processes outside of Pods.
	cgroup    = "espalier"
	processes = "processes"
	// sandboxImage is the image of every Pod sandbox.
	sandboxImage = "espalier.local/pause:1"
	// runDir contains sockets, whose paths must be short, and containerd's mounts.
	runDir = "/run/" + Name
	// podLogs contains the logs of Pods. Programs that read them see only the folder /var/log of the node.
	podLogs = "/var/log/" + Name
)

// The parts of the node, which are not part of the control plane, in the order in which they are started.
const (
	containerd = "containerd"
	kubelet    = "kubelet"
	kubeProxy  = "kube-proxy"
	forwarder  = "forward"
)

// nodeParts returns the parts of the node without the forwarder.
func nodeParts() []string { return []string{containerd, kubelet, kubeProxy} }

// layout returns the paths of the files in the state folder.
type layout string

func (l layout) file(elements ...string) string {
	return filepath.Join(append([]string{string(l)}, elements...)...)
}

func (l layout) log(part string) string    { return l.file("logs", part+".log") }
func (l layout) record(part string) string { return l.file("pids", part+".json") }

// socket is the socket of containerd.
func socket() string { return filepath.Join(runDir, "containerd.sock") }
