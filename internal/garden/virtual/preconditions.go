package virtual

import (
	"context"
	"errors"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/espalier-dev/espalier/internal/garden/component/judgement"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/kubecontrollermanager"
	"github.com/espalier-dev/espalier/internal/garden/skew"
	"github.com/espalier-dev/espalier/internal/garden/validation"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// CheckVersionSkew is the name of the check that the wanted version of Kubernetes may follow the current one.
const CheckVersionSkew = "kubernetes-version"

// checks check whether an operation may change the virtual cluster.
type checks struct {
	namespace
	values     values.Values
	connection *Connection
	// skipped are the names of checks that the user skips.
	skipped []string
	// confirmedLosses are the resources, each with its group, whose objects the user allows to be lost.
	confirmedLosses []string
}

// preconditions returns the contents of the objects that the Garden refers to. It fails if a change of the virtual cluster would leave
// kube-apiserver without something that it needs. The error names everything that is wrong.
func (c checks) preconditions(ctx context.Context) (kubeapiserver.References, error) {
	refs, err := c.readReferences(ctx)
	live, failure := c.deployment(ctx, kubeapiserver.Name)
	if failure != nil || live == nil {
		return refs, errors.Join(err, failure)
	}
	return refs, errors.Join(c.checkVersion(ctx, live), c.checkMoves(live), err)
}

// checkMoves fails if resources would move between the etcds without a confirmation of the user. The live kube-apiserver says in which etcd
// their objects are.
func (c checks) checkMoves(live *appsv1.Deployment) error {
	before, after := kubeapiserver.ResourcesInETCDEvents(live), c.values.KubeAPIServer.ResourcesToStoreInETCDEvents
	if problem := validation.UnconfirmedMoves(before, after, c.confirmedLosses); problem != "" {
		return field.Forbidden(field.NewPath("spec", "virtualCluster", "kubernetes", "kubeAPIServer", "resourcesToStoreInETCDEvents"), problem)
	}
	return nil
}

// readReferences reads the objects that the Garden refers to. It reads them live: they change seldom, and a cache of all Secrets would be
// large.
func (c checks) readReferences(ctx context.Context) (kubeapiserver.References, error) {
	found := kubeapiserver.Found{}
	var err error
	if found.Found, err = c.find(ctx, kubeapiserver.Names(c.values)); err != nil {
		return kubeapiserver.References{}, err
	}
	if c.values.WildcardCertificate != "" {
		if found.Wildcard, err = c.secret(ctx, c.values.WildcardCertificate); err != nil {
			return kubeapiserver.References{}, err
		}
	}
	return kubeapiserver.Resolve(c.values, found)
}

// checkVersion fails if the version of Kubernetes must not follow the version of the live kube-apiserver, or must not do so now.
func (c checks) checkVersion(ctx context.Context, live *appsv1.Deployment) error {
	current := skew.Kubernetes{APIServer: judgement.KubernetesVersion(live, kubeapiserver.Container)}
	if current.APIServer == nil || current.APIServer.EqualTo(c.values.Kubernetes) {
		return nil
	}
	var upgrade, err error
	if current.APIServer.Minor() < c.values.Kubernetes.Minor() {
		upgrade = c.checkUpgrade(ctx)
	}
	if c.skips(CheckVersionSkew) {
		return upgrade
	}
	if current.Unfinished, err = c.rolloutProblem(ctx, live); err != nil {
		return err
	}
	manager, err := c.deployment(ctx, kubecontrollermanager.Name)
	if err != nil {
		return err
	}
	if manager != nil {
		current.ControllerManager = judgement.KubernetesVersion(manager, kubecontrollermanager.Container)
	}
	return errors.Join(failed(CheckVersionSkew, skew.CheckKubernetes(current, c.values.Kubernetes)), upgrade)
}

func (c checks) skips(check string) bool { return slices.Contains(c.skipped, check) }
