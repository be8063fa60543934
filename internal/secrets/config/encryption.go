package config

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"

	"sigs.k8s.io/yaml"
)

// DataKeyEncryptionConfiguration is the data key of a Secret with an EncryptionConfiguration.
const DataKeyEncryptionConfiguration = "encryption-configuration.yaml"

// UsableEncryptionKey is an encryption key in the form in which an EncryptionConfiguration takes it.
type UsableEncryptionKey struct {
	// Provider is never empty.
	Provider EncryptionProvider
	// Name is the name of the key. The API server writes it in front of each encrypted value in etcd.
	Name string
	// Secret is the key in base64, which the API server decodes.
	Secret string
}

// ParseEncryptionKey reads the data of the Secret of an EncryptionKey. Gardener before 1.113 created Secrets without the data key
// `encoding`. ParseEncryptionKey does not encode the key in such a Secret, because the API server uses the stored text: an encoded text
// would be another key, and the API server could not read the encrypted data.
func ParseEncryptionKey(data map[string][]byte) (UsableEncryptionKey, error) {
	key := UsableEncryptionKey{
		Provider: cmp.Or(EncryptionProvider(data[DataKeyEncryptionProvider]), AESCBC),
		Name:     string(data[DataKeyEncryptionKeyName]),
		Secret:   string(data[DataKeyEncryptionSecret]),
	}
	if key.Name == "" || key.Secret == "" {
		return UsableEncryptionKey{}, fmt.Errorf("data keys %q and %q must not be empty", DataKeyEncryptionKeyName, DataKeyEncryptionSecret)
	}
	if string(data[DataKeyEncryptionEncoding]) == encodingNone {
		key.Secret = base64.StdEncoding.EncodeToString(data[DataKeyEncryptionSecret])
	}
	return key, nil
}

// Encryption describes the EncryptionConfiguration of an API server.
type Encryption struct {
	// Resources are encrypted with the first of the keys, in this order.
	Resources []string
	// Decrypted are resources that are not encrypted any more, or not yet. They are written as plain text, and can be read in both forms.
	Decrypted []string
	// Keys are tried in this order for reading. At least one is needed.
	Keys []UsableEncryptionKey
}

// identity is the provider that writes plain text.
const identity = "identity"

type (
	encryptionFile struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Resources  []encryptionEntry `json:"resources"`
	}
	encryptionEntry struct {
		Resources []string                     `json:"resources"`
		Providers []map[string]encryptionParty `json:"providers"`
	}
	encryptionParty struct {
		Keys []encryptionFileKey `json:"keys,omitempty"`
	}
	encryptionFileKey struct {
		Name   string `json:"name"`
		Secret string `json:"secret"`
	}
)

// YAML returns the EncryptionConfiguration. Neighboring keys of one provider share an entry. YAML fails if a provider is unknown, if there
// are no keys, or if there are no resources.
func (e Encryption) YAML() ([]byte, error) {
	if len(e.Keys) == 0 || len(e.Resources)+len(e.Decrypted) == 0 {
		return nil, errors.New("an encryption configuration needs a key and a resource")
	}
	var encrypting []map[string]encryptionParty
	for i, key := range e.Keys {
		switch key.Provider {
		case AESCBC, AESGCM, SecretBox:
		default:
			return nil, fmt.Errorf("unknown encryption provider %q", key.Provider)
		}
		provider, fileKey := string(key.Provider), encryptionFileKey{Name: key.Name, Secret: key.Secret}
		if i > 0 && e.Keys[i-1].Provider == key.Provider {
			last := encrypting[len(encrypting)-1]
			last[provider] = encryptionParty{Keys: append(last[provider].Keys, fileKey)}
			continue
		}
		encrypting = append(encrypting, map[string]encryptionParty{provider: {Keys: []encryptionFileKey{fileKey}}})
	}
	plain := []map[string]encryptionParty{{identity: {}}}

	file := encryptionFile{
		APIVersion: "apiserver.config.k8s.io/v1",
		Kind:       "EncryptionConfiguration",
	}
	if len(e.Resources) > 0 {
		file.Resources = append(file.Resources, encryptionEntry{Resources: e.Resources, Providers: slices.Concat(encrypting, plain)})
	}
	if len(e.Decrypted) > 0 {
		decrypted := slices.Sorted(slices.Values(e.Decrypted))
		file.Resources = append(file.Resources, encryptionEntry{Resources: decrypted, Providers: slices.Concat(plain, encrypting)})
	}
	return yaml.Marshal(file)
}

// parseEncryption parses an EncryptionConfiguration. The error contains no part of the text, because the text contains keys.
func parseEncryption(configuration []byte) (encryptionFile, error) {
	file := encryptionFile{}
	if yaml.Unmarshal(configuration, &file) != nil || len(file.Resources) == 0 {
		return file, errors.New("it is not an EncryptionConfiguration")
	}
	return file, nil
}

// ParseEncryptedResources returns two lists of the resources in an EncryptionConfiguration: the resources that an API server with this
// configuration writes encrypted, and the resources that it writes as plain text.
func ParseEncryptedResources(configuration []byte) (encrypted, plain []string, err error) {
	file, err := parseEncryption(configuration)
	if err != nil {
		return nil, nil, err
	}
	for _, entry := range file.Resources {
		if len(entry.Providers) == 0 {
			continue
		}
		if _, isPlain := entry.Providers[0][identity]; isPlain {
			plain = append(plain, entry.Resources...)
		} else {
			encrypted = append(encrypted, entry.Resources...)
		}
	}
	return encrypted, plain, nil
}

// Unencrypted returns the given resources that an EncryptionConfiguration does not have, or that it makes an API server write as plain
// text.
func Unencrypted(resources []string, configuration []byte) ([]string, error) {
	encrypted, _, err := ParseEncryptedResources(configuration)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(resources), func(each string) bool { return slices.Contains(encrypted, each) }), nil
}

// ParseEncryptionKeys returns the keys of an EncryptionConfiguration, in their order: the API server writes with the first one.
func ParseEncryptionKeys(configuration []byte) ([]UsableEncryptionKey, error) {
	file, err := parseEncryption(configuration)
	if err != nil {
		return nil, err
	}
	var keys []UsableEncryptionKey
	for _, entry := range file.Resources {
		for _, provider := range entry.Providers {
			for name, party := range provider { // a provider is a map with one key
				for _, each := range party.Keys {
					key := UsableEncryptionKey{Provider: EncryptionProvider(name), Name: each.Name, Secret: each.Secret}
					if !slices.Contains(keys, key) {
						keys = append(keys, key)
					}
				}
			}
		}
	}
	return keys, nil
}
