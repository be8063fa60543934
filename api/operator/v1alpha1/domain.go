package v1alpha1

import (
	"encoding/json"
	"fmt"
)

// Domain is a DNS domain. In JSON it is an object with the fields name and provider, or a string with the name as Gardener wrote it up to
// release 1.107. Espalier always writes an object.
//
// Decoding does not fail for values of other types and for objects with other fields, because one wrong Garden must not make lists of
// Gardens unreadable. It stores the text of such a value in Name, with the prefix "malformed: ". That is no DNS name, so validation refuses
// it.
//
// +kubebuilder:validation:Type=""
// +kubebuilder:pruning:PreserveUnknownFields
type Domain struct {
	// Name is a DNS subdomain in lower case, field name.
	Name string `json:"-"`
	// Provider names the DNS provider for the domain, in the field provider. It is nil if the domain has no provider. In a Garden without DNS
	// providers, this field has no meaning.
	Provider *string `json:"-"`
}

// domainFields is the form in which a Domain is written.
type domainFields struct {
	Name     string  `json:"name"`
	Provider *string `json:"provider,omitempty"`
}

// MarshalJSON writes the domain as an object.
func (d Domain) MarshalJSON() ([]byte, error) {
	return json.Marshal(domainFields(d))
}

// UnmarshalJSON reads both forms. It fails for invalid JSON only.
func (d *Domain) UnmarshalJSON(data []byte) error {
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		return fmt.Errorf("decode domain: %w", err)
	}
	switch value := value.(type) {
	case nil:
		*d = Domain{}
	case string:
		*d = Domain{Name: value}
	case map[string]any:
		*d = domainFrom(value)
	default:
		*d = Domain{Name: malformed(value)}
	}
	return nil
}

func domainFrom(object map[string]any) Domain {
	var domain Domain
	for field, value := range object {
		text, isText := value.(string)
		switch {
		case field == "name" && isText:
			domain.Name = text
		case field == "provider" && isText:
			domain.Provider = &text
		case field == "provider" && value == nil:
		default:
			return Domain{Name: malformed(object)}
		}
	}
	return domain
}
