package runtime

import (
	"context"
	"errors"
	"fmt"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/crds"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/component/etcddruid"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/install"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/rollout"
)

var etcdKind = druidcorev1alpha1.SchemeGroupVersion.WithKind("Etcd")

// etcdRoles returns the etcds of the virtual cluster.
func etcdRoles() []etcd.Role { return []etcd.Role{etcd.Main, etcd.Events} }

// etcdTasks do the work for the rows of the etcds, of etcd-druid and of its definitions.
type etcdTasks struct{ *Platform }

// etcdSteps returns the work that deploys and destroys the etcds.
func (p etcdTasks) etcdSteps() install.Steps {
	var deployed []*druidcorev1alpha1.Etcd // by the first task, for the second one
	return install.Steps{
		Deploy: func(ctx context.Context) error {
			for _, role := range etcdRoles() {
				each, err := p.deployEtcd(ctx, role)
				if err != nil {
					return err
				}
				deployed = append(deployed, each)
			}
			return nil
		},
		Await:   func(ctx context.Context) error { return p.untilReady(ctx, deployed...) },
		Destroy: p.destroyEtcds,
	}
}

// deployEtcd returns the Etcd that it has deployed.
func (p etcdTasks) deployEtcd(ctx context.Context, role etcd.Role) (*druidcorev1alpha1.Etcd, error) {
	secrets, err := p.etcdSecrets(ctx, role)
	if err != nil {
		return nil, err
	}
	live, err := p.readEtcd(ctx, role)
	if err != nil {
		return nil, err
	}
	if role == etcd.Main {
		if secrets.Backup, err = extensionTasks(p).backupSecret(ctx); err != nil {
			return nil, err
		}
	}
	if live != nil {
		if problem := etcd.StorageProblem(p.Values, role, live); problem != "" {
			return nil, errors.New(problem)
		}
		if live, err = p.rollOutPeerAuthority(ctx, role, live, secrets.PeerCA); err != nil {
			return nil, err
		}
	}
	wanted := etcd.Request(etcd.Object(p.Values, role, secrets, live), live, p.Clock.Now())
	autoscaler := &unstructured.Unstructured{}
	autoscaler.SetGroupVersionKind(object.AutoscalerKind)
	if autoscaler, err = rollout.Find(ctx, p.Cluster.Client, p.Values.Namespace, role.Name(), autoscaler); err != nil {
		return nil, err
	}
	return wanted, p.Cluster.DeployTyped(ctx, wanted, etcd.Autoscaler(p.Values, role, autoscaler))
}

// rollOutPeerAuthority makes all members of a live Etcd trust the new certificate authority of peers, and waits until they trust it. Only
// then may a member get a certificate that the new authority has signed. It returns the Etcd after this change. Bundle is the name of the
// Secret with the new bundle of the authority. Only a rotation in phase Preparing creates a new authority, and only with high
// availability. Otherwise, rollOutPeerAuthority returns the Etcd unchanged.
func (p etcdTasks) rollOutPeerAuthority(
	ctx context.Context, role etcd.Role, live *druidcorev1alpha1.Etcd, bundle string,
) (*druidcorev1alpha1.Etcd, error) {
	if p.Values.Phases[rotation.CertificateAuthorities] != operatorv1alpha1.RotationPreparing || live.Spec.Etcd.PeerUrlTLS == nil {
		return live, nil
	}
	changed := etcd.WithPeerAuthority(live, bundle, p.Clock.Now())
	changed.SetGroupVersionKind(etcdKind)
	if err := p.Cluster.DeployTyped(ctx, changed); err != nil {
		return nil, err
	}
	if err := p.untilReady(ctx, changed); err != nil {
		return nil, err
	}
	return p.readEtcd(ctx, role)
}

// readEtcd returns nil if the Etcd does not exist. It returns an error if the API server does not serve Etcds, so that no task concludes
// that the etcd has no data.
func (p etcdTasks) readEtcd(ctx context.Context, role etcd.Role) (*druidcorev1alpha1.Etcd, error) {
	return rollout.FindServed(ctx, p.Cluster.Client, p.Values.Namespace, role.Name(), &druidcorev1alpha1.Etcd{})
}

// etcdSecrets generates the certificates of an etcd, and returns the names of all its Secrets.
func (p etcdTasks) etcdSecrets(ctx context.Context, role etcd.Role) (etcd.Secrets, error) {
	s, certificates := p.Secrets.Collect(), etcd.ServerCertificates(p.Values, role)
	names := etcd.Secrets{
		CA: s.Bundle(etcd.Authority).Name, Server: s.Generate(ctx, certificates.Server).Name,
		Client: s.Generate(ctx, etcd.ClientCertificate(p.Values)).Name,
	}
	if certificates.Peer != nil {
		names.PeerCA, names.PeerServer = s.Bundle(etcd.PeerAuthority).Name, s.Generate(ctx, *certificates.Peer).Name
	}
	return names, s.Err()
}

// untilReady waits until Etcds that were deployed before are ready.
func (p etcdTasks) untilReady(ctx context.Context, deployed ...*druidcorev1alpha1.Etcd) error {
	watched := rollout.Watched{Kind: etcdKind, Options: []client.ListOption{client.InNamespace(p.Values.Namespace)}}
	timeout := p.Timing.defaulted().ETCDs
	return p.Cluster.Until(ctx, timeout, func(ctx context.Context) error {
		for _, each := range deployed {
			live := &druidcorev1alpha1.Etcd{}
			if err := p.Cluster.Client.Get(ctx, client.ObjectKeyFromObject(each), live); err != nil {
				return fmt.Errorf("read Etcd %s: %w", each.Name, err)
			}
			if problem := etcd.Problem(live, each); problem != "" {
				return fmt.Errorf("not ready (see kubectl -n %s describe etcd %s): %s", each.Namespace, each.Name, problem)
			}
		}
		return nil
	}, watched)
}

// destroyEtcds destroys the etcds with the data of the virtual cluster. etcd-druid must still run, because it completes their deletion.
func (p etcdTasks) destroyEtcds(ctx context.Context) error {
	roles := etcdRoles()
	objects := make([]*unstructured.Unstructured, 0, 2*len(roles))
	for _, role := range roles {
		objects = append(objects,
			rollout.Identity(etcdKind, p.Values.Namespace, role.Name()), rollout.Identity(object.AutoscalerKind, p.Values.Namespace, role.Name()),
		)
	}
	return p.Cluster.Destroy(ctx, p.Timing.defaulted().ETCDs, objects...)
}

// destroyDruid destroys etcd-druid. It fails as long as there are objects that etcd-druid has to delete.
func (p etcdTasks) destroyDruid(ctx context.Context) error {
	if err := p.noEtcds(ctx, "etcd-druid"); err != nil {
		return err
	}
	return p.Installer.Destroy(ctx, etcddruid.Component)
}

// destroyETCDDefinitions destroys the definitions for etcd-druid. It fails as long as objects of these kinds exist in any namespace,
// because such objects stand for the data of the virtual cluster.
func (p etcdTasks) destroyETCDDefinitions(ctx context.Context) error {
	if err := p.noEtcds(ctx, "etcd CRDs"); err != nil {
		return err
	}
	return p.Installer.DestroyDefinitions(ctx, crds.ETCDComponent)
}

// noEtcds fails if there are objects of etcd-druid in any namespace.
func (p etcdTasks) noEtcds(ctx context.Context, what string) error {
	definitions, err := p.Installer.Definitions(crds.ETCDComponent)
	if err != nil {
		return err
	}
	for _, each := range definitions {
		err := p.Cluster.CheckUnused(ctx, each)
		if errors.Is(err, rollout.ErrInUse) {
			return fmt.Errorf("cannot delete %s because there are still objects: %w", what, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ReplaceTexts replaces texts in the Etcds, and in the Deployments and ManagedResources that the operator created. Each key of the map is
// a text that is replaced, and its value is the new text.
func (p *Platform) ReplaceTexts(ctx context.Context, replaced map[string]string) error {
	for _, role := range etcdRoles() {
		if err := (etcdTasks{p}).replaceInEtcd(ctx, role, replaced); err != nil {
			return err
		}
	}
	return p.Cluster.ReplaceTexts(ctx, p.Values.Namespace, replaced)
}

// replaceInEtcd replaces texts in the specification of an Etcd, and makes etcd-druid act on that.
func (p etcdTasks) replaceInEtcd(ctx context.Context, role etcd.Role, replaced map[string]string) error {
	live, err := p.readEtcd(ctx, role)
	if err != nil || live == nil {
		return err
	}
	live.SetGroupVersionKind(etcdKind)
	untyped, err := rollout.Unstructured(live)
	if err != nil {
		return err
	}
	changed := &druidcorev1alpha1.Etcd{}
	err = runtime.DefaultUnstructuredConverter.FromUnstructured(rollout.WithTexts(untyped[0], replaced).Object, changed)
	if err != nil {
		return fmt.Errorf("convert Etcd %s: %w", live.Name, err)
	}
	if equality.Semantic.DeepEqual(changed.Spec, live.Spec) {
		return nil
	}
	return p.Cluster.DeployTyped(ctx, etcd.Request(changed, live, p.Clock.Now()))
}
