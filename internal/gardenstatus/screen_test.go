package gardenstatus_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/gardenstatus"
)

func at(minute int) metav1.Time {
	return metav1.NewTime(time.Date(2026, time.May, 1, 10, minute, 0, 0, time.UTC))
}

func TestScreenHas80ColumnsAndNoControlCharacters(t *testing.T) {
	g := NewWithT(t)
	begun, full := at(2), at(5)
	garden := &operatorv1alpha1.Garden{
		ObjectMeta: metav1.ObjectMeta{Name: "orchards", Annotations: map[string]string{"espalier.dev/paused-until": "2026-05-02T00:00:00Z"}},
		Status: operatorv1alpha1.GardenStatus{
			Gardener: &operatorv1alpha1.OperatorIdentity{Version: "v1.149.3"},
			LastOperation: &operatorv1alpha1.LastOperation{
				Type: "Reconcile", State: "Processing", Progress: 33, Description: "Deploying etcds", LastUpdateTime: at(10),
			},
			Tasks: []operatorv1alpha1.Task{
				{Name: "done", State: "Succeeded", Since: at(1)},
				{Name: "next", State: "Pending", Since: at(1), WaitingFor: "Waits for others."},
				{Name: "Deploying etcds", State: "Running", Since: at(4), WaitingFor: "the \x1b[31mStatefulSet has 1 of 3 ready Pods" +
					strings.Repeat(" and more", 10) + " " + strings.Repeat("x", 100)},
			},
			Credentials: &operatorv1alpha1.Credentials{Rotation: &operatorv1alpha1.CredentialsRotation{
				CertificateAuthorities: &operatorv1alpha1.Rotation{Phase: "Prepared", LastInitiationTime: &begun},
				ServiceAccountKey:      &operatorv1alpha1.Rotation{Phase: "Completed"},
			}},
			Conditions: []corev1beta1.Condition{
				{Type: "VirtualGardenAPIServerAvailable", Status: "True", LastTransitionTime: at(1)},
				{Type: "VirtualComponentsHealthy", Status: "False", Reason: "EtcdUnhealthy", Message: "not yet", LastTransitionTime: at(9)},
			},
		},
	}
	garden.Spec.VirtualCluster.Kubernetes.Version = "1.36.1"
	screen := gardenstatus.Of(garden, gardenstatus.Facts{
		Etcds: []gardenstatus.Etcd{{
			Name: "virtual-garden-etcd-main", Members: 3, Ready: 1, Size: 412 << 20, Quota: 8 << 30, FullSnapshot: &full,
		}},
		Credentials: []gardenstatus.Credential{{Name: "ca-garden-runtime", Ends: at(55)}},
		Unknown:     []string{"size of the etcds: you may not read them"},
	})
	g.Expect(screen.Text(at(10).Time, false)).To(Equal(`Garden orchards
  operation:       Reconcile Processing, 33 %, 1 of 3 tasks, 0s ago
  paused until:    2026-05-02T00:00:00Z
  versions:        Kubernetes 1.36.1, Gardener v1.149.3
  rotation:        certificateAuthorities Prepared, begun 8m ago
  etcd:            main 1 of 3 ready, 412 MiB of 8 GiB (5 %), full snapshot 5m
                   ago
  first to end:    ca-garden-runtime in 45m
  not known:       size of the etcds: you may not read them
TASK      SINCE  NAME
Running   6m     Deploying etcds
                 the ` + "\uFFFD" + `[31mStatefulSet has 1 of 3 ready Pods and more and more
                 and more and more and more and more and more and more and more
                 and more
                 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
                 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
Pending   9m     next
STATUS    SINCE  CONDITION
True      9m     VirtualGardenAPIServerAvailable
False     60s    VirtualComponentsHealthy
                 EtcdUnhealthy: not yet
`))
	for line := range strings.Lines(screen.Text(at(10).Time, false)) {
		g.Expect(utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))).To(BeNumerically("<=", 80), line)
	}
	g.Expect(screen.Text(at(10).Time, true)).To(ContainSubstring("\x1b[31mFalse     60s    VirtualComponentsHealthy\x1b[0m\n"))
}

func TestRotationsThatAreGoingOn(t *testing.T) {
	early, late := at(2), at(5)
	for name, tc := range map[string]struct {
		rotation operatorv1alpha1.CredentialsRotation
		want     string
	}{
		"none": {},
		"prepared": {
			rotation: operatorv1alpha1.CredentialsRotation{
				ServiceAccountKey: &operatorv1alpha1.Rotation{Phase: "Prepared", LastInitiationTime: &late},
			},
			want: "serviceAccountKey Prepared, begun 5m ago",
		},
		"aborted": {
			rotation: operatorv1alpha1.CredentialsRotation{ETCDEncryptionKey: &operatorv1alpha1.ETCDEncryptionKeyRotation{
				Rotation: operatorv1alpha1.Rotation{Phase: "Preparing", LastInitiationTime: &late, AbortedInitiationTime: &early},
			}},
			want: "etcdEncryptionKey Preparing, aborted 5m ago",
		},
		"aborted and completed": {
			rotation: operatorv1alpha1.CredentialsRotation{ServiceAccountKey: &operatorv1alpha1.Rotation{
				Phase: "Completed", LastInitiationTime: &late, AbortedInitiationTime: &early,
			}},
		},
		"the first one in one step": {
			rotation: operatorv1alpha1.CredentialsRotation{Observability: &operatorv1alpha1.ObservabilityRotation{LastInitiationTime: &late}},
			want:     "observability Preparing, begun 5m ago",
		},
		"another one in one step": {
			rotation: operatorv1alpha1.CredentialsRotation{
				Observability: &operatorv1alpha1.ObservabilityRotation{LastInitiationTime: &late, LastCompletionTime: &early},
			},
			want: "observability Preparing, begun 5m ago",
		},
		"completed in one step": {
			rotation: operatorv1alpha1.CredentialsRotation{
				Observability: &operatorv1alpha1.ObservabilityRotation{LastInitiationTime: &early, LastCompletionTime: &late},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			garden := &operatorv1alpha1.Garden{}
			garden.Status.Credentials = &operatorv1alpha1.Credentials{Rotation: &tc.rotation}
			var found []string
			for line := range strings.Lines(gardenstatus.Of(garden, gardenstatus.Facts{}).Text(at(10).Time, false)) {
				if text, is := strings.CutPrefix(strings.TrimSpace(line), "rotation:"); is {
					found = append(found, strings.TrimSpace(text))
				}
			}
			NewWithT(t).Expect(strings.Join(found, "; ")).To(Equal(tc.want))
		})
	}
}
