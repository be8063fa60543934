package v1alpha1

import (
	"encoding/json"
	"fmt"
)

// CIDRList is a list of networks in CIDR notation. In JSON it is a list of strings, or a single string as Gardener wrote it up to release
// 1.112. An empty string is an empty list. Espalier always writes a list.
//
// Decoding does not fail for values of other types, because one wrong Garden must not make lists of Gardens unreadable. It stores the text
// of such a value with the prefix "malformed: ". That is no network, so validation refuses it.
type CIDRList []string

// UnmarshalJSON reads both forms. It fails for invalid JSON only.
func (l *CIDRList) UnmarshalJSON(data []byte) error {
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		return fmt.Errorf("decode networks: %w", err)
	}
	switch value := value.(type) {
	case nil:
		*l = nil
	case string:
		*l = nil
		if value != "" {
			*l = CIDRList{value}
		}
	case []any:
		list := make(CIDRList, 0, len(value))
		for _, entry := range value {
			list = append(list, textOrMalformed(entry))
		}
		*l = list
	default:
		*l = CIDRList{malformed(value)}
	}
	return nil
}

// textOrMalformed returns a value that is a string unchanged, and "malformed: <JSON>" for a value of another type.
func textOrMalformed(value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	return malformed(value)
}

// malformed returns "malformed: <JSON>". Because of the colon and the space, the result is neither a network nor a DNS name.
func malformed(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprintf("malformed: %v", value)
	}
	return "malformed: " + string(text)
}
