//go:build e2e

package tokencontrollers_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// scene is a namespace with Secrets that request tokens.
type scene struct{ namespace string }

func newScene(ctx context.Context) scene {
	GinkgoHelper()
	namespace, remove, err := c.Namespace(ctx, "token", nil)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(remove)
	return scene{namespace}
}

// request creates a Secret that requests a token of the ServiceAccount, in the namespace of the scene.
func (s scene) request(ctx context.Context, name, account string, change ...func(*corev1.Secret)) {
	GinkgoHelper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.namespace, Name: name,
		Labels: map[string]string{"resources.gardener.cloud/purpose": "token-requestor"},
		Annotations: map[string]string{
			"serviceaccount.resources.gardener.cloud/name":      account,
			"serviceaccount.resources.gardener.cloud/namespace": s.namespace,
		},
	}}
	for _, each := range change {
		each(secret)
	}
	Expect(c.Client.Create(ctx, secret)).To(Succeed())
}

// secret returns a Secret of the namespace.
func (s scene) secret(ctx context.Context, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	return secret, c.Client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, secret)
}

// token returns the token in a Secret; empty if there is none.
func (s scene) token(ctx context.Context, name string) (string, error) {
	secret, err := s.secret(ctx, name)
	return string(secret.Data["token"]), err
}

// has reports whether a Secret contains a token. It is a function, because Gomega would print the values that it compares.
func (s scene) has(ctx context.Context, name, token string) (bool, error) {
	found, err := s.token(ctx, name)
	return found == token, err
}

// user returns the user that the API server authenticates a token as; empty if it refuses the token. API servers cache successful
// authentications for ten seconds.
func (s scene) user(ctx context.Context, bearer string) (string, error) {
	config := rest.AnonymousClientConfig(c.Config)
	config.BearerToken = bearer
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	review, err := clients.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if apierrors.IsUnauthorized(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return review.Status.UserInfo.Username, nil
}

// account returns the user name of a ServiceAccount in the namespace.
func (s scene) account(name string) string {
	return "system:serviceaccount:" + s.namespace + ":" + name
}

// grant allows a ServiceAccount to read the ConfigMaps of the namespace.
func (s scene) grant(ctx context.Context, account string) {
	GinkgoHelper()
	_, err := c.Kubectl(ctx, "-n", s.namespace, "create", "role", account, "--verb=list", "--resource=configmaps")
	Expect(err).NotTo(HaveOccurred())
	_, err = c.Kubectl(ctx, "-n", s.namespace, "create", "rolebinding", account, "--role="+account,
		"--serviceaccount="+s.namespace+":"+account)
	Expect(err).NotTo(HaveOccurred())
}

// fetch runs a Pod that fetches a path from the API server, and requires the status. The Pod mounts a Secret at /credentials and the
// certificate authority of the cluster at /authority.
func (s scene) fetch(ctx context.Context, pod, secret, want, path string, flags ...string) {
	GinkgoHelper()
	args := append([]string{"fetch", "-want", want, "-for", "20s"}, flags...)
	object := c.Pod(s.namespace, pod, append(args, path)...)
	mode := ptr.To[int32](0o440)
	object.Spec.Volumes = []corev1.Volume{
		{Name: "credentials", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret, DefaultMode: mode}}},
		{Name: "authority", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
		}}},
	}
	object.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{
		{Name: "credentials", MountPath: "/credentials", ReadOnly: true},
		{Name: "authority", MountPath: "/authority", ReadOnly: true},
	}
	Expect(c.Client.Create(ctx, object)).To(Succeed())
	code, output, err := c.PodEnded(ctx, s.namespace, pod)
	Expect(err).NotTo(HaveOccurred())
	Expect(code).To(BeZero(), "fetch %s: %s", path, output)
}

// byToken returns the flags with which a Pod uses a token in a file.
func byToken() []string {
	return []string{"-token", "/credentials/token", "-ca", "/authority/ca.crt"}
}

func (s scene) configMaps() string { return "/api/v1/namespaces/" + s.namespace + "/configmaps" }

func (s scene) secrets() string { return "/api/v1/namespaces/" + s.namespace + "/secrets" }
