package local

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The environment variables with further arguments of the etcds and API servers that this package starts. Arguments are separated by
// blanks, and take precedence over all others. In arguments of API servers, $PORT stands for the port.
const (
	EtcdArgsVariable      = "ESPALIER_ETCD_ARGS"
	APIServerArgsVariable = "ESPALIER_API_SERVER_ARGS"
)

// layout returns the paths of the files in a state folder.
type layout string

func (l layout) pki(file string) string        { return filepath.Join(string(l), "pki", file) }
func (l layout) kubeconfig(user string) string { return filepath.Join(string(l), "kubeconfigs", user) }

func (l layout) log(part string) string { return filepath.Join(string(l), "logs", part+".log") }

func (l layout) record(part string) string { return filepath.Join(string(l), "pids", part+".json") }
func (l layout) file(name string) string   { return filepath.Join(string(l), name) }
func (l layout) auditLog() string          { return l.log("audit") }
func (l layout) ports() string             { return l.file("ports.json") }
func (l layout) auditPolicy() string       { return l.file("audit-policy.yaml") }
func (l layout) stages() string            { return l.file("kwok-stages.yaml") }

const admin = "admin"

// issuer is the issuer of ServiceAccount tokens. It is also one of the API server's audiences.
const issuer = "https://kubernetes.default.svc"

func commandLine(part string, l layout, ports Ports, o Options) []string {
	switch part {
	case etcd:
		return etcdArgs(l, ports)
	case apiServer:
		return apiServerArgs(l, ports, o)
	case controllerManager:
		return controllerManagerArgs(l)
	case scheduler:
		return []string{
			"--kubeconfig=" + l.kubeconfig(scheduler),
			"--leader-elect=false", "--secure-port=0", "--kube-api-qps=1000", "--kube-api-burst=2000",
		}
	default:
		return []string{
			"--kubeconfig=" + l.kubeconfig(kwok), "--config=" + l.stages(),
			"--manage-nodes-with-annotation-selector=" + fakeNodeAnnotation + "=" + fakeNodeValue,
			"--node-lease-duration-seconds=40",
		}
	}
}

// etcdSocket is a socket in a folder that only its owner can read. Its path is relative to the working folder of the parts, which is the
// state folder, because the path of a socket must be short. On a TCP connection, encryption would need a fifth of the processor time of
// etcd and the API server.
const etcdSocket = "unix://sockets/etcd.sock"

func etcdArgs(l layout, ports Ports) []string {
	client, peer := "https://"+address(ports.Etcd), "https://"+address(ports.EtcdPeer)
	return append([]string{
		"--data-dir=" + l.file("etcd"),
		"--unsafe-no-fsync", // the data need not survive a power failure, and an fsync for each write would slow down every test
		"--listen-client-urls=" + client + "," + etcdSocket, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=default=" + peer,
		"--cert-file=" + l.pki(etcdCert), "--key-file=" + l.pki(etcdKey), "--trusted-ca-file=" + l.pki(etcdCACert), "--client-cert-auth",
		"--peer-cert-file=" + l.pki(etcdCert), "--peer-key-file=" + l.pki(etcdKey), "--peer-trusted-ca-file=" + l.pki(etcdCACert),
		"--peer-client-cert-auth",
		"--log-level=warn", "--quota-backend-bytes=8589934592",
	}, strings.Fields(os.Getenv(EtcdArgsVariable))...)
}

func apiServerArgs(l layout, ports Ports, o Options) []string {
	args := []string{
		"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(ports.APIServer), "--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none", // an address of 127.0.0.1 is not allowed in the endpoints of a Service
		"--tls-cert-file=" + l.pki(apiServerCert), "--tls-private-key-file=" + l.pki(apiServerKey),
		"--client-ca-file=" + l.pki(caCert), "--authorization-mode=Node,RBAC",
		"--etcd-servers=" + etcdSocket,
		"--service-cluster-ip-range=10.0.0.0/16", "--allow-privileged=true",
		"--service-account-issuer=" + issuer,
		"--service-account-key-file=" + l.pki(serviceAccountKey), "--service-account-signing-key-file=" + l.pki(serviceAccountKey),
		"--api-audiences=" + issuer + ",gardener", // the token requestor requests the second one
	}
	if len(o.AuditPolicy) > 0 {
		args = append(args, "--audit-policy-file="+l.auditPolicy(), "--audit-log-path="+l.auditLog(),
			"--audit-log-maxsize=0") // one file without rotation, for programs that count requests
	}
	further := strings.ReplaceAll(os.Getenv(APIServerArgsVariable), "$PORT", strconv.Itoa(ports.APIServer))
	return slices.Concat(args, o.APIServerArgs, strings.Fields(further))
}

// controllerManagerArgs raises every limit that could make the garbage collector the bottleneck of a measurement. Each controller has its
// own client with these limits; the garbage collector doubles them.
func controllerManagerArgs(l layout) []string {
	kubeconfig := l.kubeconfig(controllerManager)
	return []string{
		"--kubeconfig=" + kubeconfig, "--leader-elect=false", "--secure-port=0",
		"--use-service-account-credentials", "--service-account-private-key-file=" + l.pki(serviceAccountKey),
		"--root-ca-file=" + l.pki(caCert), "--cluster-signing-cert-file=" + l.pki(caCert), "--cluster-signing-key-file=" + l.pki(caKey),
		"--kube-api-qps=1000", "--kube-api-burst=2000", "--concurrent-gc-syncs=50", "--concurrent-namespace-syncs=20",
	}
}
