package virtual

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/espalier-dev/espalier/api/managedresources"
	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/component/gardener"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenerapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/judgement"
	"github.com/espalier-dev/espalier/internal/garden/identity"
	"github.com/espalier-dev/espalier/internal/gardenaccess"
	"github.com/espalier-dev/espalier/internal/rollout"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// gardenerAPIServer deploys gardener-apiserver.
type gardenerAPIServer struct{ rewriter }

// deploy deploys gardener-apiserver.
func (g gardenerAPIServer) deploy(ctx context.Context) error {
	g.installer.LogIgnored(ctx, gardenerapiserver.Component)
	found, err := g.find(ctx, gardenerapiserver.Names(g.values))
	if err != nil {
		return err
	}
	refs, err := gardenerapiserver.Resolve(g.values, found)
	if err != nil {
		return err
	}
	set, err := g.managedResource(ctx, gardenerapiserver.VirtualManagedResource)
	if err != nil {
		return err
	}
	if !gardenerapiserver.ServesAPIs(set) {
		// gardener-apiserver does not become ready without these rights.
		row := gardenerapiserver.Component
		if failure := g.installer.DeploySet(ctx, row, gardener.VirtualSet(row), gardenerapiserver.AccessObjects()); failure != nil {
			return failure
		}
	}
	return g.deployServer(ctx, gardenerServer(g.timing), func(r rewriter) deployment {
		of := gardenerAPIServer{r}
		return deployment{
			apply: func(ctx context.Context, key *corev1.Secret, live *appsv1.Deployment, plain []string) error {
				return of.apply(ctx, key, refs, live, plain)
			},
			await: of.untilApplied,
		}
	})
}

// untilApplied waits until all Pods have the objects of the last apply.
func (g gardenerAPIServer) untilApplied(ctx context.Context) error {
	if err := g.UntilManagedResourcesReady(
		ctx, g.timing.Gardener, judgement.RolledOut, g.values.Namespace, gardenerapiserver.RuntimeManagedResource,
	); err != nil {
		return err
	}
	return g.untilNoOldPods(ctx, gardenerServer(g.timing))
}

// apply deploys gardener-apiserver once. An annotation of the live Deployment shows whether its Pods know a new encryption key. The
// parameter plain contains the encrypted resources that these Pods still write as plain text.
func (g gardenerAPIServer) apply(
	ctx context.Context, key *corev1.Secret, refs apiserver.References, live *appsv1.Deployment, plain []string,
) error {
	s := g.secrets.Collect()
	in := gardenerapiserver.Input{
		Kubeconfig: s.Current(gardenaccess.GenericKubeconfig).Name, ETCDAuthority: s.Bundle(etcd.Authority).Name,
		ETCDClient:          s.Generate(ctx, etcd.ClientCertificate(g.values)).Name,
		Server:              s.Generate(ctx, gardenerapiserver.ServerCertificate(g.values)).Name,
		WorkloadIdentityKey: s.Generate(ctx, gardenerapiserver.WorkloadIdentityKey(g.values)).Name,
		EncryptionKey:       key.Name, PlainResources: plain, Live: live, References: refs,
	}
	err := s.Err()
	if err != nil {
		return err
	}
	if in.EncryptionKeys, err = g.encryptionKeys(ctx, gardenerapiserver.EncryptionKeyName, key, live); err != nil {
		return err
	}
	objects, err := gardenerapiserver.Objects(g.values, in)
	if err != nil {
		return err
	}
	return g.deployProgram(ctx, gardenerapiserver.Component, objects)
}

// register makes kube-apiserver pass requests for the API of Gardener on to gardener-apiserver. Before that, register waits until all Pods
// have a certificate of the current authority.
func (g gardenerAPIServer) register(ctx context.Context) error {
	if err := g.untilRolledOut(ctx); err != nil {
		return err
	}
	if err := g.releaseConfigurations(ctx, gardenerServer(g.timing)); err != nil {
		return err
	}
	address, err := g.address(ctx)
	if err != nil {
		return err
	}
	authority, err := g.secrets.Bundle(gardener.Authority)
	if err != nil {
		return err
	}
	bundle := authority.Data[secretconfig.DataKeyCertificateBundle]
	reported, err := g.version(ctx, bundle)
	if err != nil {
		log.FromContext(ctx).Info("Could not read the version of gardener-apiserver, using that of its image", "reason", err.Error())
	}
	info, err := gardenerapiserver.Info(g.values, reported, identity.GardenerVersion)
	if err != nil {
		return err
	}
	objects := gardenerapiserver.VirtualObjects(g.values, bundle, address)
	return g.deployVirtual(ctx, gardenerapiserver.Component, append(objects, info))
}

// address returns the address of the Service of gardener-apiserver in the runtime cluster. In a plan, the Service may not exist yet. Then
// the address is 0.0.0.0.
func (g gardenerAPIServer) address(ctx context.Context) (netip.Addr, error) {
	service, err := read(ctx, g.namespace, gardenerapiserver.Name, &corev1.Service{})
	switch {
	case err != nil:
		return netip.Addr{}, err
	case service == nil && g.Foresees: // gardener-resource-manager creates it during the reconciliation
		return netip.IPv4Unspecified(), nil
	case service == nil:
		return netip.Addr{}, fmt.Errorf("the Service %s/%s was deleted in the meantime", g.values.Namespace, gardenerapiserver.Name)
	}
	return gardenerapiserver.Address(service)
}

var errStatus = errors.New("the status of the answer is")

// maxVersion is the largest number of bytes that the operator reads of an answer with a version.
const maxVersion = 64 << 10

// version returns the version that gardener-apiserver reports. The parameter bundle contains the certificate authorities of
// gardener-apiserver. The operator connects to the Service, because kube-apiserver passes on only requests for the API of Gardener, and
// not requests for the version.
func (g gardenerAPIServer) version(ctx context.Context, bundle []byte) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	response, err := g.request(ctx, gardenerapiserver.VersionURL(g.values.Namespace), bundle)
	if err != nil {
		return "", fmt.Errorf("request version of gardener-apiserver: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("request version of gardener-apiserver: %w %q", errStatus, response.Status)
	}
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxVersion))
	if err != nil {
		return "", fmt.Errorf("read version of gardener-apiserver: %w", err)
	}
	return gardenerapiserver.ParseVersion(answer)
}

// untilRolledOut waits until the objects of the ManagedResource are applied and gardener-apiserver is rolled out. If the ManagedResource
// is healthy, untilRolledOut only checks for old Pods: a rotation must also wait for Pods of lost nodes, and the ManagedResource does not
// count such Pods. If the ManagedResource is not healthy yet, it is enough that checkRollout accepts the Deployment. For a first rollout,
// checkRollout succeeds earlier than the health check: as soon as all Pods are ready.
func (g gardenerAPIServer) untilRolledOut(ctx context.Context) error {
	const name = gardenerapiserver.RuntimeManagedResource
	watched := g.watchedRollout(gardenerapiserver.Name)
	watched = append(watched, rollout.WatchObject(rollout.Identity(rollout.ManagedResource, g.values.Namespace, name)))
	return g.Until(ctx, g.timing.Gardener, func(ctx context.Context) error {
		set, err := g.managedResource(ctx, name)
		if err != nil {
			return err
		}
		if set == nil {
			return fmt.Errorf("the ManagedResource %s/%s was deleted in the meantime", g.values.Namespace, name)
		}
		if err := managedresources.CheckApplied(set); err != nil {
			return fmt.Errorf("not ready (see kubectl -n %s describe managedresource %s): %w", g.values.Namespace, name, err)
		}
		if judgement.RolledOut(set) == nil {
			return g.checkOldPods(ctx, gardenerServer(g.timing))
		}
		return g.checkRollout(ctx, gardenerapiserver.Name)
	}, watched...)
}
