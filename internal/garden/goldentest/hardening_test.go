package goldentest

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Findings about a container.
const (
	mayEscalate    = "privileges may grow"
	hasCapability  = "has capabilities"
	writableRoot   = "root filesystem is writable"
	mayBeRoot      = "user may be root"
	sharesWithNode = "shares namespaces or files with the node"
)

// exceptions are the accepted findings, by Deployment, or by workload and container: the program in the container does not work without
// these rights.
var exceptions = map[string][]string{
	// The image changes its root, for which it starts a program with capabilities, and writes its configuration.
	"nginx-ingress-controller": {mayEscalate, hasCapability, writableRoot},
	// It changes a setting of the device of the volume.
	"vali/init-large-dir": {mayEscalate, hasCapability, writableRoot, mayBeRoot},
	// The file of the program has this capability, and the kernel does not start it in a container that may not have the capability.
	"virtual-garden-kube-apiserver": {hasCapability},
}

// etcd-druid makes the Pods of etcds. They are in no golden file.
func TestContainersHaveNoRightsThatTheirProgramsDoNotNeed(t *testing.T) {
	g := NewWithT(t)
	files, err := filepath.Glob("../component/*/testdata/*.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	seen := map[string]bool{}
	for _, file := range files {
		for _, each := range decode(g, file) {
			if each.GetKind() != "Deployment" && each.GetKind() != "StatefulSet" {
				g.Expect(each.GetKind()).NotTo(BeElementOf("DaemonSet", "Job", "CronJob", "Pod"), "this test ignores the kind")
				continue
			}
			text, err := each.MarshalJSON()
			g.Expect(err).NotTo(HaveOccurred())
			d := &appsv1.Deployment{} // a StatefulSet has a template, too
			g.Expect(json.Unmarshal(text, d)).To(Succeed())
			pod := d.Spec.Template.Spec
			for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
				name := d.Name
				if _, isExcepted := exceptions[name]; !isExcepted {
					name += "/" + container.Name
				}
				g.Expect(findings(pod, container)).To(Equal(exceptions[name]), "%s: %s %s, container %s", file, d.Kind, d.Name, container.Name)
				seen[name] = true
			}
		}
	}
	for name := range exceptions {
		g.Expect(seen).To(HaveKey(name))
	}
}

func findings(pod corev1.PodSpec, container corev1.Container) []string {
	own, all := ptr.Deref(container.SecurityContext, corev1.SecurityContext{}), ptr.Deref(pod.SecurityContext, corev1.PodSecurityContext{})
	capabilities := ptr.Deref(own.Capabilities, corev1.Capabilities{})
	nonRoot, user := own.RunAsNonRoot, own.RunAsUser
	if nonRoot == nil {
		nonRoot = all.RunAsNonRoot
	}
	if user == nil {
		user = all.RunAsUser
	}
	var found []string
	add := func(condition bool, finding string) {
		if condition {
			found = append(found, finding)
		}
	}
	add(ptr.Deref(own.AllowPrivilegeEscalation, true) || ptr.Deref(own.Privileged, false), mayEscalate)
	add(!slices.Equal(capabilities.Drop, []corev1.Capability{"ALL"}) || len(capabilities.Add) > 0, hasCapability)
	add(!ptr.Deref(own.ReadOnlyRootFilesystem, false), writableRoot)
	// The kubelet does not start an image whose user is a name if only runAsNonRoot is set.
	add(!ptr.Deref(nonRoot, false) || ptr.Deref(user, 0) == 0, mayBeRoot)
	hasFilesOfNode := slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil })
	add(pod.HostNetwork || pod.HostPID || pod.HostIPC || hasFilesOfNode, sharesWithNode)
	return found
}
