package webhook_test

import (
	"cmp"
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/admission/reviewtest"
	"github.com/espalier-dev/espalier/internal/project/webhook"
)

// namespaceDeletionCluster holds metadata by kind and name.
type namespaceDeletionCluster struct {
	client.Reader
	objects map[string]metav1.ObjectMeta
	err     error
}

func (c namespaceDeletionCluster) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	into, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return errors.New("more was asked for than is needed")
	}
	found, there := c.objects[into.Kind+"/"+key.Name]
	if c.err != nil || !there {
		return cmp.Or(c.err, error(apierrors.NewNotFound(schema.GroupResource{Resource: into.Kind}, key.Name)))
	}
	into.ObjectMeta = found
	return nil
}

// namespaceDeletionShoots is the answer to the question whether a namespace has a Shoot.
type namespaceDeletionShoots struct {
	any bool
	err error
}

func (s namespaceDeletionShoots) AnyShoot(context.Context, string) (bool, error) { return s.any, s.err }

func TestNamespaceDeletion(t *testing.T) {
	allowed := review.Response{Allowed: true, Code: 200}
	refused := func(message string) review.Response {
		return review.Response{Code: 403, Reason: "Forbidden", Message: message}
	}
	failed := func(message string) review.Response { return review.Response{Code: 500, Message: message} }
	ofProject := map[string]string{"project.gardener.cloud/name": "p"}
	now := metav1.Now()
	sent := func(more string) review.Request {
		return review.Request{
			Operation: review.Delete, Name: "garden-p",
			OldObject: []byte(`{"metadata":{"name":"garden-p","labels":{"project.gardener.cloud/name":"p"}` + more + `}}`),
		}
	}
	unsent := review.Request{Operation: review.Delete, Name: "garden-p"}
	alive := map[string]metav1.ObjectMeta{"Project/p": {Name: "p"}, "Namespace/garden-p": {Name: "garden-p", Labels: ofProject}}
	deleting := map[string]metav1.ObjectMeta{
		"Project/p": {Name: "p", DeletionTimestamp: &now}, "Namespace/garden-p": {Name: "garden-p", Labels: ofProject},
	}
	const (
		direct = `Namespace "garden-p" is forbidden: direct deletion of namespace "garden-p" is not permitted (you must delete the ` +
			`corresponding project "p")`
		inUse = `Namespace "garden-p" is forbidden: deletion of namespace "garden-p" is not permitted (it still contains Shoots)`
	)
	for name, tc := range map[string]struct {
		request review.Request
		cluster namespaceDeletionCluster
		shoots  namespaceDeletionShoots
		want    review.Response
	}{
		"the namespace is gone": {unsent, namespaceDeletionCluster{}, namespaceDeletionShoots{}, allowed},
		"it has no project": {
			review.Request{Operation: review.Delete, OldObject: []byte(`{"metadata":{"name":"garden-p"}}`)},
			namespaceDeletionCluster{objects: alive},
			namespaceDeletionShoots{any: true},
			allowed,
		},
		"the Project is gone": {sent(""), namespaceDeletionCluster{}, namespaceDeletionShoots{any: true}, allowed},
		"it is being deleted already": {
			sent(`,"deletionTimestamp":"2026-01-01T00:00:00Z"`),
			namespaceDeletionCluster{objects: alive},
			namespaceDeletionShoots{any: true},
			allowed,
		},
		"the Project is being deleted": {sent(""), namespaceDeletionCluster{objects: deleting}, namespaceDeletionShoots{}, allowed},
		"there are Shoots": {
			sent(""), namespaceDeletionCluster{objects: deleting}, namespaceDeletionShoots{any: true}, refused(inUse),
		},
		"the Project is not deleted": {sent(""), namespaceDeletionCluster{objects: alive}, namespaceDeletionShoots{}, refused(direct)},
		"nor is it if there are Shoots": {
			sent(""), namespaceDeletionCluster{objects: alive}, namespaceDeletionShoots{any: true}, refused(direct),
		},
		"read, the Project is not deleted": {unsent, namespaceDeletionCluster{objects: alive}, namespaceDeletionShoots{}, refused(direct)},
		"read, there are Shoots": {
			unsent, namespaceDeletionCluster{objects: deleting}, namespaceDeletionShoots{any: true}, refused(inUse),
		},
		"read, it is being deleted already": {
			unsent,
			namespaceDeletionCluster{
				objects: map[string]metav1.ObjectMeta{
					"Project/p": {Name: "p"}, "Namespace/garden-p": {Name: "garden-p", Labels: ofProject, DeletionTimestamp: &now},
				},
			},
			namespaceDeletionShoots{any: true},
			allowed,
		},
		"the namespace cannot be read": {
			unsent, namespaceDeletionCluster{err: errors.New("down")}, namespaceDeletionShoots{}, failed("get Namespace \"garden-p\": down"),
		},
		"the Project cannot be read": {
			sent(""), namespaceDeletionCluster{err: errors.New("down")}, namespaceDeletionShoots{}, failed("get Project \"p\": down"),
		},
		"Shoots cannot be listed": {
			sent(""),
			namespaceDeletionCluster{objects: deleting},
			namespaceDeletionShoots{err: errors.New("down")},
			failed(`look for Shoots in namespace "garden-p": down`),
		},
		"a namespace that cannot be read": {
			review.Request{Operation: review.Delete, OldObject: []byte(`[]`)},
			namespaceDeletionCluster{objects: alive},
			namespaceDeletionShoots{},
			failed("decode namespace: object: must not be a list"),
		},
		"an update": {
			review.Request{Operation: review.Update, OldObject: sent("").OldObject},
			namespaceDeletionCluster{objects: alive},
			namespaceDeletionShoots{},
			allowed,
		},
		"the finalizers": {
			review.Request{Operation: review.Delete, SubResource: "finalize", OldObject: sent("").OldObject},
			namespaceDeletionCluster{objects: alive},
			namespaceDeletionShoots{},
			allowed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			settings := webhook.Settings{Live: tc.cluster, AnyShoot: tc.shoots.AnyShoot}
			response, _ := reviewtest.Handle(t, handler("namespace-deletion", settings), &tc.request)
			NewWithT(t).Expect(response).To(BeComparableTo(tc.want))
		})
	}
}
