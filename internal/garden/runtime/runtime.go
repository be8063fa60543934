// Package runtime does the work that package install cannot do for the components of the runtime cluster: its preparation, the generic
// kubeconfig, the resource manager, the objects of extensions, the etcds of the virtual cluster, and the destruction of definitions and
// Secrets. Package virtual does the work for the rest of the virtual cluster.
//
// Tasks write only differences. If the process stops at any point, the next reconciliation runs the same tasks again.
package runtime

import (
	"context"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/etcddruid"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/install"
	"github.com/espalier-dev/espalier/internal/garden/takeover"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/rollout"
	"github.com/espalier-dev/espalier/internal/secrets/manager"
)

// Reasons of Events about Gardens.
const (
	// reasonDefinitionKept is a Warning Event about a Garden: a definition stays at the deletion, because objects of its kind exist.
	reasonDefinitionKept = "DefinitionKept"
	// reasonDefinitionNewer is a Warning Event about a Garden: a definition stays as it is, because another client has installed it, or
	// because it is newer than the definition of the operator.
	reasonDefinitionNewer = "DefinitionNewer"
	// reasonCredentialsKept is a Normal Event about a Garden: its deletion has copied keys and certificate authorities, which etcd volumes and
	// backups need.
	reasonCredentialsKept = "CredentialsKept"
	// reasonValiRemoved is a Warning Event about a Garden: with feature gate `RemoveVali`, the operator removes vali, and keeps its volume.
	reasonValiRemoved = "ValiRemoved"
)

// Platform is everything in the runtime cluster that the control plane of the virtual cluster runs on. A field is required unless its
// comment says otherwise. Nothing changes the fields while tasks run.
type Platform struct {
	// Cluster is the runtime cluster.
	Cluster rollout.Cluster
	// Secrets is the manager of secrets, which has already generated the certificate authorities.
	Secrets *manager.Manager
	// Values are the inputs from which the components are built. A deletion needs only values.OfAny.
	Values values.Values
	// Garden is the Garden as it was before the tasks run.
	Garden *operatorv1alpha1.Garden
	Clock  clock.PassiveClock
	// Installer deploys and destroys components of both planes. Only Steps needs it.
	Installer install.Installer
	// Timing changes durations for tests. The zero value stands for the defaults.
	Timing Timing
	// Recorder records Events about the Garden.
	Recorder events.EventRecorder
}

// Steps returns the work for rows that the Installer does not do: rows of the runtime plane, and the etcds.
func (p *Platform) Steps() map[string]install.Steps {
	etcds, extensions := etcdTasks{p}, extensionTasks{p}
	return map[string]install.Steps{
		components.GenericKubeconfig: {Deploy: p.generateKubeconfig},
		component.ETCDDefinitions:    {Destroy: etcds.destroyETCDDefinitions},
		component.HVPA:               {Deploy: p.removeHVPA, SkipsDestroy: "Reconciliations remove it already."},
		component.ResourceManager:    {Deploy: p.deployResourceManager, Destroy: p.destroyResourceManager},
		etcddruid.Component.Name:     {Destroy: etcds.destroyDruid},
		component.BackupBucket:       extensions.backupBucketSteps(),
		component.BackupEntry:        extensions.backupEntrySteps(),
		component.DNSRecords:         extensions.dnsSteps(),
		component.EarlyExtensions:    {Deploy: extensions.deployEarlyExtensions, Destroy: extensions.destroyExtensions},
		component.LateExtensions:     {Deploy: extensions.deployLateExtensions, Destroy: extensions.destroyEarlyDeleted},
		component.Etcds:              etcds.etcdSteps(),
		component.BasicAuthServer:    {Objects: p.passwords},
		component.Exposure:           {Objects: p.webUIs},
		component.Leftovers:          {Deploy: p.removeLeftovers, SkipsDeploy: takeover.SkipReason(p.Garden)},
		component.NoManagedResources: {Destroy: p.untilNoManagedResources},
		components.Secrets:           {Destroy: p.destroySecrets},
	}
}

// removeLeftovers removes the objects of a former garden that the user confirms.
func (p *Platform) removeLeftovers(ctx context.Context) error {
	return takeover.Remove(ctx, p.Cluster, takeover.Runtime, p.Values.Namespace, p.Garden, p.Installer.Limits.ManagedResources)
}

// ReportNewer sends an Event about a definition that is not replaced.
func (p *Platform) ReportNewer(cause error) {
	p.Recorder.Eventf(p.Garden, nil, "Warning", reasonDefinitionNewer, "Reconcile", "Left CustomResourceDefinition as it is: %s", cause)
}

// ReportKept sends an Event about a definition that stays at the deletion of the Garden.
func (p *Platform) ReportKept(cause error) {
	p.Recorder.Eventf(p.Garden, nil, "Warning", reasonDefinitionKept, "Delete", "Kept CustomResourceDefinition: %s", cause)
}
