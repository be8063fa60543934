package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DNSRecord is a record set of a DNS zone. Its CRD keeps fields that this type does not have.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=dns
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Type,type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Domain Name",type=string,JSONPath=`.spec.name`
// +kubebuilder:printcolumn:name="Record Type",type=string,JSONPath=`.spec.recordType`
// +kubebuilder:printcolumn:name=Status,type=string,JSONPath=`.status.lastOperation.state`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type DNSRecord struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec describes the record set.
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec DNSRecordSpec `json:"spec"`
	// Status is the state that the controller of the extension has observed.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Status DNSRecordStatus `json:"status,omitempty"`
}

// DNSRecordList is a list of DNSRecords.
//
// +kubebuilder:object:root=true
type DNSRecordList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the DNSRecords.
	Items []DNSRecord `json:"items"`
}

// DNSRecordType is the type of a record set.
// +kubebuilder:validation:Enum=A;AAAA;CNAME;TXT
type DNSRecordType string

// Types of record sets.
const (
	DNSRecordTypeA     DNSRecordType = "A"
	DNSRecordTypeAAAA  DNSRecordType = "AAAA"
	DNSRecordTypeCNAME DNSRecordType = "CNAME"
	DNSRecordTypeTXT   DNSRecordType = "TXT"
)

// DNSRecordSpec describes a record set.
type DNSRecordSpec struct {
	DefaultSpec `json:",inline"`
	// SecretRef names the Secret with the credentials for the DNS server.
	SecretRef SecretReference `json:"secretRef"`
	// Region is the region of the DNS server. Nil: the controller chooses.
	// +optional
	Region *string `json:"region,omitempty"`
	// Zone is the zone of the record set. Nil: the controller finds the zone by the name.
	// +optional
	Zone *string `json:"zone,omitempty"`
	// Name is the domain name of the record set. The first label may be *.
	Name string `json:"name"`
	// RecordType is the type of the record set.
	RecordType DNSRecordType `json:"recordType"`
	// Values are the addresses, the name or the texts.
	Values []string `json:"values"`
	// TTL is how long DNS servers may keep the record set, in seconds. Nil: the controller chooses.
	// +optional
	TTL *int64 `json:"ttl,omitempty"`
}

// DNSRecordStatus is the state of a record set.
type DNSRecordStatus struct {
	DefaultStatus `json:",inline"`
	// Zone is the zone in which the controller has written the record set.
	// +optional
	Zone *string `json:"zone,omitempty"`
}
