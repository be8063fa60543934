package virtual

import (
	"context"
	"errors"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/judgement"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/kubecontrollermanager"
	"github.com/espalier-dev/espalier/internal/garden/skew"
	"github.com/espalier-dev/espalier/internal/garden/validation"
)

// CheckVersionSkew is the name of the check that the wanted version of Kubernetes may follow the current one.
const CheckVersionSkew = "kubernetes-version"

// checkPreconditions returns the contents of the objects that the Garden refers to. It fails if a change of the virtual cluster would leave
// kube-apiserver without something that it needs. The error names everything that is wrong.
func (c *ControlPlane) checkPreconditions(ctx context.Context) (kubeapiserver.References, error) {
	refs, err := c.readReferences(ctx)
	live, failure := c.readDeployment(ctx, kubeapiserver.Name)
	if failure != nil || live == nil {
		return refs, errors.Join(err, failure)
	}
	return refs, errors.Join(c.checkVersion(ctx, live), c.checkMoves(live), err)
}

// checkMoves fails if resources would move between the etcds without a confirmation of the user. The live kube-apiserver says in which etcd
// their objects are.
func (c *ControlPlane) checkMoves(live *appsv1.Deployment) error {
	before, after := kubeapiserver.ResourcesInETCDEvents(live), c.Values.KubeAPIServer.ResourcesToStoreInETCDEvents
	if problem := validation.UnconfirmedMoves(before, after, c.ConfirmedLosses); problem != "" {
		return field.Forbidden(field.NewPath("spec", "virtualCluster", "kubernetes", "kubeAPIServer", "resourcesToStoreInETCDEvents"), problem)
	}
	return nil
}

// readReferences reads the objects that the Garden refers to. It reads them live: they change seldom, and a cache of all Secrets would be
// large.
func (c *ControlPlane) readReferences(ctx context.Context) (kubeapiserver.References, error) {
	found := kubeapiserver.Found{}
	var err error
	if found.Found, err = c.find(ctx, kubeapiserver.Names(c.Values)); err != nil {
		return kubeapiserver.References{}, err
	}
	if c.Values.WildcardCertificate != "" {
		if found.Wildcard, err = c.readSecret(ctx, c.Values.WildcardCertificate); err != nil {
			return kubeapiserver.References{}, err
		}
	}
	return kubeapiserver.Resolve(c.Values, found)
}

// find reads the Secrets and ConfigMaps with these names. Objects that do not exist are nil.
func (c *ControlPlane) find(ctx context.Context, names apiserver.ObjectNames) (found apiserver.Found, err error) {
	found = apiserver.Found{Secrets: map[string]*corev1.Secret{}, ConfigMaps: map[string]*corev1.ConfigMap{}}
	for _, name := range names.Secrets {
		if found.Secrets[name], err = c.readSecret(ctx, name); err != nil {
			return found, err
		}
	}
	for _, name := range names.ConfigMaps {
		if found.ConfigMaps[name], err = read(ctx, c, name, &corev1.ConfigMap{}); err != nil {
			return found, err
		}
	}
	return found, nil
}

// checkVersion fails if the version of Kubernetes must not follow the version of the live kube-apiserver, or must not do so now.
func (c *ControlPlane) checkVersion(ctx context.Context, live *appsv1.Deployment) error {
	current := skew.Kubernetes{APIServer: judgement.KubernetesVersion(live, kubeapiserver.Container)}
	if current.APIServer == nil || current.APIServer.EqualTo(c.Values.Kubernetes) {
		return nil
	}
	var upgrade, err error
	if current.APIServer.Minor() < c.Values.Kubernetes.Minor() {
		upgrade = c.checkUpgrade(ctx)
	}
	if c.skips(CheckVersionSkew) {
		return upgrade
	}
	if current.Unfinished, err = c.rolloutProblem(ctx, live); err != nil {
		return err
	}
	manager, err := c.readDeployment(ctx, kubecontrollermanager.Name)
	if err != nil {
		return err
	}
	if manager != nil {
		current.ControllerManager = judgement.KubernetesVersion(manager, kubecontrollermanager.Container)
	}
	return errors.Join(skew.CheckKubernetes(current, c.Values.Kubernetes), upgrade)
}

func (c *ControlPlane) skips(check string) bool { return slices.Contains(c.SkippedChecks, check) }
