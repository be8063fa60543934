package config

import (
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Data keys of Secrets with passwords and tokens.
const (
	DataKeyUsername     = "username"
	DataKeyPassword     = "password"
	DataKeyAuth         = "auth"
	DataKeyToken        = "token"
	DataKeyStaticTokens = "static_tokens.csv"
)

// FormatNormal is the only format of BasicAuth. It is part of the hash.
const FormatNormal = "normal"

// staticTokenLength is the number of characters of a static token.
const staticTokenLength = 128

// BasicAuth describes a user with a random password.
type BasicAuth struct {
	Name string
	// Format is FormatNormal.
	Format   string
	Username string
	// PasswordLength is the number of characters of the password.
	PasswordLength int
}

// LogicalName implements Config.
func (c BasicAuth) LogicalName() string { return c.Name }

// Hash implements Config.
func (c BasicAuth) Hash() uint64 {
	return hashStruct("BasicAuthSecretConfig",
		text("Name", c.Name), text("Format", c.Format), text("Username", c.Username), number("PasswordLength", c.PasswordLength))
}

// Generate implements Config. Secrets from before Gardener 1.98 have an SHA-1 hash in `auth`; they stay as they are until they are rotated.
func (c BasicAuth) Generate(source Source) (map[string][]byte, error) {
	if source.HashPassword == nil {
		return nil, errors.New("no hash function for passwords")
	}
	password, err := source.text(c.PasswordLength)
	if err != nil {
		return nil, err
	}
	hash, err := source.HashPassword(password)
	if err != nil {
		return nil, fmt.Errorf("hash password: %w", err)
	}
	return map[string][]byte{
		DataKeyUsername: []byte(c.Username),
		DataKeyPassword: []byte(password),
		DataKeyAuth:     []byte(c.Username + ":" + hash),
	}, nil
}

// TokenUser is the identity behind a static token.
type TokenUser struct {
	Username string
	UserID   string
	Groups   []string
}

func (u TokenUser) hash() uint64 {
	return hashStruct("TokenConfig", text("Username", u.Username), text("UserID", u.UserID), list("Groups", u.Groups, hashText))
}

// StaticTokens describes a file of static tokens for kube-apiserver.
type StaticTokens struct {
	Name string
	// Users are the users by a name, which affects only the hash and the order of the lines.
	Users map[string]TokenUser
}

// LogicalName implements Config.
func (c StaticTokens) LogicalName() string { return c.Name }

// Hash implements Config.
func (c StaticTokens) Hash() uint64 {
	return hashStruct("StaticTokenSecretConfig", text("Name", c.Name), dictionary("Tokens", c.Users, TokenUser.hash))
}

// Generate implements Config. The lines are sorted by the keys of Users. The line of a user without groups has no fourth column, because
// kube-apiserver reads an empty column as a group with an empty name.
func (c StaticTokens) Generate(source Source) (map[string][]byte, error) {
	var file strings.Builder
	lines := csv.NewWriter(&file)
	for _, name := range slices.Sorted(maps.Keys(c.Users)) {
		token, err := source.text(staticTokenLength)
		if err != nil {
			return nil, err
		}
		user := c.Users[name]
		line := []string{token, user.Username, user.UserID}
		if len(user.Groups) > 0 {
			line = append(line, strings.Join(user.Groups, ","))
		}
		if err := lines.Write(line); err != nil {
			return nil, fmt.Errorf("write token of user %q: %w", user.Username, err)
		}
	}
	lines.Flush()
	return map[string][]byte{DataKeyStaticTokens: []byte(file.String())}, lines.Error()
}
