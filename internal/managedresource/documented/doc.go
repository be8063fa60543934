// Package documented holds the tests of docs/writing-managedresources.md and nothing else: they read its examples, run
// them on real API servers, and prove the sentences below them. What a controller does beyond the page is tested beside
// the controller.
package documented
