// Package chart gets Helm charts from registries, verifies and renders them, and checks the rendered objects against a policy.
//
// Charts and their values are foreign code: a template may loop, fill the memory, or get at files and variables of its process. So
// [Sandbox.Render] renders in a child process of the same binary, with limits, without environment, files and network.
//
// Only this package imports Helm, and only this package and its package registry import the client of registries. Packages that import
// them make their binaries larger by these libraries.
package chart
