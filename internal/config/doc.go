// Package config contains the configuration files of Espalier's binaries: their Go types, defaults, validation and the loader. Each schema
// has one version and no internal version: the types here are the types of the file.
//
// Everything in this package is pure: the input is bytes, the output a value, warnings or errors. Package process reads files, environment
// variables and clusters.
package config
