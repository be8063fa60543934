package process

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func identity(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cluster-identity"}, Data: data}
}

func TestClusterIDIsResolved(t *testing.T) {
	const prefix = "unable to determine cluster id: cannot determine cluster identity from configmap: "
	down := interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return errors.New("server is down")
	}}
	for name, tc := range map[string]struct {
		value   string
		objects []client.Object
		funcs   interceptor.Funcs
		want    string
		err     string
	}{
		"nothing asked for":         {value: "", want: ""},
		"a literal":                 {value: "my-landscape", want: "my-landscape"},
		"a literal needs no server": {value: "my-landscape", funcs: down, want: "my-landscape"},
		"<cluster> with ConfigMap": {
			value: "<cluster>", objects: []client.Object{identity(map[string]string{"cluster-identity": "seed-1"})}, want: "seed-1",
		},
		"<default> with ConfigMap": {
			value: "<default>", objects: []client.Object{identity(map[string]string{"cluster-identity": "seed-1"})}, want: "seed-1",
		},
		"<cluster> without ConfigMap": {value: "<cluster>", err: prefix + `configmaps "cluster-identity" not found`},
		"<default> without ConfigMap": {value: "<default>", want: ""},
		"<cluster> without the entry": {
			value: "<cluster>", objects: []client.Object{identity(nil)}, err: prefix + "no cluster-identity entry",
		},
		"<cluster> with an empty entry": {
			value: "<cluster>", objects: []client.Object{identity(map[string]string{"cluster-identity": ""})},
			err: prefix + "no cluster-identity entry",
		},
		"<default> without the entry":        {value: "<default>", objects: []client.Object{identity(nil)}, want: ""},
		"<cluster> while the server is down": {value: "<cluster>", funcs: down, err: prefix + "server is down"},
		"<default> while the server is down": {value: "<default>", funcs: down, err: prefix + "server is down"},
		"a literal with a colon":             {value: "a:b", err: `unable to determine cluster id: "a:b" must not contain ':' or '/'`},
		"a literal with a slash":             {value: "a/b", err: `unable to determine cluster id: "a/b" must not contain ':' or '/'`},
		"an identity that origins cannot hold": {
			value: "<cluster>", objects: []client.Object{identity(map[string]string{"cluster-identity": "a/b"})},
			err: `unable to determine cluster id: "a/b" must not contain ':' or '/'`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			reader := fake.NewClientBuilder().WithObjects(tc.objects...).WithInterceptorFuncs(tc.funcs).Build()
			id, err := ResolveClusterID(t.Context(), reader, tc.value)
			g.Expect(id).To(Equal(tc.want))
			if tc.err == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(tc.err))
			}
		})
	}
}
