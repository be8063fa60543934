package node

import (
	"fmt"
)

// containerdConfig keeps everything below the state folder and runDir.
func containerdConfig(l layout, binaries string) string {
	return fmt.Sprintf(`version = 3
root = %q
state = %q
[grpc]
address = %q
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = %q
[plugins.'io.containerd.cri.v1.runtime']
# Machines without CAP_SYS_RESOURCE may not lower a score.
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
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
`, l.file("containerd"), runDir+"/containerd", socket(), sandboxImage, binaries+"/runc", runDir+"/runc", binaries, l.file("cni"), l.file("opt"))
}

// cniConfig gives each Pod a link of its own to the node, on which all that Pods send each other is routed: on a bridge,
// answers from behind a Service's address would take a short cut and arrive from the wrong one.
func cniConfig(l layout) string {
	return fmt.Sprintf(`{
  "cniVersion": "1.0.0", "name": "espalier",
  "plugins": [{"type": "ptp", "ipam": {"type": "host-local", "dataDir": %q, "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}]}}]
}
`, l.file("addresses"), pods)
}

// kubeletConfig evicts nobody and keeps all images: the disk is the machine's, not the node's, and nothing could be pulled
// again. No names are resolved: nobody is at the address of the cluster DNS, without which each Pod would get a warning.
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
resolvConf: %q
podLogsDir: %q
volumePluginDir: %q
registerNode: true
`, l.file("pki", "ca.crt"), socket(), cgroup, l.file("resolv.conf"), l.file("logs", "pods"), l.file("plugins"))
}

// proxyConfig leaves limits alone that are the machine's.
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

// auditPolicy records who did what to what, which is what rights are compared with.
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

// apiServerArgs let Pods and the kubelet be reached, and be trusted only with certificates that somebody approved.
func apiServerArgs(l layout) []string {
	return []string{
		"--bind-address=0.0.0.0", "--advertise-address=" + address, "--endpoint-reconciler-type=lease",
		"--kubelet-client-certificate=" + l.file("pki", "kube-apiserver.crt"), "--kubelet-client-key=" + l.file("pki", "kube-apiserver.key"),
		"--kubelet-certificate-authority=" + l.file("pki", "ca.crt"), "--kubelet-preferred-address-types=InternalIP",
		"--enable-admission-plugins=NodeRestriction",
	}
}

// arguments of a part.
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

// settings are the files that parts read, by their names in the state folder.
func settings(l layout, binaries string) map[string]string {
	return map[string]string{
		"containerd.toml":       containerdConfig(l, binaries),
		"cni/espalier.conflist": cniConfig(l),
		"kubelet.yaml":          kubeletConfig(l),
		"kube-proxy.yaml":       proxyConfig(l),
		"resolv.conf":           "# no names are resolved in this cluster\n",
	}
}
