// Package documented contains only the tests of docs/writing-managedresources.md: they read its examples, run them on real API servers, and
// check the sentences below them. Behavior of a controller that is not on the page is tested beside the controller.
package documented
