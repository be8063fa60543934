// Package extension deploys the parts of Extensions that belong to the clusters of a Garden.
//
// It watches Extensions, Gardens, ManagedResources, and the Secrets and ConfigMaps in the namespace of the Garden that Extensions refer to.
// It pulls charts from registries, renders them in child processes, and writes their objects as ManagedResources in the namespace of the
// Garden: for the runtime cluster the extension itself, if the Garden needs it, and its admission controllers; for the virtual cluster the
// counterpart of these, and the ControllerRegistration with its ControllerDeployment. It writes the condition Installed, the resolved
// charts and the finalizer of Extensions. It waits for nothing: a change of a ManagedResource leads to the next step. If the process stops
// between two writes, the next run does the rest.
//
// The packages required and health write the other conditions of Extensions.
package extension
