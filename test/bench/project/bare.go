package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/project/roles"
)

// workers is how many Projects the controller reconciles concurrently by default, and the bare client too.
const workers = 5

// scope defines what a bare client writes.
type scope bool

const (
	objectsOnly  scope = false // namespaces, roles and bindings
	withProjects scope = true  // the finalizer and the phases of Projects too
)

// floor is the result of a bare client on a new control plane.
type floor struct {
	took  time.Duration
	spent spent
}

func (b *bench) floor(ctx context.Context, name string, scope scope) (f floor, err error) {
	g, err := b.newGarden(ctx, "floor-"+name)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, g.close()) }()
	c, err := g.asController()
	if err != nil {
		return f, err
	}
	before, err := g.spent(os.Getpid())
	if err != nil {
		return f, err
	}
	written := make(chan error, 1)
	go func() { written <- b.profileServer(ctx, g, "floor-"+name+"-server.pprof") }()
	begin := clock.RealClock{}.Now()
	err = parallel(ctx, len(g.projects), workers, func(ctx context.Context, i int) error { return bare(ctx, c, g.projects[i], scope) })
	if err != nil {
		return f, err
	}
	f.took = clock.RealClock{}.Since(begin)
	after, err := g.spent(os.Getpid())
	f.spent = after.since(before)
	fmt.Printf("bare client, %s: %s; processor time: %s\n", name, seconds(f.took), f.spent)
	return f, errors.Join(err, <-written)
}

// bare does for one Project what the controller does.
func bare(ctx context.Context, c client.Client, p *corev1beta1.Project, scope scope) error {
	if scope == withProjects {
		if err := c.Patch(ctx, p, merge(`{"metadata":{"finalizers":["gardener"]}}`)); err != nil {
			return err
		}
		if err := c.Status().Patch(ctx, p, merge(`{"status":{"phase":"Pending","observedGeneration":1}}`)); err != nil {
			return err
		}
	}
	name := ptr.Deref(p.Spec.Namespace, "garden-"+p.Name+"-12345")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:        name,
		Labels:      map[string]string{"gardener.cloud/role": "project", "project.gardener.cloud/name": p.Name},
		Annotations: map[string]string{"namespace.gardener.cloud/project": string(p.UID), "namespace.gardener.cloud/created-by-project-controller": "true"},
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "core.gardener.cloud/v1beta1", Kind: "Project", Name: p.Name, UID: p.UID, Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true)},
		},
	}}
	if err := c.Create(ctx, namespace); err != nil {
		return err
	}
	if scope == withProjects && p.Spec.Namespace == nil {
		if err := c.Patch(ctx, p, merge(fmt.Sprintf(`{"spec":{"namespace":%q}}`, name))); err != nil {
			return err
		}
	}
	objects, refused := roles.Desired(p, p.Spec.Members, name)
	group, all := errgroup.WithContext(ctx)
	for _, each := range objects {
		group.Go(func() error { return c.Create(all, each) })
	}
	if err := errors.Join(append(refused, group.Wait())...); err != nil {
		return err
	}
	if scope == withProjects {
		return c.Status().Patch(ctx, p, merge(`{"status":{"phase":"Ready","observedGeneration":1}}`))
	}
	return nil
}

func merge(patch string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(patch)) }
