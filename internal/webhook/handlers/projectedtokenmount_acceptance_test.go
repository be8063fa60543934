package handlers_test

import (
	"net/http"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/webhook/webhooktest"
	"github.com/espalier-dev/espalier/test/binary"
)

const tokenMountPath = "/webhooks/mount-projected-service-account-token"

// tokenMountServed starts a server that mounts tokens of 7200 seconds. The ServiceAccounts exist before the first Pod: the server reads a
// ServiceAccount live if its cache does not contain it yet.
func tokenMountServed(t *testing.T, accounts ...string) *webhooktest.Env {
	t.Helper()
	e := webhooktest.New(t, webhooktest.Options{Webhooks: "projectedTokenMount: {enabled: true, expirationSeconds: 7200}"})
	for _, account := range accounts {
		_, err := e.Create("{apiVersion: v1, kind: ServiceAccount, " + strings.TrimPrefix(account, "{"))
		e.Expect(err).NotTo(HaveOccurred())
	}
	return e
}

const tokenMountRobot = `{metadata: {name: robot}, automountServiceAccountToken: false}`

// tokenMountMounts contains the volumes of a Pod by name, and the mounts of each container, init containers first.
type tokenMountMounts struct {
	Volumes    []string
	Containers [][]string
}

func tokenMountOf(pod *corev1.Pod) tokenMountMounts {
	found := tokenMountMounts{}
	for _, volume := range pod.Spec.Volumes {
		found.Volumes = append(found.Volumes, volume.Name)
	}
	for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		var names []string
		for _, mount := range c.VolumeMounts {
			names = append(names, mount.Name+" "+mount.MountPath)
		}
		found.Containers = append(found.Containers, names)
	}
	return found
}

func TestDefaultServiceAccountIsNotRead(t *testing.T) {
	t.Parallel()
	e := tokenMountServed(t)
	account := &corev1.ServiceAccount{}
	e.Eventually(func() error {
		return e.Target.Get(e.Ctx, client.ObjectKey{Namespace: e.Namespace, Name: "default"}, account)
	}, binary.Patience).Should(Succeed())
	account.AutomountServiceAccountToken = ptr.To(false)
	e.Expect(e.Target.Update(e.Ctx, account)).To(Succeed())
	for _, name := range []string{`""`, "default"} {
		e.Eventually(func() tokenMountMounts {
			return tokenMountOf(e.CreatePod(`{spec: {serviceAccountName: ` + name + `, containers: [{name: main, image: i}]}}`))
		}, binary.Patience).Should(BeComparableTo(tokenMountMounts{Containers: [][]string{nil}}),
			"the API server mounts tokens until it has seen the update")
		answer := e.Review(tokenMountPath,
			`{kind: {version: v1, kind: Pod}, operation: CREATE, namespace: not-there, object: {spec: {serviceAccountName: `+name+
				`, containers: [{name: main}]}}}`)
		e.Expect(answer).To(BeComparableTo(webhooktest.Answer{Allowed: true, Status: answer.Status}))
	}
}

// TestMissingServiceAccountIsNamed posts the request to the server directly, because an API server would refuse such a Pod before it calls
// webhooks.
func TestMissingServiceAccountIsNamed(t *testing.T) {
	t.Parallel()
	e := tokenMountServed(t)
	answer := e.Review(tokenMountPath, `{kind: {version: v1, kind: Pod}, operation: CREATE, namespace: $NS, object: {spec: `+
		`{serviceAccountName: some-service-account, containers: [{name: main}]}}}`)
	e.Expect(answer.Allowed).To(BeFalse())
	e.Expect(answer.Status.Message).To(Equal(`serviceaccounts "some-service-account" not found`))
	e.Expect(answer.Status.Reason).To(BeEquivalentTo("NotFound"))
	e.Expect(answer.Status.Code).To(BeEquivalentTo(http.StatusNotFound))
}

func TestServiceAccountThatAllowsMountingGetsTheTokenOfTheAPIServer(t *testing.T) {
	t.Parallel()
	e := tokenMountServed(t, `{metadata: {name: silent}}`, `{metadata: {name: willing}, automountServiceAccountToken: true}`)
	for _, name := range []string{"silent", "willing"} {
		found := tokenMountOf(e.CreatePod(`{spec: {serviceAccountName: ` + name + `, containers: [{name: main, image: i}]}}`))
		e.Expect(found.Volumes).To(ConsistOf(And(HavePrefix("kube-api-access-"), Not(Equal("kube-api-access-gardener")))))
		answer := e.Review(tokenMountPath,
			`{kind: {version: v1, kind: Pod}, operation: CREATE, namespace: $NS, object: {spec: {serviceAccountName: `+name+
				`, containers: [{name: main}]}}}`)
		e.Expect(answer).To(BeComparableTo(webhooktest.Answer{Allowed: true, Status: answer.Status}), "without the native volume too")
	}
}

func TestPodThatForbidsMountingGetsNoToken(t *testing.T) {
	t.Parallel()
	e := tokenMountServed(t, tokenMountRobot)
	pod := e.CreatePod(`{spec: {serviceAccountName: robot, automountServiceAccountToken: false, containers: [{name: main, image: i}]}}`)
	e.Expect(tokenMountOf(pod)).To(BeComparableTo(tokenMountMounts{Containers: [][]string{nil}}))
}

func TestPodWithATokenVolumeGetsNoOther(t *testing.T) {
	t.Parallel()
	e := tokenMountServed(t, tokenMountRobot)
	pod := e.CreatePod(`{spec: {serviceAccountName: robot, volumes: [{name: kube-api-access-2138h, emptyDir: {}}], containers: ` +
		`[{name: main, image: i}]}}`)
	e.Expect(tokenMountOf(pod)).To(BeComparableTo(tokenMountMounts{Volumes: []string{"kube-api-access-2138h"}, Containers: [][]string{nil}}))
}

func TestAllContainersGetTheToken(t *testing.T) {
	t.Parallel()
	e := tokenMountServed(t, tokenMountRobot)
	pod := e.CreatePod(`{spec: {serviceAccountName: robot, initContainers: [{name: init, image: i}], containers: [{name: one, ` +
		`image: i}, {name: two, image: i}]}}`)
	e.Expect(pod.Spec.Volumes).To(BeComparableTo([]corev1.Volume{{
		Name: "kube-api-access-gardener",
		VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			DefaultMode: ptr.To[int32](420),
			Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: ptr.To[int64](7200)}},
				{
					ConfigMap: &corev1.ConfigMapProjection{
						LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
						Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
					},
				},
				{
					DownwardAPI: &corev1.DownwardAPIProjection{
						Items: []corev1.DownwardAPIVolumeFile{
							{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}},
						},
					},
				},
			},
		}},
	}}))
	for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		e.Expect(c.VolumeMounts).To(BeComparableTo([]corev1.VolumeMount{
			{Name: "kube-api-access-gardener", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true},
		}), c.Name)
	}
	e.Expect(pod.Spec.SecurityContext).To(BeComparableTo(&corev1.PodSecurityContext{}), "the API server's default")
}

func TestAnnotationSetsTheLifetimeOfTheToken(t *testing.T) {
	t.Parallel()
	e := tokenMountServed(t, tokenMountRobot)
	pod := e.CreatePod(`{metadata: {annotations: {projected-token-mount.resources.gardener.cloud/expiration-seconds: "8998"}}, ` +
		`spec: {serviceAccountName: robot, containers: [{name: main, image: i}]}}`)
	e.Expect(pod.Spec.Volumes).To(HaveLen(1))
	e.Expect(pod.Spec.Volumes[0].Projected.Sources[0].ServiceAccountToken).
		To(BeComparableTo(&corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: ptr.To[int64](8998)}))

	_, err := e.TryPod(`{metadata: {annotations: {projected-token-mount.resources.gardener.cloud/expiration-seconds: x}}, spec: ` +
		`{serviceAccountName: robot, containers: [{name: main, image: i}]}}`)
	e.Expect(err).To(MatchError(`admission webhook "projected-token-mount.resources.gardener.cloud" denied the request: ` +
		`strconv.ParseInt: parsing "x": invalid syntax`))
	_, err = e.TryPod(`{metadata: {annotations: {projected-token-mount.resources.gardener.cloud/expiration-seconds: "599"}}, spec: ` +
		`{serviceAccountName: robot, containers: [{name: main, image: i}]}}`)
	e.Expect(err).To(MatchError(ContainSubstring("may not specify a duration less than 10 minutes")), "which the API server says")
}

func TestTokenMountIsSkippedByTheLabelWithAnyValue(t *testing.T) {
	t.Parallel()
	e := tokenMountServed(t, tokenMountRobot)
	for _, value := range []string{`"true"`, `"false"`, `""`} {
		pod := e.CreatePod(
			`{metadata: {labels: {projected-token-mount.resources.gardener.cloud/skip: ` + value +
				`}}, spec: {serviceAccountName: robot, containers: [{name: main, image: i}]}}`)
		e.Expect(tokenMountOf(pod)).To(BeComparableTo(tokenMountMounts{Containers: [][]string{nil}}), value)
	}
}
