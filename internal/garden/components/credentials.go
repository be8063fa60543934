package components

import (
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
)

// Credentials returns the certificate authorities, and then the credentials of all rows.
func Credentials() []component.Credential {
	all := authorities()
	for _, row := range All() {
		all = append(all, row.Credentials...)
	}
	return all
}

// RotatedSecrets returns the Secrets that rotations renew.
func RotatedSecrets() rotation.Secrets {
	var rotated rotation.Secrets
	for _, each := range Credentials() {
		if each.Rotation != "" {
			rotated = append(rotated, rotation.Secret{Name: each.Name, Credential: each.Rotation, Irreplaceable: each.Irreplaceable})
		}
	}
	return rotated
}

// TemporarySecrets returns the logical names of the Secrets that only some reconciliations generate.
func TemporarySecrets() []string {
	var names []string
	for _, each := range Credentials() {
		if each.Temporary {
			names = append(names, each.Name)
		}
	}
	return names
}

// KeyUsers returns the objects of all rows that name keys and authorities.
func KeyUsers() []component.Object {
	var users []component.Object
	for _, row := range All() {
		users = append(users, row.KeyUsers...)
	}
	return users
}
