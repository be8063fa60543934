package components

import "github.com/espalier-dev/espalier/internal/garden/component"

// Names of the rows that are steps and no components. Packages runtime and virtual register the steps under these names.
const (
	GenericKubeconfig = "generic-kubeconfig"
	Keys              = "keys"
	TokenRenewal      = "token-renewal"
	Connection        = "connection"
	Rewrite           = "rewrite"
	Snapshot          = "snapshot"
	RewriteEnd        = "rewrite-unlabel"
	Secrets           = "secrets"
)

var ownDeploy, ownDestroy = component.Own{Deploy: true}, component.Own{Destroy: true}

var (
	genericKubeconfig = component.Component{Name: GenericKubeconfig, Plane: component.Runtime, Own: ownDeploy, Deploy: component.Task{
		Name: "Generating generic token kubeconfig", Does: "generates a Secret, which an annotation of the Garden names",
	}}

	// preconditions must succeed before anything of the virtual cluster changes, its etcds included.
	preconditions = component.Component{Name: component.Preconditions, Plane: component.Virtual, Own: ownDeploy, Deploy: component.Task{
		Name: "Checking preconditions of virtual garden", Does: "see [below](#before-the-virtual-cluster-changes)",
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

	rewrite = component.Component{Name: Rewrite, Plane: component.Virtual, Own: ownDeploy, Deploy: component.Task{
		Name:  "Labeling encrypted resources to re-encrypt them with new ETCD encryption key",
		After: []string{Connection, component.Routes, component.VirtualSystem},
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
)

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

	secrets = component.Component{Name: Secrets, Plane: component.Runtime, Own: ownDestroy, Destroy: component.Task{
		Name: "Cleaning up secrets", After: []string{component.ResourceManager},
	}}
)
