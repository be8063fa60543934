package managedresource

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestMissingRightToReadTheClusterIDIsReportedWithItsRole(t *testing.T) {
	const prefix = "unable to determine cluster id: cannot determine cluster identity from configmap: "
	for name, tc := range map[string]struct {
		failure error
		want    string
	}{
		"a missing right": {
			apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "cluster-identity", errors.New("no role")),
			prefix + `configmaps "cluster-identity" is forbidden: no role; ` +
				"in the source, allow get on ConfigMap cluster-identity in namespace kube-system, for example with Role " +
				"espalier-managedresource-controller-cluster-identity",
		},
		"another failure": {errors.New("server is down"), prefix + "server is down"},
	} {
		t.Run(name, func(t *testing.T) {
			reader := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
					return tc.failure
				},
			}).Build()
			_, err := resolveClusterID(t.Context(), reader, "<cluster>")
			NewWithT(t).Expect(err).To(MatchError(tc.want))
		})
	}
}
