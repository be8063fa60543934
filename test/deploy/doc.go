// Package deploy holds the two renderings of internal/deployable, the kustomizations of deploy/ and the chart
// deploy/charts/espalier, to each other, and installs the chart on an API server as Helm's users do. There is nothing in it
// but tests.
package deploy
