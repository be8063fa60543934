package deployable

import (
	"slices"
	"strings"
)

// Place is the namespace, the name and the configuration with which another program deploys a binary.
type Place struct {
	// Namespace is where the binary runs.
	Namespace string
	// Name is the name of the binary's objects.
	Name string
	// Selector contains the labels that the selectors of the binary's Deployment, Service and disruption budget use. No Pod of another
	// Deployment may have all these labels.
	Selector map[string]string
	// Config is the configuration file of the binary.
	Config string
}

// Named returns the binary with this name, and false if there is none.
func Named(name string) (Binary, bool) {
	all := All()
	i := slices.IndexFunc(all, func(b Binary) bool { return b.Name == name })
	if i < 0 {
		return Binary{}, false
	}
	return all[i], true
}

// At returns the binary for a place, where source and target are one cluster. RoleAt defines its roles.
func (b Binary) At(place Place) Binary {
	b.place, b.Config, b.ConfigApart = place, place.Config, ""
	roles := make([]Role, 0, len(b.Roles))
	for _, role := range b.Roles {
		roles = append(roles, b.RoleAt(place, role))
	}
	b.Roles = roles
	return b
}

// RoleAt returns a role of deploy/<name>/rbac with the name and namespace that it must have at a place. The role cluster-admin stays the
// same.
func (b Binary) RoleAt(place Place, role Role) Role {
	role.Name = b.AtPlace(place, role.Name)
	if role.Namespace == Namespace {
		role.Namespace = place.Namespace
	}
	return role
}

// AtPlace replaces the name of the binary's objects at the beginning of a name: espalier-<name>-lease becomes <place>-lease.
func (b Binary) AtPlace(place Place, name string) string {
	if rest, ours := strings.CutPrefix(name, "espalier-"+b.Name); ours {
		return place.Name + rest
	}
	return name
}
