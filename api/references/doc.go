// Package references is for programs that give ConfigMaps and Secrets unique names and let the garbage collector delete unused ones.
// MakeUnique names such an object by its content and labels it, InjectAnnotations annotates a workload or a ManagedResource with the names
// of the objects that it uses. All functions are pure: they neither read from a cluster nor write to it.
package references
