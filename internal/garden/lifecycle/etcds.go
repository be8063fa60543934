package lifecycle

import (
	"context"
	"errors"
	"fmt"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/crds"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/component/etcddruid"
	"github.com/espalier-dev/espalier/internal/garden/component/shared"
	"github.com/espalier-dev/espalier/internal/garden/install"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/rollout"
)

var etcdKind = druidcorev1alpha1.SchemeGroupVersion.WithKind("Etcd")

// etcdRoles returns the etcds of the virtual cluster.
func etcdRoles() []etcd.Role { return []etcd.Role{etcd.Main, etcd.Events} }

// etcdSteps returns the work that deploys and destroys the etcds.
func (o *operation) etcdSteps() install.Steps {
	var deployed []*druidcorev1alpha1.Etcd // by the first task, for the second one
	return install.Steps{
		Deploy: func(ctx context.Context) error {
			for _, role := range etcdRoles() {
				each, err := o.deployEtcd(ctx, role)
				if err != nil {
					return err
				}
				deployed = append(deployed, each)
			}
			return nil
		},
		Await:   func(ctx context.Context) error { return o.untilReady(ctx, deployed...) },
		Destroy: o.destroyEtcds,
	}
}

// deployEtcd returns the Etcd that it has deployed.
func (o *operation) deployEtcd(ctx context.Context, role etcd.Role) (*druidcorev1alpha1.Etcd, error) {
	secrets, err := o.etcdSecrets(ctx, role)
	if err != nil {
		return nil, err
	}
	live, err := o.readEtcd(ctx, role)
	if err != nil {
		return nil, err
	}
	if live != nil {
		if problem := etcd.StorageProblem(o.values, role, live); problem != "" {
			return nil, errors.New(problem)
		}
		if live, err = o.rollOutPeerAuthority(ctx, role, live, secrets.PeerCA); err != nil {
			return nil, err
		}
	}
	wanted := etcd.Request(etcd.Object(o.values, role, secrets, live), live, o.Clock.Now())
	return wanted, o.cluster.DeployTyped(ctx, wanted, etcd.Autoscaler(o.values, role))
}

// rollOutPeerAuthority makes all members of a live Etcd trust the new certificate authority of peers, and waits for that, before one of
// them gets a certificate of it. It returns the Etcd as it is then. There is such an authority only while a rotation is in phase Preparing,
// and only with high availability.
func (o *operation) rollOutPeerAuthority(
	ctx context.Context, role etcd.Role, live *druidcorev1alpha1.Etcd, bundle string,
) (*druidcorev1alpha1.Etcd, error) {
	if o.values.Phases[rotation.CertificateAuthorities] != operatorv1alpha1.RotationPreparing || live.Spec.Etcd.PeerUrlTLS == nil {
		return live, nil
	}
	changed := etcd.WithPeerAuthority(live, bundle, o.Clock.Now())
	changed.SetGroupVersionKind(etcdKind)
	if err := o.cluster.DeployTyped(ctx, changed); err != nil {
		return nil, err
	}
	if err := o.untilReady(ctx, changed); err != nil {
		return nil, err
	}
	return o.readEtcd(ctx, role)
}

// readEtcd returns nil if there is no Etcd.
func (o *operation) readEtcd(ctx context.Context, role etcd.Role) (*druidcorev1alpha1.Etcd, error) {
	live := &druidcorev1alpha1.Etcd{}
	err := o.Client.Get(ctx, client.ObjectKey{Namespace: o.values.Namespace, Name: role.Name()}, live)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, fmt.Errorf("read Etcd %s: %w", role.Name(), err)
	}
	return live, nil
}

// etcdSecrets generates the certificates of an etcd, and returns the names of all its Secrets.
func (o *operation) etcdSecrets(ctx context.Context, role etcd.Role) (etcd.Secrets, error) {
	s, certificates := o.secrets.Collect(), etcd.ServerCertificates(o.values, role)
	names := etcd.Secrets{
		CA: s.Bundle(etcd.Authority).Name, Server: s.Generate(ctx, certificates.Server).Name,
		Client: s.Generate(ctx, etcd.ClientCertificate()).Name,
	}
	if certificates.Peer != nil {
		names.PeerCA, names.PeerServer = s.Bundle(etcd.PeerAuthority).Name, s.Generate(ctx, *certificates.Peer).Name
	}
	return names, s.Err()
}

// untilReady waits until Etcds that were deployed before are ready.
func (o *operation) untilReady(ctx context.Context, deployed ...*druidcorev1alpha1.Etcd) error {
	watched := rollout.Watched{Kind: etcdKind, Options: []client.ListOption{client.InNamespace(o.values.Namespace)}}
	timeout := o.Timing.defaulted().ETCDs
	return o.cluster.Until(ctx, timeout, func(ctx context.Context) error {
		for _, each := range deployed {
			live := &druidcorev1alpha1.Etcd{}
			if err := o.Client.Get(ctx, client.ObjectKeyFromObject(each), live); err != nil {
				return fmt.Errorf("read Etcd %s: %w", each.Name, err)
			}
			if problem := etcd.Problem(live, each); problem != "" {
				return fmt.Errorf("not ready (see kubectl -n %s describe etcd %s): %s", each.Namespace, each.Name, problem)
			}
		}
		return nil
	}, watched)
}

// destroyEtcds destroys the etcds with the data of the virtual cluster. etcd-druid must still run, because it ends their deletion.
func (o *operation) destroyEtcds(ctx context.Context) error {
	roles := etcdRoles()
	objects := make([]*unstructured.Unstructured, 0, 2*len(roles))
	for _, role := range roles {
		objects = append(objects,
			rollout.Identity(etcdKind, o.values.Namespace, role.Name()), rollout.Identity(shared.AutoscalerKind, o.values.Namespace, role.Name()),
		)
	}
	return o.cluster.Destroy(ctx, o.Timing.defaulted().ETCDs, objects...)
}

// destroyDruid fails as long as there are objects that etcd-druid has to delete.
func (o *operation) destroyDruid(ctx context.Context) error {
	if err := o.noEtcds(ctx, "etcd-druid"); err != nil {
		return err
	}
	return o.installer().Destroy(ctx, etcddruid.Component)
}

// destroyETCDDefinitions fails as long as there are objects of these kinds: they are the data of the virtual cluster.
func (o *operation) destroyETCDDefinitions(ctx context.Context) error {
	if err := o.noEtcds(ctx, "etcd CRDs"); err != nil {
		return err
	}
	return o.installer().DestroyDefinitions(ctx, crds.ETCDComponent)
}

// noEtcds fails if there are objects of etcd-druid in any namespace.
func (o *operation) noEtcds(ctx context.Context, what string) error {
	definitions, err := o.installer().Definitions(crds.ETCDComponent)
	if err != nil {
		return err
	}
	for _, each := range definitions {
		err := o.cluster.CheckUnused(ctx, each)
		if errors.Is(err, rollout.ErrInUse) {
			return fmt.Errorf("cannot delete %s because there are still objects: %w", what, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
