// Package documented contains only the tests of docs/writing-managedresources.md and docs/teams.md: they read the examples and commands of
// these pages, run them on real API servers, and check the sentences below them. Behavior of a controller that is not on the pages is
// tested beside the controller.
package documented
