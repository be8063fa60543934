package namespacedeletion_test

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
	"github.com/espalier-dev/espalier/internal/project/webhook/namespacedeletion"
)

// cluster holds metadata by kind and name.
type cluster struct {
	client.Reader
	objects map[string]metav1.ObjectMeta
	err     error
}

func (c cluster) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
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

// shoots is whether there are any.
type shoots struct {
	any bool
	err error
}

func (s shoots) AnyShoot(context.Context, string) (bool, error) { return s.any, s.err }

func TestHandle(t *testing.T) {
	allowed := review.Response{Allowed: true, Code: 200}
	refused := func(message string) review.Response {
		return review.Response{Code: 403, Reason: "Forbidden", Message: message}
	}
	failed := func(message string) review.Response { return review.Response{Code: 500, Message: message} }
	ofProject := map[string]string{"project.gardener.cloud/name": "p"}
	now := metav1.Now()
	sent := func(more string) review.Request {
		return review.Request{Operation: review.Delete, Name: "garden-p", OldObject: []byte(`{"metadata":{"name":"garden-p","labels":{"project.gardener.cloud/name":"p"}` + more + `}}`)}
	}
	unsent := review.Request{Operation: review.Delete, Name: "garden-p"}
	alive := map[string]metav1.ObjectMeta{"Project/p": {Name: "p"}, "Namespace/garden-p": {Name: "garden-p", Labels: ofProject}}
	deleting := map[string]metav1.ObjectMeta{"Project/p": {Name: "p", DeletionTimestamp: &now}, "Namespace/garden-p": {Name: "garden-p", Labels: ofProject}}
	const (
		direct = `Namespace "garden-p" is forbidden: direct deletion of namespace "garden-p" is not permitted (you must delete the corresponding project "p")`
		inUse  = `Namespace "garden-p" is forbidden: deletion of namespace "garden-p" is not permitted (it still contains Shoots)`
	)
	for name, tc := range map[string]struct {
		request review.Request
		cluster cluster
		shoots  shoots
		want    review.Response
	}{
		"the namespace is gone":             {unsent, cluster{}, shoots{}, allowed},
		"it is nobody's":                    {review.Request{Operation: review.Delete, OldObject: []byte(`{"metadata":{"name":"garden-p"}}`)}, cluster{objects: alive}, shoots{any: true}, allowed},
		"the Project is gone":               {sent(""), cluster{}, shoots{any: true}, allowed},
		"it is being deleted already":       {sent(`,"deletionTimestamp":"2026-01-01T00:00:00Z"`), cluster{objects: alive}, shoots{any: true}, allowed},
		"the Project is being deleted":      {sent(""), cluster{objects: deleting}, shoots{}, allowed},
		"there are Shoots":                  {sent(""), cluster{objects: deleting}, shoots{any: true}, refused(inUse)},
		"the Project is not deleted":        {sent(""), cluster{objects: alive}, shoots{}, refused(direct)},
		"nor is it if there are Shoots":     {sent(""), cluster{objects: alive}, shoots{any: true}, refused(direct)},
		"read, the Project is not deleted":  {unsent, cluster{objects: alive}, shoots{}, refused(direct)},
		"read, there are Shoots":            {unsent, cluster{objects: deleting}, shoots{any: true}, refused(inUse)},
		"read, it is being deleted already": {unsent, cluster{objects: map[string]metav1.ObjectMeta{"Project/p": {Name: "p"}, "Namespace/garden-p": {Name: "garden-p", Labels: ofProject, DeletionTimestamp: &now}}}, shoots{any: true}, allowed},
		"nobody can tell of the namespace":  {unsent, cluster{err: errors.New("down")}, shoots{}, failed("get Namespace \"garden-p\": down")},
		"nobody can tell of the Project":    {sent(""), cluster{err: errors.New("down")}, shoots{}, failed("get Project \"p\": down")},
		"nobody can tell of Shoots":         {sent(""), cluster{objects: deleting}, shoots{err: errors.New("down")}, failed(`look for Shoots in namespace "garden-p": down`)},
		"a namespace that cannot be read":   {review.Request{Operation: review.Delete, OldObject: []byte(`[]`)}, cluster{objects: alive}, shoots{}, failed("decode namespace: object: must not be a list")},
		"an update":                         {review.Request{Operation: review.Update, OldObject: sent("").OldObject}, cluster{objects: alive}, shoots{}, allowed},
		"the finalizers":                    {review.Request{Operation: review.Delete, SubResource: "finalize", OldObject: sent("").OldObject}, cluster{objects: alive}, shoots{}, allowed},
	} {
		t.Run(name, func(t *testing.T) {
			response, _ := reviewtest.Handle(t, &namespacedeletion.Handler{Live: tc.cluster, Shoots: tc.shoots}, &tc.request)
			NewWithT(t).Expect(response).To(BeComparableTo(tc.want))
		})
	}
}
