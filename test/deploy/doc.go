// Package deploy contains only tests. They compare the two renderings of internal/deployable, which are the kustomizations of deploy/ and
// the chart deploy/charts/espalier, and install the chart on an API server in the way that users of Helm do.
package deploy
