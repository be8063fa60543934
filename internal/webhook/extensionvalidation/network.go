package extensionvalidation

import (
	"fmt"
	"net"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

type networkSpec struct {
	DefaultSpec `json:",inline"`
	PodCIDR     string   `json:"podCIDR"`
	ServiceCIDR string   `json:"serviceCIDR"`
	IPFamilies  []string `json:"ipFamilies,omitempty"`
}

const (
	familyIPv4 = "IPv4"
	familyIPv6 = "IPv6"
	notIPv4    = "must be a valid IPv4 address"
	notIPv6    = "must be a valid IPv6 address"
)

func checkNetwork(network *object[networkSpec, unread], found *findings) {
	spec := &network.Spec
	if !found.families(specPath("ipFamilies"), spec.IPFamilies) {
		return // without valid families there is no family to compare the ranges with
	}
	family := familyIPv4
	if len(spec.IPFamilies) > 0 {
		family = spec.IPFamilies[0]
	}
	pods := found.cidr(specPath("podCIDR"), spec.PodCIDR, family)
	services := found.cidr(specPath("serviceCIDR"), spec.ServiceCIDR, family)
	if pods != nil && services != nil && (pods.Contains(services.IP) || services.Contains(pods.IP)) {
		found.add(field.Invalid(specPath("serviceCIDR"), spec.ServiceCIDR,
			fmt.Sprintf("must not overlap with %q (%q)", specPath("podCIDR"), cut(spec.PodCIDR, maxValue))))
	}
}

// families validates the IP families, and reports whether they are valid.
func (f *findings) families(path *field.Path, families []string) bool {
	before := len(f.list)
	seen := sets.New[string]()
	for i, family := range families {
		if f.full() {
			break
		}
		f.oneOf(path.Index(i), family, familyIPv4, familyIPv6)
		if seen.Has(family) {
			f.add(field.Duplicate(path.Index(i), family))
		}
		seen.Insert(family)
	}
	if len(f.list) == before && len(families) > 1 {
		f.add(field.Invalid(path, families, "dual-stack networking is not supported"))
	}
	return len(f.list) == before && !f.full()
}

// cidr returns the range in a text, or nil if the text is not a range. It adds an error if the range is missing, invalid or of another
// family.
func (f *findings) cidr(path *field.Path, text, family string) *net.IPNet {
	if text == "" {
		f.requireIf(true, path)
		return nil
	}
	_, network, err := net.ParseCIDR(text)
	if err != nil {
		f.add(field.Invalid(path, text, cut(err.Error(), maxValue)))
		return nil
	}
	isIPv4 := network.IP.To4() != nil
	if family == familyIPv4 && !isIPv4 {
		f.add(field.Invalid(path, network.IP.String(), notIPv4))
	}
	if family == familyIPv6 && isIPv4 {
		f.add(field.Invalid(path, network.IP.String(), notIPv6))
	}
	return network
}
