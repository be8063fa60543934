// Package config holds the configuration files of Espalier's binaries: their Go types, defaults, validation and the
// loader. One schema has one version and no internal twin: the types here are what the file says and what the code reads.
//
// Everything in this package is pure: bytes go in, a value, warnings or errors come out. Reading files, environment
// variables and clusters is the business of package process.
package config
