package rollout

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestFindReturnsNilWithoutAnObject(t *testing.T) {
	failing, notServed := errors.New("no answer"), &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "Secret"}}
	for sentence, tc := range map[string]struct {
		answer, want, wantServed error
		found                    bool
	}{
		"the object exists":              {found: true},
		"the object does not exist":      {answer: apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, "a")},
		"its kind is not served":         {answer: notServed, wantServed: notServed},
		"the API server does not answer": {answer: failing, want: failing, wantServed: failing},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			c := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{Get: func(
				_ context.Context, _ client.WithWatch, key client.ObjectKey, o client.Object, _ ...client.GetOption,
			) error {
				o.SetName(key.Name)
				return tc.answer
			}})
			check := func(secret *corev1.Secret, err, want error) {
				if want != nil {
					g.Expect(err).To(MatchError(want))
					g.Expect(err).To(MatchError(HavePrefix("read *v1.Secret garden/a: ")))
				} else {
					g.Expect(err).NotTo(HaveOccurred())
				}
				g.Expect(secret != nil).To(Equal(tc.found))
				if tc.found {
					g.Expect(secret.Name).To(Equal("a"))
				}
			}
			secret, err := Find(t.Context(), c, "garden", "a", &corev1.Secret{})
			check(secret, err, tc.want)
			secret, err = FindServed(t.Context(), c, "garden", "a", &corev1.Secret{})
			check(secret, err, tc.wantServed)
		})
	}
}
