// Package extension deploys the parts of Extensions that belong to the clusters of a Garden.
//
// It watches Extensions, Gardens, ManagedResources, and the Secrets and ConfigMaps in the namespace of the Garden that Extensions refer
// to. It pulls charts from registries, renders them in child processes, and writes their objects as ManagedResources in the namespace of
// the Garden. For the runtime cluster, these objects are the extension itself, if the Garden needs it, and its admission controllers. For
// the virtual cluster, they are the part of the admission controllers there, and the ControllerRegistration with its ControllerDeployment.
// The package writes the condition Installed, the resolved charts and the finalizer of Extensions. A reconciliation does not wait until a
// ManagedResource is ready: a change of the ManagedResource leads to the next step. If the process stops between two writes, the next run
// does the rest.
//
// The packages required and health write the other conditions of Extensions.
package extension
