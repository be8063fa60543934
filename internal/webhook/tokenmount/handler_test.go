package tokenmount_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/admission/reviewtest"
	"github.com/espalier-dev/espalier/internal/webhook/objecttest"
	"github.com/espalier-dev/espalier/internal/webhook/tokenmount"
)

// found are ServiceAccounts by namespace and name, or why they cannot be looked up.
type found map[string]any

func (f found) Automount(_ context.Context, namespace, name string) (*bool, error) {
	switch account := f[namespace+"/"+name].(type) {
	case *bool:
		return account, nil
	case error:
		return nil, account
	}
	return nil, apierrors.NewNotFound(corev1.Resource("serviceaccounts"), name)
}

// nobody fails the test if it is asked.
type nobody struct{ t *testing.T }

func (n nobody) Automount(_ context.Context, namespace, name string) (*bool, error) {
	n.t.Errorf("ServiceAccount %s/%s was read", namespace, name)
	return nil, nil
}

func handler(accounts tokenmount.ServiceAccounts) tokenmount.Handler {
	return tokenmount.Handler{ExpirationSeconds: 43200, ServiceAccounts: accounts}
}

func create(t *testing.T, object string) *review.Request {
	t.Helper()
	request := reviewtest.Request(t, review.Create, corev1.SchemeGroupVersion.WithResource("pods"), object)
	request.Namespace = "shop" // as API servers say it, while objects with a generated name say none
	return request
}

func TestHandleMountsAToken(t *testing.T) {
	response, after := reviewtest.Handle(t, handler(found{"shop/robot": ptr.To(false)}), create(t, `
apiVersion: v1
kind: Pod
metadata: {generateName: web-}
spec:
  serviceAccountName: robot
  unknown: kept
  containers: [{name: web, volumeMounts: [{name: data, mountPath: /data, unknown: kept}]}]
  volumes: [{name: data, emptyDir: {}, unknown: kept}]
`))
	NewWithT(t).Expect(response.Allowed).To(BeTrue())
	reviewtest.Same(t, after, `
apiVersion: v1
kind: Pod
metadata: {generateName: web-}
spec:
  serviceAccountName: robot
  unknown: kept
  containers:
  - name: web
    volumeMounts:
    - {name: data, mountPath: /data, unknown: kept}
    - {name: kube-api-access-gardener, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
  volumes:
  - {name: data, emptyDir: {}, unknown: kept}
  - name: kube-api-access-gardener
    projected:
      defaultMode: 420
      sources:
      - serviceAccountToken: {path: token, expirationSeconds: 43200}
      - configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
      - downwardAPI: {items: [{path: namespace, fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}}]}
`)
}

func TestHandleDoesNotReadTheServiceAccount(t *testing.T) {
	for name, spec := range map[string]string{
		"without a name":     `{}`,
		"with an empty name": `{serviceAccountName: ""}`,
		"if it is default":   `{serviceAccountName: default}`,
	} {
		t.Run(name, func(t *testing.T) {
			response, _ := reviewtest.Handle(t, handler(nobody{t}), create(t, `{apiVersion: v1, kind: Pod, spec: `+spec+`}`))
			NewWithT(t).Expect(response).To(BeComparableTo(review.Response{Allowed: true, Code: 200}))
		})
	}
}

func TestHandleRefuses(t *testing.T) {
	accounts := found{"shop/slow": apierrors.NewTimeoutError("too slow", 1), "shop/broken": errors.New("read ServiceAccount: broken"), "shop/robot": ptr.To(false)}
	for name, tc := range map[string]struct {
		object string
		want   review.Response
	}{
		"a ServiceAccount that does not exist": {
			object: `{spec: {serviceAccountName: some-service-account}}`,
			want: review.Response{
				Code: 404, Reason: "NotFound", Message: `serviceaccounts "some-service-account" not found`,
				Details: &metav1.StatusDetails{Name: "some-service-account", Kind: "serviceaccounts"}, Failed: true,
			},
		},
		"a look-up that the API server refuses, as it does": {
			object: `{spec: {serviceAccountName: slow}}`,
			want:   review.Response{Code: 504, Reason: "Timeout", Message: "Timeout: too slow", Details: &metav1.StatusDetails{RetryAfterSeconds: 1}, Failed: true},
		},
		"a look-up that fails": {
			object: `{spec: {serviceAccountName: broken}}`,
			want:   review.Response{Code: 403, Reason: "Forbidden", Message: "read ServiceAccount: broken", Failed: true},
		},
		"a ServiceAccount that does not exist, whatever else would keep the Pod as it is": {
			object: `{spec: {serviceAccountName: missing, automountServiceAccountToken: false}}`,
			want: review.Response{
				Code: 404, Reason: "NotFound", Message: `serviceaccounts "missing" not found`,
				Details: &metav1.StatusDetails{Name: "missing", Kind: "serviceaccounts"}, Failed: true,
			},
		},
		"an annotation that is no number": {
			object: `{metadata: {annotations: {projected-token-mount.resources.gardener.cloud/expiration-seconds: x}}, spec: {serviceAccountName: robot}}`,
			want:   review.Response{Code: 403, Reason: "Forbidden", Message: `strconv.ParseInt: parsing "x": invalid syntax`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			response, _ := reviewtest.Handle(t, handler(accounts), create(t, tc.object))
			NewWithT(t).Expect(response).To(BeComparableTo(tc.want))
		})
	}
}

func TestHandleTellsTheFieldOfAWrongType(t *testing.T) {
	g := NewWithT(t)
	response, _ := reviewtest.Handle(t, handler(nobody{t}), create(t, `{apiVersion: v1, kind: Pod, spec: {automountServiceAccountToken: "no"}}`))
	g.Expect(response.Code).To(BeEquivalentTo(400))
	g.Expect(response.Message).To(Equal(`spec.automountServiceAccountToken: must not be a string`))
}

func TestHandleAllowsDeletion(t *testing.T) {
	response, _ := reviewtest.Handle(t, handler(nobody{t}), reviewtest.Request(t, review.Delete, corev1.SchemeGroupVersion.WithResource("pods"), `{apiVersion: v1, kind: Pod, spec: {serviceAccountName: robot}}`))
	NewWithT(t).Expect(response).To(BeComparableTo(review.Response{Allowed: true, Code: 200}))
}

func FuzzHandle(f *testing.F) {
	for _, seed := range objecttest.Seeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		objecttest.Case[corev1.Pod]{
			Handler: handler(found{"shop/robot": ptr.To(false)}), Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Object: objecttest.Pod(),
			Touched: []string{"/spec/volumes", "/spec/initContainers/*/volumeMounts", "/spec/containers/*/volumeMounts"},
			Want:    mounted,
		}.Hold(t, bytes)
	})
}

// mounted does what is wanted if the ServiceAccount robot forbids automounting.
func mounted(pod *corev1.Pod) bool {
	if pod.Spec.ServiceAccountName != "robot" || !ptr.Deref(pod.Spec.AutomountServiceAccountToken, true) {
		return true
	}
	for _, volume := range pod.Spec.Volumes {
		if strings.HasPrefix(volume.Name, "kube-api-access-") {
			return true
		}
	}
	seconds := int64(43200)
	if given, found := pod.Annotations["projected-token-mount.resources.gardener.cloud/expiration-seconds"]; found {
		var err error
		if seconds, err = strconv.ParseInt(given, 10, 64); err != nil {
			return false
		}
	}
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "kube-api-access-gardener", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: ptr.To[int32](420),
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &seconds}},
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}}}}},
		},
	}}})
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			containers[i].VolumeMounts = append(containers[i].VolumeMounts, corev1.VolumeMount{Name: "kube-api-access-gardener", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true})
		}
	}
	return true
}

func BenchmarkHandle(b *testing.B) {
	objecttest.Benchmark(b, handler(found{"shop/web": ptr.To(false)}), &review.Request{Operation: review.Create, Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Namespace: "shop", Object: objecttest.LargePod(b)})
}
