package kubeapiserver

import (
	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/garden/versions"
)

// defaultPlugins are enabled in addition to those that kube-apiserver enables itself.
var defaultPlugins = []string{"NodeRestriction"}

// plugins returns the admission plugins. Ignored names those that the version does not have.
func plugins(v values.Values) apiserver.Plugins {
	return apiserver.PluginsOf(v.KubeAPIServer.AdmissionPlugins, defaultPlugins, func(name string) bool {
		return kubernetes(v).AdmissionPlugin(name) == versions.Present
	})
}
