// Package references is for programs that give ConfigMaps and Secrets unique names and let the garbage collector delete
// what is no longer used. MakeUnique names and labels such an object by its content, InjectAnnotations tells on a workload
// or a ManagedResource which ones it uses. Everything here is pure: nothing is read from or written to a cluster.
package references
