package handlers

import (
	"encoding/json"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/admission/review"
)

// largePod returns the Pod of the benchmarks, as JSON in the form that an API server sends: five containers with ten variables each.
func largePod(tb testing.TB) []byte {
	tb.Helper()
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "web-7d4b9c6f5-", Labels: map[string]string{"app": "web", "pod-template-hash": "7d4b9c6f5"},
			Annotations: map[string]string{"checksum/configuration": "0f343b0931126a20f133d67c2b018a3b"},
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-7d4b9c6f5", UID: "uid", Controller: ptr.To(true)},
			},
		},
		Spec: corev1.PodSpec{
			ServiceAccountName: "web", SchedulerName: "default-scheduler", NodeSelector: map[string]string{"kubernetes.io/os": "linux"},
			Tolerations: []corev1.Toleration{
				{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: ptr.To[int64](300)},
				{Key: "node.kubernetes.io/unreachable", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: ptr.To[int64](300)},
			},
			TopologySpreadConstraints: []corev1.TopologySpreadConstraint{
				{
					MaxSkew: 1, TopologyKey: "topology.kubernetes.io/zone", WhenUnsatisfiable: "DoNotSchedule",
					LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
				},
				{
					MaxSkew: 1, TopologyKey: "kubernetes.io/hostname", WhenUnsatisfiable: "ScheduleAnyway",
					LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
				},
			},
			Volumes: []corev1.Volume{
				{
					Name: "configuration",
					VolumeSource: corev1.VolumeSource{
						ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "web"}},
					},
				},
			},
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true)},
		},
	}
	for i := range 5 {
		pod.Spec.Containers = append(pod.Spec.Containers, largeContainer(i))
	}
	encoded, err := json.Marshal(pod)
	NewWithT(tb).Expect(err).NotTo(HaveOccurred())
	return encoded
}

func largeContainer(i int) corev1.Container {
	c := corev1.Container{
		Name: fmt.Sprintf("container-%d", i), Image: "registry.example.com/web:1.2.3", Args: []string{"--config=/etc/web/config.yaml", "--v=2"},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("128Mi")},
		},
		VolumeMounts:             []corev1.VolumeMount{{Name: "configuration", MountPath: "/etc/web"}},
		TerminationMessagePath:   "/dev/termination-log",
		TerminationMessagePolicy: "File", ImagePullPolicy: "IfNotPresent",
		LivenessProbe: &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Scheme: "HTTP"}}, TimeoutSeconds: 1,
			PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3,
		},
	}
	for v := range 10 {
		c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", v), Value: "value"})
	}
	return c
}

// benchmark measures how long Handle takes for one request. The response must contain a patch.
func benchmark(b *testing.B, handler review.Handler, request *review.Request) {
	b.Helper()
	NewWithT(b).Expect(handler.Handle(b.Context(), request).Patch).NotTo(BeEmpty())
	b.ReportAllocs()
	b.SetBytes(int64(len(request.Object)))
	for b.Loop() {
		handler.Handle(b.Context(), request)
	}
}
