// Package binary runs what a binary of cmd/ runs, inside a test: against real API servers, under the binary's own
// ServiceAccount and exactly the roles that deploy/<binary>/rbac ships. Its requests can be counted, refused and cut off.
package binary
