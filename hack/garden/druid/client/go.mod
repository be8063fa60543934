// Takes the place of a module that etcd-druid requires for its tests, and which has no version.
module github.com/gardener/etcd-druid/client

go 1.26.0
