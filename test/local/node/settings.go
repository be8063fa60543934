package node

import "fmt"

// containerdConfig configures all paths to be below the state folder and runDir.
func containerdConfig(l layout, binaries string) string {
	return fmt.Sprintf(`version = 3
root = %q
state = %q
[grpc]
address = %q
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = %q
[plugins.'io.containerd.cri.v1.images'.registry]
config_path = %q
[plugins.'io.containerd.cri.v1.runtime']
# Machines without CAP_SYS_RESOURCE may not lower a score.
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
# By default, containerd asks for the statistics of each container each second, which takes a quarter of a processor for 100 containers.
stats_collect_period = '30s'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = %q
Root = %q
SystemdCgroup = false
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = [%q]
conf_dir = %q
[plugins.'io.containerd.internal.v1.opt']
path = %q
`, l.file("containerd"), runDir+"/containerd", socket(), sandboxImage, l.file("registries"), binaries+"/runc", runDir+"/runc", binaries,
		l.file("cni"), l.file("opt"))
}

// cniConfig gives each Pod its own link to the node, which routes all traffic between Pods. If the Pods were on a bridge, responses of a
// Service's Pods would bypass the node, and would have the wrong source address.
func cniConfig(l layout) string {
	return fmt.Sprintf(`{
  "cniVersion": "1.0.0", "name": "espalier",
  "plugins": [{"type": "ptp", "ipam": {"type": "host-local", "dataDir": %q, "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}]}}]
}
`, l.file("addresses"), pods)
}

// kubeletConfig disables evictions and keeps all images: the node shares the disk with the machine, and images cannot be pulled again. The
// DNS address belongs to a Service that only `make up-garden` creates; without the Service, no names are resolved.
func kubeletConfig(l layout) string {
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: %q}}
authorization: {mode: Webhook}
serverTLSBootstrap: true
containerRuntimeEndpoint: "unix://%s"
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: /%s
enforceNodeAllocatable: []
evictionHard: {}
imageGCHighThresholdPercent: 100
failSwapOn: false
clusterDNS: [10.0.0.10]
clusterDomain: cluster.local
resolvConf: %q
podLogsDir: %q
volumePluginDir: %q
registerNode: true
`, l.file("pki", "ca.crt"), socket(), cgroup, l.file("resolv.conf"), podLogs, l.file("plugins"))
}

// proxyConfig keeps kube-proxy from changing limits of the machine.
func proxyConfig(l layout) string {
	return fmt.Sprintf(`apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
clientConnection: {kubeconfig: %q}
hostnameOverride: %s
clusterCIDR: %s
bindAddress: 127.0.0.1
nodePortAddresses: [primary]
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
`, l.file("kubeconfigs", kubeProxy), Name, pods)
}

// auditPolicy records the user and the object of each request, which tests compare with the rights.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: ["system:apiserver", "system:kube-scheduler", "system:kube-controller-manager", "system:kube-proxy"]
- level: None
  userGroups: ["system:nodes"]
- level: Metadata
`

// apiServerArgs returns arguments with which the API server can connect to Pods and to the kubelet. The certificates of the kubelet must
// have been approved.
func apiServerArgs(l layout) []string {
	return []string{
		"--bind-address=0.0.0.0", "--advertise-address=" + address, "--endpoint-reconciler-type=lease",
		"--kubelet-client-certificate=" + l.file("pki", "kube-apiserver-kubelet-client.crt"),
		"--kubelet-client-key=" + l.file("pki", "kube-apiserver-kubelet-client.key"),
		"--kubelet-certificate-authority=" + l.file("pki", "ca.crt"), "--kubelet-preferred-address-types=InternalIP",
		"--enable-admission-plugins=NodeRestriction",
	}
}

func arguments(part string, l layout) []string {
	switch part {
	case containerd:
		return []string{"--config=" + l.file("containerd.toml")}
	case kubelet:
		return []string{
			"--config=" + l.file("kubelet.yaml"), "--kubeconfig=" + l.file("kubeconfigs", kubelet), "--root-dir=" + l.file("kubelet"),
			"--cert-dir=" + l.file("kubelet-pki"), "--hostname-override=" + Name, "--node-ip=" + address,
		}
	default:
		return []string{"--config=" + l.file("kube-proxy.yaml")}
	}
}

// settings returns the contents of the files that the parts read, by their names in the state folder.
func settings(l layout, binaries string) map[string]string {
	return map[string]string{
		"containerd.toml":       containerdConfig(l, binaries),
		"cni/espalier.conflist": cniConfig(l),
		"kubelet.yaml":          kubeletConfig(l),
		"kube-proxy.yaml":       proxyConfig(l),
		// The node has no registry: its images are imported. A pull fails at once, because nothing listens at this port. Otherwise it would
		// wait until the resolution of names times out, and delay the deletion of its Pod and all other pulls.
		"registries/_default/hosts.toml": `server = "http://127.0.0.1:1"` + "\n",
		"resolv.conf":                    "# no names are resolved in this cluster\n",
	}
}
