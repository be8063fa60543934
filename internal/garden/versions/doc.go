// Package versions knows what the supported versions of Kubernetes, and the versions of Gardener and of the vertical pod autoscaler that
// the operator deploys, have: API versions, feature gates, admission plugins, settings. It contains tables and answers about them, and
// knows no Garden. A new version of one of these programs changes this package only.
package versions
