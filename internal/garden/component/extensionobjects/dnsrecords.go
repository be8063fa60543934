package extensionobjects

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	extensionsv1alpha1 "github.com/espalier-dev/espalier/api/extensions/v1alpha1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// DNSRecords returns the DNSRecords of a Garden with DNS providers. Each of them points at the address of the load balancer of the gateway,
// which is a host name or an IP address.
func DNSRecords(v values.Values, address string) ([]*extensionsv1alpha1.DNSRecord, error) {
	var all []*extensionsv1alpha1.DNSRecord
	for _, each := range hosts(*v.DNS) {
		provider, err := providerOf(*v.DNS, each)
		if err != nil {
			return nil, err
		}
		record := dnsRecord(v, each.Name, provider, address)
		for _, other := range all {
			if other.Name == record.Name {
				return nil, fmt.Errorf("the hosts %s and %s would have the same DNSRecord %s", other.Spec.Name, each.Name, record.Name)
			}
		}
		all = append(all, record)
	}
	return all, nil
}

// hosts returns the hosts of a Garden, each with the provider of its domain.
func hosts(dns values.DNS) []operatorv1alpha1.Domain {
	all := make([]operatorv1alpha1.Domain, 0, 2*len(dns.Virtual)+len(dns.Ingress))
	below := func(label string, domain operatorv1alpha1.Domain) operatorv1alpha1.Domain {
		return operatorv1alpha1.Domain{Name: label + domain.Name, Provider: domain.Provider}
	}
	for _, each := range dns.Virtual {
		all = append(all, below("api.", each), below("gardener.", each))
	}
	for _, each := range dns.Ingress {
		all = append(all, below("*.", each))
	}
	return all
}

func providerOf(dns values.DNS, host operatorv1alpha1.Domain) (operatorv1alpha1.DNSProvider, error) {
	name := ptr.Deref(host.Provider, "")
	i := slices.IndexFunc(dns.Providers, func(p operatorv1alpha1.DNSProvider) bool { return p.Name == name })
	if i < 0 {
		return operatorv1alpha1.DNSProvider{}, fmt.Errorf("spec.dns.providers has no provider %q for host %s", name, host.Name)
	}
	return dns.Providers[i], nil
}

func dnsRecord(v values.Values, host string, provider operatorv1alpha1.DNSProvider, address string) *extensionsv1alpha1.DNSRecord {
	return &extensionsv1alpha1.DNSRecord{
		TypeMeta: object.Type(DNSRecordKind.GroupVersion().String(), DNSRecordKind.Kind),
		ObjectMeta: metav1.ObjectMeta{
			Namespace: v.Namespace, Name: strings.NewReplacer(".", "-", "*", "wildcard").Replace(host) + "-" + provider.Type,
		},
		Spec: extensionsv1alpha1.DNSRecordSpec{
			DefaultSpec: extensionsv1alpha1.DefaultSpec{
				Type: provider.Type, Class: ptr.To(extensionsv1alpha1.ClassGarden), ProviderConfig: provider.ProviderConfig,
			},
			SecretRef:  extensionsv1alpha1.SecretReference{Namespace: v.Namespace, Name: provider.SecretRef.Name},
			Name:       host,
			RecordType: recordType(address), Values: []string{address},
		},
	}
}

// recordType returns the type of the record sets that point at an address.
func recordType(address string) extensionsv1alpha1.DNSRecordType {
	ip, err := netip.ParseAddr(address)
	switch {
	case err != nil:
		return extensionsv1alpha1.DNSRecordTypeCNAME
	case ip.Is4():
		return extensionsv1alpha1.DNSRecordTypeA
	}
	return extensionsv1alpha1.DNSRecordTypeAAAA
}

// StaleDNSRecords returns the DNSRecords of the operator that must be deleted before the wanted DNSRecords are written. A DNSRecord is
// stale if the Garden no longer has a DNSRecord with this name and host, or if its type of record set must change, which is immutable. The
// name contains the type of the provider. Hosts are compared, too, because the DNSRecords of two hosts can have the same name.
func StaleDNSRecords(wanted, live []*extensionsv1alpha1.DNSRecord) []*extensionsv1alpha1.DNSRecord {
	var stale []*extensionsv1alpha1.DNSRecord
	for _, each := range live {
		if !slices.ContainsFunc(wanted, func(w *extensionsv1alpha1.DNSRecord) bool {
			return w.Name == each.Name && w.Spec.Name == each.Spec.Name && w.Spec.RecordType == each.Spec.RecordType
		}) {
			stale = append(stale, each)
		}
	}
	return stale
}
