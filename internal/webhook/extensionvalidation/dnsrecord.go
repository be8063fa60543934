package extensionvalidation

import (
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

type dnsRecordSpec struct {
	DefaultSpec `json:",inline"`
	SecretRef   secretReference `json:"secretRef"`
	Region      *string         `json:"region,omitempty"`
	Zone        *string         `json:"zone,omitempty"`
	Name        string          `json:"name"`
	RecordType  string          `json:"recordType"`
	Values      []string        `json:"values"`
	TTL         *int64          `json:"ttl,omitempty"`
}

// The types of records.
const (
	recordA     = "A"
	recordAAAA  = "AAAA"
	recordCNAME = "CNAME"
	recordTXT   = "TXT"
)

func checkDNSRecord(record *object[dnsRecordSpec, unread], found *findings) {
	spec := &record.Spec
	found.notEmpty(specPath("region"), spec.Region)
	found.notEmpty(specPath("zone"), spec.Zone)
	found.add(validation.IsFullyQualifiedDomainName(specPath("name"), strings.TrimPrefix(spec.Name, "*."))...)
	found.oneOf(specPath("recordType"), spec.RecordType, recordA, recordAAAA, recordCNAME, recordTXT)
	found.requireIf(len(spec.Values) == 0, specPath("values"))
	if spec.RecordType == recordCNAME && len(spec.Values) > 1 {
		found.add(field.Invalid(specPath("values"), spec.Values, "CNAME records must have a single value"))
	}
	for i, value := range spec.Values {
		if found.full() {
			break
		}
		found.add(checkRecordValue(specPath("values").Index(i), spec.RecordType, value)...)
	}
	if spec.TTL != nil {
		found.add(apivalidation.ValidateNonnegativeField(*spec.TTL, specPath("ttl"))...)
	}
}

// notEmpty adds an error if a text is set and empty.
func (f *findings) notEmpty(path *field.Path, value *string) {
	if value != nil && *value == "" {
		f.add(field.Invalid(path, *value, "field cannot be empty if specified"))
	}
}

func checkRecordValue(path *field.Path, kind, value string) field.ErrorList {
	switch kind {
	case recordA:
		if ip := netutils.ParseIPSloppy(value); ip.To4() == nil {
			return field.ErrorList{field.Invalid(path, value, notIPv4)}
		}
	case recordAAAA:
		if ip := netutils.ParseIPSloppy(value); ip == nil || ip.To4() != nil {
			return field.ErrorList{field.Invalid(path, value, notIPv6)}
		}
	case recordCNAME:
		return validation.IsFullyQualifiedDomainName(path, value)
	}
	return nil
}
