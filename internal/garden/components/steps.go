package components

import (
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/gardeneradmission"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenercontrollermanager"
	"github.com/espalier-dev/espalier/internal/garden/component/globalmonitoring"
	"github.com/espalier-dev/espalier/internal/garden/component/kubecontrollermanager"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/gardenaccess"
)

// Names of the rows that are steps and no components. Packages runtime and virtual register the steps under these names.
const (
	GenericKubeconfig = "generic-kubeconfig"
	Keys              = "keys"
	TokenRenewal      = "token-renewal"
	Connection        = component.Connection
	SeedTokens        = "seed-tokens"
	SeedIdentities    = "seed-workload-identities"
	SeedKubeconfigs   = "seed-kubeconfigs"
	SeedMonitoring    = "seed-monitoring"
	Rewrite           = "rewrite"
	Snapshot          = "snapshot"
	RewriteEnd        = "rewrite-unlabel"
	RotationProof     = "rotation-proof"
	Secrets           = "secrets"
)

var ownDeploy, ownDestroy = component.Own{Deploy: true}, component.Own{Destroy: true}

var (
	genericKubeconfig = component.Component{
		Name: GenericKubeconfig, Plane: component.Runtime, Own: ownDeploy, Deploy: component.Task{
			Name: "Generating generic token kubeconfig", Does: "generates a Secret, which an annotation of the Garden names",
		},
		Credentials: []component.Credential{{
			Name: gardenaccess.GenericKubeconfig, Purpose: "names the API server of the virtual cluster and its authority, without a token",
			Users: "programs with an access Secret", Lifetime: "as `ca`", Renewal: "with its authority",
			Test: "TestRotationOfAuthoritiesKeepsTheOldOnesUntilItCompletes", Restored: component.GeneratedAgain,
		}},
	}

	// preconditions must succeed before anything of the virtual cluster changes, its etcds included.
	preconditions = component.Component{Name: component.Preconditions, Plane: component.Virtual, Own: ownDeploy, Deploy: component.Task{
		Name: "Checking preconditions of virtual garden", Does: "see [below](#before-the-virtual-cluster-changes)",
	}}

	// The operator removes confirmed leftovers before it deploys the routes to kube-apiserver, because a ManagedResource among the leftovers
	// may contain objects of the same names.
	leftovers = component.Component{Name: component.Leftovers, Plane: component.Runtime, Own: ownDeploy, Deploy: component.Task{
		Name:  "Removing confirmed leftovers of a former garden",
		After: []string{component.Preconditions, component.ResourceManager},
		Does: "removes the objects that the Garden [confirms](taking-over.md#leftovers), and waits until they are gone; skipped if it confirms " +
			"none",
	}}

	virtualLeftovers = component.Component{Name: component.VirtualLeftovers, Plane: component.Virtual, Own: ownDeploy, Deploy: component.Task{
		Name:  "Removing confirmed leftovers of a former garden in virtual garden cluster",
		After: []string{component.Connection, component.GardenerAPIServer},
		Does:  "does the same in the virtual cluster, when nothing uses these objects any more",
	}}

	keys = component.Component{Name: Keys, Plane: component.Virtual, Own: ownDeploy, Deploy: component.Task{
		Name: "Generating keys of virtual garden", After: []string{component.Deployed(component.Etcds)},
		Does: "generates the private keys and certificates of the control plane, which takes some seconds, while the etcds start",
	}}

	tokenRenewal = component.Component{Name: TokenRenewal, Plane: component.Virtual, Own: ownDeploy, Deploy: component.Task{
		Name:  "Renewing virtual garden access secrets after creation of new ServiceAccount signing key",
		After: []string{component.TokensUsed},
		Does: "makes the resource manager request all tokens again, and waits until it has renewed the token in every access Secret; only " +
			"while a new key for tokens of ServiceAccounts is being prepared",
	}}

	connection = component.Component{
		Name: Connection, Plane: component.Virtual, Own: component.Own{Deploy: true, Destroy: true},
		Deploy: component.Task{
			Name:  "Initializing connection to virtual garden cluster",
			After: []string{component.ExposedService, component.GardenerAccess, TokenRenewal},
			Does:  "waits until the kubeconfig of the operator has a token",
		},
		Destroy: component.Task{Name: "Invalidate client for virtual garden", After: []string{component.KubeAPIServer}},
	}

	// A Seed has one annotation for operations, so these rows follow each other.
	seedTokens = seedRenewal(SeedTokens, "garden access secrets", "new tokens for the virtual cluster, for its extensions",
		"a new key for tokens of ServiceAccounts", Connection, component.Routes, component.GardenerAPIServer,
		gardenercontrollermanager.Component.Name)
	seedIdentities = seedRenewal(SeedIdentities, "workload identity tokens", "new tokens of workload identities",
		"a new key for tokens of workload identities", SeedTokens)
	seedKubeconfigs = seedRenewal(SeedKubeconfigs, "gardenlet kubeconfig",
		"a new client certificate of its gardenlet", "a new certificate authority", SeedIdentities, kubecontrollermanager.Component.Name)

	seedMonitoring = component.Component{
		Name: SeedMonitoring, Plane: component.Virtual, Own: component.Own{Deploy: true, Await: true},
		Deploy: component.Task{
			Name:  "Waiting until all seeds have the new credentials of global monitoring",
			After: []string{SeedKubeconfigs, globalmonitoring.Component.Name},
			Does: "waits until the Secret in each namespace `seed-…` of the virtual cluster has the new password; only while the credentials for " +
				"observability are rotated",
		},
		Await: component.Task{
			Name: "Reconciling all seeds with the new credentials of global monitoring",
			Does: "requests the operation `reconcile` of each Seed, without waiting for it",
		},
	}

	rewrite = component.Component{Name: Rewrite, Plane: component.Virtual, Own: ownDeploy, Deploy: component.Task{
		Name:  "Labeling encrypted resources to re-encrypt them with new ETCD encryption key",
		After: []string{Connection, component.Routes, component.VirtualSystem, component.GardenerAPIServer},
		Does:  "[writes encrypted objects again](#encryption-keys), if that is necessary",
	}}

	snapshot = component.Component{Name: Snapshot, Plane: component.Virtual, Own: ownDeploy, Deploy: component.Task{
		Name:  "Snapshotting ETCD after encrypted resources were re-encrypted with new ETCD encryption key",
		After: []string{Rewrite}, Does: "makes the main etcd take a full snapshot, if it has a backup",
	}}

	rewriteEnd = component.Component{Name: RewriteEnd, Plane: component.Virtual, Own: ownDeploy, Deploy: component.Task{
		Name:  "Removing label from re-encrypted resources after rotation of ETCD encryption key",
		After: []string{Snapshot}, Does: "removes the label again",
	}}

	rotationProof = component.Component{
		Name: RotationProof, Plane: component.Virtual, Own: ownDeploy, Deploy: component.Task{
			Name: "Proving that all servers use the rotated credentials",
			After: []string{
				Connection, component.VirtualSystem, component.GardenerAPIServer, gardeneradmission.Component.Name,
				SeedTokens, // the wait until programs use renewed tokens begins with the proof
			},
			Does: "asks [each Pod](#proof-of-a-phase); only while certificate authorities or the key for tokens of ServiceAccounts are rotated",
		},
		Credentials: []component.Credential{
			probe(rotation.ClientProbe, rotation.CertificateAuthorities), probe(rotation.TokenProbe, rotation.ServiceAccountKey),
		},
	}
)

// probe returns the row of a credential of the former generation, which exists during a rotation.
func probe(name string, of rotation.Credential) component.Credential {
	return component.Credential{
		Name: name, Rotation: of, Temporary: true, Purpose: "shows that servers refuse the former generation; it has no rights",
		Users: "garden-operator", Lifetime: component.CertificateLifetime + ", and at most until the rotation completes",
		Renewal: "each rotation has its own", Test: "TestPhasesEndWhenEachReplicaHasShownItsCredentials", Restored: component.FromBackup,
	}
}

// seedRenewal returns the row of a renewal in Seeds. The names of the tasks of the row end with title. The description of the tasks
// contains the arguments gets and cause: gets names the new credentials that each Seed gets, and cause names the credential in the control
// plane whose rotation makes them necessary.
func seedRenewal(name, title, gets, cause string, after ...string) component.Component {
	return component.Component{
		Name: name, Plane: component.Virtual, Own: component.Own{Deploy: true, Await: true},
		Deploy: component.Task{
			Name: "Label seeds to trigger renewal of their " + title, After: after,
			Does: "requests " + gets + ", of each Seed; only while " + cause + " is being prepared",
		},
		Await: component.Task{
			Name: "Check if all seeds finished the renewal of their " + title,
			Does: "waits until [each Seed is done](#rotations)",
		},
	}
}

// Steps of a deletion.
var (
	// unused must succeed before anything is destroyed.
	unused = component.Component{Name: component.Unused, Plane: component.Virtual, Own: ownDestroy, Destroy: component.Task{
		Name: "Ensuring no Seeds and Shoots exist in virtual garden",
	}}

	noManagedResources = component.Component{
		Name: component.NoManagedResources, Plane: component.Runtime, Own: ownDestroy,
		Destroy: component.Task{Name: "Ensuring no ManagedResources exist anymore", After: []string{component.RuntimeSystem}},
	}

	secretsRow = component.Component{Name: Secrets, Plane: component.Runtime, Own: ownDestroy, Destroy: component.Task{
		Name: "Cleaning up secrets", After: []string{component.ResourceManager},
	}}
)
