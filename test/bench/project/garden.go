package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/test/bench/gauge"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

const (
	binaryName = "project-controller"
	ownSpace   = "espalier-system"
	// patience is how long a step may take.
	patience = 10 * time.Minute
	// filling is how many objects are created concurrently before the measurement.
	filling = 32
)

// policy makes the audit log contain only the requests of the controller or the bare client.
const policy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- {level: Metadata, users: ["system:serviceaccount:espalier-system:project-controller"]}
- {level: None}
`

// garden is a separate control plane with the Projects.
type garden struct {
	plane *local.ControlPlane
	admin client.Client
	// kubeconfig is that of the controller's ServiceAccount.
	kubeconfig []byte
	projects   []*corev1beta1.Project
}

// newGarden starts a control plane and creates the Projects.
func (b *bench) newGarden(ctx context.Context, name string) (*garden, error) {
	plane, err := local.Start(ctx, local.Options{Dir: filepath.Join(b.dir, name), Assets: b.assets, AuditPolicy: []byte(policy)})
	if err != nil {
		return nil, err
	}
	g := &garden{plane: plane}
	if err := g.fill(ctx, b.options); err != nil {
		return nil, errors.Join(err, g.close())
	}
	return g, nil
}

// spent is the processor time of each part of the control plane, and of the writer.
type spent struct{ apiServer, etcd, writer time.Duration }

// spent reads it. The writer is given by its process id.
func (g *garden) spent(writer int) (s spent, err error) {
	parts := g.plane.PIDs()
	for id, into := range map[int]*time.Duration{parts["kube-apiserver"]: &s.apiServer, parts["etcd"]: &s.etcd, writer: &s.writer} {
		if *into, err = gauge.Processor(id); err != nil {
			return s, err
		}
	}
	return s, nil
}

// since returns the difference to an earlier time.
func (s spent) since(before spent) spent {
	return spent{apiServer: s.apiServer - before.apiServer, etcd: s.etcd - before.etcd, writer: s.writer - before.writer}
}

// String implements fmt.Stringer.
func (s spent) String() string {
	return fmt.Sprintf("API server %s, etcd %s, writer %s", seconds(s.apiServer), seconds(s.etcd), seconds(s.writer))
}

// close stops the control plane and removes its data.
func (g *garden) close() error { return g.plane.Stop() }

func (g *garden) fill(ctx context.Context, o options) error {
	cfg := g.plane.AdminConfig()
	cfg.QPS = -1
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	if g.admin, err = client.New(cfg, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	if _, err = binary.Install(ctx, g.admin, "deploy/project-controller/crds/*.yaml"); err != nil {
		return err
	}
	for _, list := range []client.ObjectList{&corev1beta1.ProjectList{}, &corev1beta1.ShootList{}} {
		err = gauge.Await(ctx, patience, "the CRDs to be served", func() (bool, error) { return g.admin.List(ctx, list) == nil, nil })
		if err != nil {
			return err
		}
	}
	err = g.admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ownSpace}})
	if err != nil {
		return err
	}
	if g.kubeconfig, err = binary.Identity(ctx, g.admin, cfg, binaryName, ownSpace, binary.Source); err != nil {
		return err
	}
	g.projects = make([]*corev1beta1.Project, o.projects)
	return parallel(ctx, o.projects, filling, func(ctx context.Context, i int) error {
		g.projects[i] = newProject(i, o.generated)
		return g.admin.Create(ctx, g.projects[i])
	})
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(clientgoscheme.AddToScheme(scheme), corev1beta1.AddToScheme(scheme))
}

// asController returns a client with the controller's rights.
func (g *garden) asController() (client.Client, error) {
	cfg, err := clientcmd.RESTConfigFromKubeConfig(g.kubeconfig)
	if err != nil {
		return nil, err
	}
	cfg.QPS = -1
	return client.New(cfg, client.Options{Scheme: g.admin.Scheme()})
}

func newProject(i int, generated bool) *corev1beta1.Project {
	user := func(name string) rbacv1.Subject {
		return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: fmt.Sprintf("%s-%05d@example.org", name, i)}
	}
	owner := user("owner")
	p := &corev1beta1.Project{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p-%05d", i)},
		Spec: corev1beta1.ProjectSpec{
			CreatedBy: &owner, Owner: &owner, Namespace: ptr.To(namespaceOf(i)),
			Description: ptr.To("A project that the benchmark has created"),
			Members: []corev1beta1.ProjectMember{
				{Subject: owner, Role: "admin", Roles: []string{"owner"}},
				{Subject: user("admin"), Role: "admin", Roles: []string{"uam"}},
				{Subject: rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: fmt.Sprintf("team-%05d", i)}, Role: "viewer"},
				{Subject: rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: "robot", Namespace: namespaceOf(i)}, Role: "serviceaccountmanager"},
			},
		},
	}
	if generated {
		p.Spec.Namespace = nil
	}
	return p
}

func namespaceOf(i int) string { return fmt.Sprintf("garden-p-%05d", i) }

func parallel(ctx context.Context, n, inFlight int, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(inFlight)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}
