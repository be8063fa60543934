// Package deployable declares, once for each binary, what it needs in a cluster: Deployment, ServiceAccount, bindings of its
// roles, configuration, Service and disruption budget. deploy/ is rendered from it. The roles themselves are generated from
// the markers beside the code that needs them, and CRDs from api/; neither is here.
package deployable
