package handlers

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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/admission/reviewtest"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/webhook/object"
	"github.com/espalier-dev/espalier/internal/webhook/objecttest"
)

// tokenMountVolumeFor returns the volume of a token that expires after the given seconds.
func tokenMountVolumeFor(seconds string) string {
	return `{"name":"kube-api-access-gardener","projected":{"sources":[` +
		`{"serviceAccountToken":{"expirationSeconds":` + seconds + `,"path":"token"}},` +
		`{"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}},` +
		`{"downwardAPI":{"items":[{"path":"namespace","fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"}}]}}` +
		`],"defaultMode":420}}`
}

const tokenMountMount = `{"name":"kube-api-access-gardener","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}`

func TestTokenMountAccount(t *testing.T) {
	for name, tc := range map[string]struct{ spec, want string }{
		"none":           {spec: `{}`},
		"null":           {spec: `{"serviceAccountName":null}`},
		"empty":          {spec: `{"serviceAccountName":""}`},
		"the default":    {spec: `{"serviceAccountName":"default"}`},
		"any other":      {spec: `{"serviceAccountName":"robot"}`, want: "robot"},
		"case of a name": {spec: `{"serviceAccountName":"Default"}`, want: "Default"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			account, needed := askForAccount(&review.Request{Namespace: "shop"}, tokenMountDecoded(t, `{"spec":`+tc.spec+`}`))
			g.Expect(needed).To(Equal(tc.want != ""))
			if needed {
				g.Expect(account).To(Equal(types.NamespacedName{Namespace: "shop", Name: tc.want}))
			}
		})
	}
}

func TestTokenMountPlan(t *testing.T) {
	no, yes := ptr.To(false), ptr.To(true)
	appended := func(seconds string) string {
		return `[{"op":"add","path":"/spec/volumes","value":[` + tokenMountVolumeFor(seconds) + `]}]`
	}
	for name, tc := range map[string]struct {
		automount         *bool
		annotations, spec string
		want, wantErr     string
	}{
		"the ServiceAccount says nothing": {spec: `{}`},
		"the ServiceAccount allows it":    {automount: yes, spec: `{}`},
		"the Pod forbids it":              {automount: no, spec: `{"automountServiceAccountToken":false}`},
		"the Pod allows it, which the API server obeyed": {
			automount: no, spec: `{"automountServiceAccountToken":true,"volumes":[{"name":"kube-api-access-2138h"}]}`,
		},
		"a bad annotation of a Pod that stays": {
			automount: no, annotations: `{"projected-token-mount.resources.gardener.cloud/expiration-seconds":"x"}`,
			spec: `{"automountServiceAccountToken":false}`,
		},
		"no volumes":              {automount: no, spec: `{}`, want: appended("43200")},
		"volumes are null":        {automount: no, spec: `{"volumes":null}`, want: appended("43200")},
		"volumes are empty":       {automount: no, spec: `{"volumes":[]}`, want: appended("43200")},
		"the Pod says yes itself": {automount: no, spec: `{"automountServiceAccountToken":true}`, want: appended("43200")},
		"other volumes precede": {
			automount: no, spec: `{"volumes":[{"name":"kube-api-access"}]}`,
			want: `[{"op":"add","path":"/spec/volumes/-","value":` + tokenMountVolumeFor("43200") + `}]`,
		},
		"the annotation says how long": {
			automount: no, annotations: `{"projected-token-mount.resources.gardener.cloud/expiration-seconds":"8998"}`, spec: `{}`,
			want: appended("8998"),
		},
		"the annotation may be too short": {
			automount: no, annotations: `{"projected-token-mount.resources.gardener.cloud/expiration-seconds":"-1"}`, spec: `{}`,
			want: appended("-1"),
		},
		"an annotation that is null": {
			automount: no, annotations: `{"projected-token-mount.resources.gardener.cloud/expiration-seconds":null}`, spec: `{}`,
			want: appended("43200"),
		},
		"the annotation is no number": {
			automount: no, annotations: `{"projected-token-mount.resources.gardener.cloud/expiration-seconds":"x"}`, spec: `{}`,
			wantErr: `strconv.ParseInt: parsing "x": invalid syntax`,
		},
		"the annotation is empty": {
			automount: no, annotations: `{"projected-token-mount.resources.gardener.cloud/expiration-seconds":""}`, spec: `{}`,
			wantErr: `strconv.ParseInt: parsing "": invalid syntax`,
		},
		"the annotation is not decimal": {
			automount: no, annotations: `{"projected-token-mount.resources.gardener.cloud/expiration-seconds":"0x10"}`, spec: `{}`,
			wantErr: `strconv.ParseInt: parsing "0x10": invalid syntax`,
		},
		"the annotation is too large": {
			automount: no, annotations: `{"projected-token-mount.resources.gardener.cloud/expiration-seconds":"9223372036854775808"}`,
			spec: `{}`, wantErr: `strconv.ParseInt: parsing "9223372036854775808": value out of range`,
		},
		"the annotation is long": {
			automount:   no,
			annotations: `{"projected-token-mount.resources.gardener.cloud/expiration-seconds":"` + strings.Repeat("é", 200) + `"}`,
			spec:        `{}`, wantErr: `strconv.ParseInt: parsing "` + strings.Repeat("é", 126) + `…": invalid syntax`,
		},
		"zeros precede": {
			automount: no, annotations: `{"projected-token-mount.resources.gardener.cloud/expiration-seconds":"0000000000000000600"}`,
			spec: `{}`, want: appended("600"),
		},
		"containers of both kinds, but no ephemeral ones": {
			automount: no,
			spec: `{"volumes":[{"name":"a"}],"initContainers":[{}],"containers":[null,{"volumeMounts":null},{"volumeMounts":[{"name":"a"},` +
				`null]}],"ephemeralContainers":[{}]}`,
			want: `[` +
				`{"op":"add","path":"/spec/volumes/-","value":` + tokenMountVolumeFor("43200") + `},` +
				`{"op":"add","path":"/spec/initContainers/0/volumeMounts","value":[` + tokenMountMount + `]},` +
				`{"op":"add","path":"/spec/containers/1/volumeMounts","value":[` + tokenMountMount + `]},` +
				`{"op":"add","path":"/spec/containers/2/volumeMounts/-","value":` + tokenMountMount + `}]`,
		},
		"a container that mounts something at that path": {
			automount: no,
			spec: `{"volumes":[{"name":"a"}],"initContainers":[{"volumeMounts":[{"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount/"}]}],` +
				`"containers":[{"volumeMounts":[{"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}]},` +
				`{"volumeMounts":[{"mountPath":"/var/run/secrets/kubernetes.io/serviceaccounts"}]}]}`,
			want: `[` +
				`{"op":"add","path":"/spec/volumes/-","value":` + tokenMountVolumeFor("43200") + `},` +
				`{"op":"add","path":"/spec/containers/1/volumeMounts/-","value":` + tokenMountMount + `}]`,
		},
		"only containers that mount something at that path": {
			automount: no, spec: `{"containers":[{"volumeMounts":[{"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}]}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			annotations := tc.annotations
			if annotations == "" {
				annotations = "null"
			}
			changes, err := planTokenMount(tokenMountDecoded(t, `{"metadata":{"annotations":`+annotations+`},"spec":`+tc.spec+`}`), tc.automount,
				43200)
			if tc.wantErr != "" {
				g.Expect(err).To(MatchError(tc.wantErr))
				g.Expect(changes).To(BeNil())
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			document, err := changes.Encode()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(document)).To(Equal(tc.want))
		})
	}
}

// TestTokenMountTooManyChangesEndEarly judges a Pod that would need more changes than one patch may have.
func TestTokenMountTooManyChangesEndEarly(t *testing.T) {
	g := NewWithT(t)
	many := `[` + strings.Repeat(`{},`, 30_000) + `{}]`
	changes, err := planTokenMount(tokenMountDecoded(t, `{"spec":{"initContainers":`+many+`,"containers":`+many+`}}`), ptr.To(false), 43200)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(changes).To(HaveLen(10_001))
	_, err = changes.Encode()
	g.Expect(err).To(MatchError("the object needs too many changes: 10001, at most 10000 are made"))
}

func tokenMountDecoded(t *testing.T, object string) tokenPod {
	t.Helper()
	found := tokenPod{}
	NewWithT(t).Expect(review.Decode([]byte(object), &found)).To(Succeed())
	return found
}

// tokenMountFound maps the namespace and name of a ServiceAccount to its automount field, or to the error of the look-up.
type tokenMountFound map[string]any

func (f tokenMountFound) automount(_ context.Context, asked types.NamespacedName) (*bool, error) {
	switch account := f[asked.String()].(type) {
	case *bool:
		return account, nil
	case error:
		return nil, account
	}
	return nil, apierrors.NewNotFound(corev1.Resource("serviceaccounts"), asked.Name)
}

// noAccount returns a look-up that fails the test when it is called.
func noAccount(t *testing.T) object.Lookup[types.NamespacedName, *bool] {
	t.Helper()
	return func(_ context.Context, asked types.NamespacedName) (*bool, error) {
		t.Errorf("ServiceAccount %s was read", asked)
		return nil, nil
	}
}

func tokenMountHandler(automount object.Lookup[types.NamespacedName, *bool]) review.Handler {
	return projectedTokenMount().Review(Settings{
		Webhooks:  config.Webhooks{ProjectedTokenMount: config.ProjectedTokenMountWebhook{ExpirationSeconds: ptr.To[int64](43200)}},
		Automount: automount,
	})
}

func tokenMountCreate(t *testing.T, object string) *review.Request {
	t.Helper()
	request := reviewtest.Request(t, review.Create, corev1.SchemeGroupVersion.WithResource("pods"), object)
	request.Namespace = "shop" // API servers set it in the request; an object with a generated name may have none
	return request
}

func TestTokenIsMounted(t *testing.T) {
	response, after := reviewtest.Handle(t, tokenMountHandler(tokenMountFound{"shop/robot": ptr.To(false)}.automount), tokenMountCreate(t, `
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

func TestTokenMountDoesNotReadTheServiceAccount(t *testing.T) {
	for name, spec := range map[string]string{
		"without a name":     `{}`,
		"with an empty name": `{serviceAccountName: ""}`,
		"if it is default":   `{serviceAccountName: default}`,
	} {
		t.Run(name, func(t *testing.T) {
			response, _ := reviewtest.Handle(t, tokenMountHandler(noAccount(t)), tokenMountCreate(t, `{apiVersion: v1, kind: Pod, spec: `+spec+`}`))
			NewWithT(t).Expect(response).To(BeComparableTo(review.Response{Allowed: true, Code: 200}))
		})
	}
}

func TestTokenMountRefuses(t *testing.T) {
	accounts := tokenMountFound{
		"shop/slow": apierrors.NewTimeoutError("too slow", 1), "shop/broken": errors.New("read ServiceAccount: broken"),
		"shop/robot": ptr.To(false),
	}
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
			want: review.Response{
				Code: 504, Reason: "Timeout", Message: "Timeout: too slow", Details: &metav1.StatusDetails{RetryAfterSeconds: 1}, Failed: true,
			},
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
			object: `{metadata: {annotations: {projected-token-mount.resources.gardener.cloud/expiration-seconds: x}}, spec: ` +
				`{serviceAccountName: robot}}`,
			want: review.Response{Code: 403, Reason: "Forbidden", Message: `strconv.ParseInt: parsing "x": invalid syntax`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			response, _ := reviewtest.Handle(t, tokenMountHandler(accounts.automount), tokenMountCreate(t, tc.object))
			NewWithT(t).Expect(response).To(BeComparableTo(tc.want))
		})
	}
}

func TestTokenMountNamesTheFieldOfAWrongType(t *testing.T) {
	g := NewWithT(t)
	response, _ := reviewtest.Handle(t, tokenMountHandler(noAccount(t)),
		tokenMountCreate(t, `{apiVersion: v1, kind: Pod, spec: {automountServiceAccountToken: "no"}}`))
	g.Expect(response.Code).To(BeEquivalentTo(400))
	g.Expect(response.Message).To(Equal(`spec.automountServiceAccountToken: must not be a string`))
}

func TestTokenMountAllowsDeletion(t *testing.T) {
	response, _ := reviewtest.Handle(t, tokenMountHandler(noAccount(t)),
		reviewtest.Request(t, review.Delete, corev1.SchemeGroupVersion.WithResource("pods"),
			`{apiVersion: v1, kind: Pod, spec: {serviceAccountName: robot}}`))
	NewWithT(t).Expect(response).To(BeComparableTo(review.Response{Allowed: true, Code: 200}))
}

func FuzzTokenMount(f *testing.F) {
	for _, seed := range objecttest.Seeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		objecttest.Case[corev1.Pod]{
			Handler: tokenMountHandler(tokenMountFound{"shop/robot": ptr.To(false)}.automount), Kind: corev1.SchemeGroupVersion.WithKind("Pod"),
			Object:  randomPod(),
			Touched: []string{"/spec/volumes", "/spec/initContainers/*/volumeMounts", "/spec/containers/*/volumeMounts"},
			Want:    tokenMountMounted,
		}.CheckRules(t, bytes)
	})
}

// tokenMountMounted makes the expected change in a Pod of the ServiceAccount robot, which disables automounting.
func tokenMountMounted(pod *corev1.Pod) bool {
	if pod.Spec.ServiceAccountName != "robot" || !ptr.Deref(pod.Spec.AutomountServiceAccountToken, true) {
		return true
	}
	for _, volume := range pod.Spec.Volumes {
		if strings.HasPrefix(volume.Name, "kube-api-access-") {
			return true
		}
	}
	seconds := int64(43200)
	if given, tokenMountFound := pod.Annotations["projected-token-mount.resources.gardener.cloud/expiration-seconds"]; tokenMountFound {
		var err error
		if seconds, err = strconv.ParseInt(given, 10, 64); err != nil {
			return false
		}
	}
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
		Name: "kube-api-access-gardener",
		VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			DefaultMode: ptr.To[int32](420),
			Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &seconds}},
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
	})
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			containers[i].VolumeMounts = append(containers[i].VolumeMounts, corev1.VolumeMount{
				Name: "kube-api-access-gardener", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true,
			})
		}
	}
	return true
}

func BenchmarkTokenMount(b *testing.B) {
	benchmark(b, tokenMountHandler(tokenMountFound{
		"shop/web": ptr.To(false),
	}.automount), &review.Request{
		Operation: review.Create, Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Namespace: "shop", Object: largePod(b),
	})
}
