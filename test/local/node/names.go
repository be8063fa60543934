package node

import "path/filepath"

const (
	// Name is what the Node is called.
	Name = "espalier-node"
	// Port is the API server's, at 127.0.0.1 both outside and inside of the network namespace.
	Port = 26643
	// EtcdArgsVariable is an environment variable with arguments for etcd, separated by blanks, whenever it is started.
	EtcdArgsVariable = "ESPALIER_NODE_ETCD_ARGS"

	// address is the Node's, of an interface that leads nowhere.
	address = "10.250.0.1"
	// pods are the addresses of Pods.
	pods = "10.251.0.0/24"
	// cgroup is below the root of each hierarchy; processes holds what is not a Pod.
	cgroup    = "espalier"
	processes = "processes"
	// sandboxImage is what every Pod starts with.
	sandboxImage = "espalier.local/pause:1"
	// runDir holds sockets, whose paths must be short, and containerd's mounts.
	runDir = "/run/" + Name
)

// The parts that are not the control plane's, in the order in which they are started.
const (
	containerd = "containerd"
	kubelet    = "kubelet"
	kubeProxy  = "kube-proxy"
	forwarder  = "forward"
)

// nodeParts but the forwarder.
func nodeParts() []string { return []string{containerd, kubelet, kubeProxy} }

// layout names the files of the state folder.
type layout string

func (l layout) file(elements ...string) string {
	return filepath.Join(append([]string{string(l)}, elements...)...)
}

func (l layout) log(part string) string    { return l.file("logs", part+".log") }
func (l layout) record(part string) string { return l.file("pids", part+".json") }

// socket is where containerd listens.
func socket() string { return filepath.Join(runDir, "containerd.sock") }
