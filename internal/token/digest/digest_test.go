package digest_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/token/digest"
)

var then = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func jwt(claims string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

func expiring() string { return jwt(fmt.Sprintf(`{"exp":%d}`, then.Unix())) }

func config(token string) string {
	return `{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {user: u, cluster: c}}],
clusters: [{name: c, cluster: {certificate-authority-data: Y2E=}}], users: [{name: u, user: {token: "` + token + `"}}]}`
}

const hashOfCA = "6959097001d10501ac7d54c0bdb8db61420f658f2922cc26e46d536119a31126" // of "ca"

func TestOf(t *testing.T) {
	for name, tc := range map[string]struct {
		data map[string]string
		want digest.Digest
	}{
		"nothing":        {},
		"an empty token": {data: map[string]string{"token": ""}, want: digest.Digest{Token: true}},
		"a token":        {data: map[string]string{"token": expiring()}, want: digest.Digest{Token: true, Expiry: then}},
		"a token beside an authority": {
			data: map[string]string{"token": "x", "bundle.crt": "ca"}, want: digest.Digest{Token: true, CA: hashOfCA},
		},
		"a kubeconfig": {
			data: map[string]string{"kubeconfig": config(expiring())},
			want: digest.Digest{Kubeconfig: true, Token: true, Expiry: then, CA: hashOfCA},
		},
		"a kubeconfig without token": {
			data: map[string]string{"kubeconfig": config(""), "token": expiring()}, want: digest.Digest{Kubeconfig: true, CA: hashOfCA},
		},
		"a kubeconfig that is no such": {
			data: map[string]string{"kubeconfig": "{}"},
			want: digest.Digest{Kubeconfig: true, Fault: "kubeconfig has no current-context: name the context whose user shall get the token"},
		},
		"a kubeconfig and a stale token": {
			data: map[string]string{"kubeconfig": config("x"), "token": expiring()},
			want: digest.Digest{Kubeconfig: true, Token: true, CA: hashOfCA},
		},
	} {
		t.Run(name, func(t *testing.T) {
			secret := &corev1.Secret{Data: map[string][]byte{}}
			for key, value := range tc.data {
				secret.Data[key] = []byte(value)
			}
			NewWithT(t).Expect(digest.Of(secret)).To(BeComparableTo(tc.want))
		})
	}
}

func TestStripKeepsNoContents(t *testing.T) {
	g := NewWithT(t)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "n", UID: "u", ResourceVersion: "7",
			Labels: map[string]string{
				"resources.gardener.cloud/purpose": "token-requestor", "resources.gardener.cloud/class": "c", "x": "t0ps3cret",
			},
			Annotations: map[string]string{
				"serviceaccount.resources.gardener.cloud/name": "sa", "espalier.dev/renew-token": "true",
				"kubectl.kubernetes.io/last-applied-configuration": "t0ps3cret",
			},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "t0ps3cret"}},
		},
		Immutable: ptr.To(true),
		Data:      map[string][]byte{"token": []byte("t0ps3cret"), "other": []byte("t0ps3cret"), "kubeconfig": []byte(config("t0ps3cret"))},
	}
	stripped, err := digest.Strip(secret)
	g.Expect(err).NotTo(HaveOccurred())
	text, err := json.Marshal(stripped)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(text)).NotTo(Or(ContainSubstring("t0ps3cret"), ContainSubstring("dDBwczNjcmV0")))
	kept, ok := stripped.(*corev1.Secret)
	g.Expect(ok).To(BeTrue())
	g.Expect(kept.ObjectMeta).To(BeComparableTo(metav1.ObjectMeta{
		Namespace: "ns", Name: "n", UID: "u", ResourceVersion: "7",
		Labels:      map[string]string{"resources.gardener.cloud/purpose": "token-requestor", "resources.gardener.cloud/class": "c"},
		Annotations: map[string]string{"serviceaccount.resources.gardener.cloud/name": "sa", "espalier.dev/renew-token": "true"},
	}))
	read, err := digest.Read(kept)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(read).To(BeComparableTo(digest.Digest{Kubeconfig: true, Token: true, CA: hashOfCA, Immutable: true}))
	again, err := digest.Strip(stripped)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(again).To(BeIdenticalTo(stripped))
	_, err = digest.Read(&corev1.Secret{})
	g.Expect(err).To(MatchError(HavePrefix("decode digest: ")))
}

func TestExpiry(t *testing.T) {
	for name, tc := range map[string]struct {
		token string
		want  time.Time
	}{
		"a token":              {token: expiring(), want: then},
		"half a second":        {token: jwt(`{"exp":1893553445.5}`), want: then},
		"no claim":             {token: jwt(`{}`)},
		"a claim that is text": {token: jwt(`{"exp":"1893553445"}`)},
		"a negative claim":     {token: jwt(`{"exp":-1}`)},
		"a claim beyond all":   {token: jwt(`{"exp":1e300}`)},
		"no JSON":              {token: jwt("x")},
		"no base64":            {token: "a.!.c"},
		"two parts":            {token: "a.b"},
		"what was never one":   {token: "x"},
		"nothing":              {token: ""},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(digest.Expiry(tc.token)).To(Equal(tc.want)) })
	}
}

// A Secret with any contents can be stripped and read again.
func FuzzStrip(f *testing.F) {
	f.Add([]byte(expiring()), []byte(config("x")))
	f.Add([]byte("a.e30.c"), []byte("\xff\xfe: ["))
	f.Fuzz(func(t *testing.T, token, kubeconfig []byte) {
		secret := &corev1.Secret{Data: map[string][]byte{"token": token, "kubeconfig": kubeconfig}}
		stripped, err := digest.Strip(secret)
		if err != nil {
			t.Fatal(err)
		}
		kept, ok := stripped.(*corev1.Secret)
		if !ok || kept.Data != nil {
			t.Fatal("contents are kept")
		}
		if _, err := digest.Read(kept); err != nil {
			t.Fatal(err)
		}
		if expiry := digest.Expiry(string(token)); !expiry.IsZero() && expiry.Year() > 9999 {
			t.Fatalf("expiry %s cannot be written", expiry)
		}
	})
}
