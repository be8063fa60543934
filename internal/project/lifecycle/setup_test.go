package lifecycle

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/project/index"
	"github.com/espalier-dev/espalier/internal/project/roles"
	"github.com/espalier-dev/espalier/internal/project/trigger"
)

func projectWithNamespace(change ...func(*corev1beta1.Project)) *corev1beta1.Project {
	p := alpha()
	p.Spec.Namespace = ptr.To("garden-alpha")
	for _, each := range change {
		each(p)
	}
	return p
}

func deleteProject(p *corev1beta1.Project) {
	p.DeletionTimestamp, p.Finalizers = ptr.To(metav1.Unix(1, 0)), []string{"gardener"}
}

// projects returns a cache with Projects.
func projects(t *testing.T, all ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	NewWithT(t).Expect(corev1beta1.AddToScheme(scheme)).To(Succeed())
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(all...)
	NewWithT(t).Expect(index.Add(t.Context(), indexer{builder})).To(Succeed())
	return builder.Build()
}

type indexer struct{ builder *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, o client.Object, field string, keys client.IndexerFunc) error {
	i.builder.WithIndex(o, field, keys)
	return nil
}

// asCached returns a RoleBinding as a cache has it.
func asCached(t *testing.T, version string, change ...func(*rbacv1.RoleBinding)) client.Object {
	t.Helper()
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{
		Namespace: "garden-alpha", Name: "b", ResourceVersion: version, CreationTimestamp: metav1.Unix(1, 0),
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "core.gardener.cloud/v1beta1", Kind: "Project", Name: "alpha", UID: "1", Controller: ptr.To(true)},
		},
	}}
	for _, each := range change {
		each(binding)
	}
	trimmed, err := roles.Trim(binding)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	cached, ok := trimmed.(client.Object)
	NewWithT(t).Expect(ok).To(BeTrue())
	return cached
}

func granting(b *rbacv1.RoleBinding) { b.Subjects = []rbacv1.Subject{{Kind: "User", Name: "mallory"}} }

func labelledRole(b *rbacv1.RoleBinding) {
	b.Labels = map[string]string{"gardener.cloud/role": "extension-project-role", "project.gardener.cloud/name": "alpha"}
}

func elsewhere(b *rbacv1.RoleBinding) { b.Namespace = "garden-beta" }

func TestDrift(t *testing.T) {
	type handlers = func(r *Reconciler, q process.Queue)
	update := func(before, after client.Object) handlers {
		return func(r *Reconciler, q process.Queue) {
			driftHandler(r).Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: after}, q)
		}
	}
	create := func(o client.Object, initial bool) handlers {
		return func(r *Reconciler, q process.Queue) {
			driftHandler(r).Create(t.Context(), event.CreateEvent{Object: o, IsInInitialList: initial}, q)
		}
	}
	for name, tc := range map[string]struct {
		project *corev1beta1.Project
		happens handlers
		want    int
	}{
		"a resync counts":              {happens: update(asCached(t, "1"), asCached(t, "1")), want: 1},
		"a subject was given the role": {happens: update(asCached(t, "1"), asCached(t, "2", granting)), want: 1},
		"labels do not count":          {happens: update(asCached(t, "1"), asCached(t, "2", labelledRole))},
		"nothing is restored for a Project that goes": {
			project: projectWithNamespace(deleteProject), happens: update(asCached(t, "1"), asCached(t, "2", granting)),
		},
		"an extension role without subjects appears":                 {happens: create(asCached(t, "1", labelledRole), false), want: 1},
		"it was there when the process started":                      {happens: create(asCached(t, "1", labelledRole), true)},
		"it is in another namespace, where no controller removes it": {happens: create(asCached(t, "1", labelledRole, elsewhere), false)},
		"a standard role appears, because we have created it":        {happens: create(asCached(t, "1"), false)},
		"an extension role appears, because we have created it": {
			happens: create(asCached(t, "1", labelledRole, func(b *rbacv1.RoleBinding) { b.Name = "wanted" }), false),
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := tc.project
			if p == nil {
				p = projectWithNamespace()
			}
			r := &Reconciler{Client: projects(t, p), Clock: clocktesting.NewFakePassiveClock(time.Unix(1, 0))}
			r.reconciled.recordExtensionRoles("alpha", []client.Object{
				asCached(t, "1", labelledRole, func(b *rbacv1.RoleBinding) { b.Name = "wanted" }),
			})
			q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer q.ShutDown()
			tc.happens(r, q)
			NewWithT(t).Expect(q.Len()).To(Equal(tc.want))
		})
	}
}

// Two Projects name the same namespace. The deletion of a Shoot in it enqueues only the Project that is being deleted.
func TestDeletedShootEnqueuesEveryProjectInDeletion(t *testing.T) {
	g := NewWithT(t)
	squatter := projectWithNamespace()
	squatter.Name, squatter.UID = "aaa", "2"
	r := &Reconciler{Client: projects(t, squatter, projectWithNamespace(deleteProject))}
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer q.ShutDown()
	g.Expect(r.shoots.Source().Start(t.Context(), q)).To(Succeed())
	r.ShootDeleted(t.Context(), "garden-beta")
	g.Expect(q.Len()).To(BeZero())
	r.ShootDeleted(t.Context(), "garden-alpha")
	g.Expect(q.Len()).To(Equal(1))
	woken, _ := q.Get()
	g.Expect(woken).To(Equal(trigger.Request("alpha")))
}

func TestNamespaceEventsEnqueueOnlyTheirProjects(t *testing.T) {
	const uid = "namespace.gardener.cloud/project"
	meta := func(o *metav1.ObjectMeta) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: *o}
	}
	unlabelled := meta(&metav1.ObjectMeta{Name: "garden-alpha"})
	labelled := meta(namespace(without(uid), orphaned))
	taken := meta(namespace(annotated(uid, "2"), orphaned))
	own := meta(namespace())
	type happening = func(handler.TypedEventHandler[*metav1.PartialObjectMetadata, reconcile.Request], process.Queue)
	update := func(before, after *metav1.PartialObjectMetadata) happening {
		return func(h handler.TypedEventHandler[*metav1.PartialObjectMetadata, reconcile.Request], q process.Queue) {
			h.Update(t.Context(), event.TypedUpdateEvent[*metav1.PartialObjectMetadata]{ObjectOld: before, ObjectNew: after}, q)
		}
	}
	create := func(o *metav1.PartialObjectMetadata, initial bool) happening {
		return func(h handler.TypedEventHandler[*metav1.PartialObjectMetadata, reconcile.Request], q process.Queue) {
			h.Create(t.Context(), event.TypedCreateEvent[*metav1.PartialObjectMetadata]{Object: o, IsInInitialList: initial}, q)
		}
	}
	remove := func(o *metav1.PartialObjectMetadata) happening {
		return func(h handler.TypedEventHandler[*metav1.PartialObjectMetadata, reconcile.Request], q process.Queue) {
			h.Delete(t.Context(), event.TypedDeleteEvent[*metav1.PartialObjectMetadata]{Object: o}, q)
		}
	}
	for name, tc := range map[string]struct {
		project *corev1beta1.Project
		happens happening
		want    int
	}{
		"the namespace gets the labels":               {happens: update(unlabelled, labelled), want: 1},
		"it is no longer that of another Project":     {happens: update(taken, labelled), want: 1},
		"it is still that of another Project":         {happens: update(unlabelled, taken)},
		"it had the labels before":                    {happens: update(labelled, labelled)},
		"the Project owns it, and gave it the labels": {happens: update(unlabelled, own)},
		"the Project is being deleted": {
			project: projectWithNamespace(deleteProject), happens: update(unlabelled, labelled),
		},
		"the Project has another namespace": {
			project: projectWithNamespace(func(p *corev1beta1.Project) { *p.Spec.Namespace = "garden-b" }),
			happens: update(unlabelled, labelled),
		},
		"the namespace appears with the labels":              {happens: create(labelled, false), want: 1},
		"it was there when the process started":              {happens: create(labelled, true)},
		"a namespace without labels appears":                 {happens: create(unlabelled, false)},
		"the namespace that the Project could not have ends": {happens: remove(taken), want: 1},
		"its own namespace ends":                             {happens: remove(own), want: 1},
		"another namespace ends":                             {happens: remove(meta(&metav1.ObjectMeta{Name: "garden-b"}))},
	} {
		t.Run(name, func(t *testing.T) {
			p := tc.project
			if p == nil {
				p = projectWithNamespace()
			}
			r := &Reconciler{Client: projects(t, p)}
			q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer q.ShutDown()
			tc.happens(r.namespaces(), q)
			NewWithT(t).Expect(q.Len()).To(Equal(tc.want))
		})
	}
}
