package main

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

const port = 443

// passThrough is the mode of servers that forward connections as they are. Clients that write Go types omit it, because it is the first
// value of its enumeration.
const passThrough = "PASSTHROUGH"

// gateway describes this Pod.
type gateway struct {
	namespace string
	labels    map[string]string
}

// gatewayObject contains the fields of a Gateway that sniproxy reads.
type gatewayObject struct {
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Selector map[string]string `json:"selector"`
		Servers  []struct {
			Hosts []string `json:"hosts"`
			Port  struct {
				Number   int    `json:"number"`
				Protocol string `json:"protocol"`
			} `json:"port"`
			TLS struct {
				Mode string `json:"mode"`
			} `json:"tls"`
		} `json:"servers"`
	} `json:"spec"`
}

// virtualService contains the fields of a VirtualService that sniproxy reads.
type virtualService struct {
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		ExportTo []string `json:"exportTo"`
		Gateways []string `json:"gateways"`
		TLS      []struct {
			Match []struct {
				Port     int      `json:"port"`
				SNIHosts []string `json:"sniHosts"`
			} `json:"match"`
			Route []struct {
				Destination struct {
					Host string `json:"host"`
					Port struct {
						Number int `json:"number"`
					} `json:"port"`
				} `json:"destination"`
			} `json:"route"`
		} `json:"tls"`
	} `json:"spec"`
}

// route returns the address for a host; "" if there is none. The VirtualService with the most specific match wins; of equally specific
// ones, the oldest.
func (g gateway) route(host string, gateways []gatewayObject, services []virtualService) string {
	var open []string
	for _, each := range gateways {
		if g.opens(each, host) {
			open = append(open, each.Namespace+"/"+each.Name)
		}
	}
	services = slices.SortedStableFunc(slices.Values(services), func(a, b virtualService) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	best, address := -1, ""
	for _, each := range services {
		if !each.isExportedTo(g.namespace) || !slices.ContainsFunc(open, each.isBoundTo) {
			continue
		}
		if specificity, to := each.route(host); specificity > best {
			best, address = specificity, to
		}
	}
	return address
}

// opens reports whether a Gateway selects this Pod and forwards connections for the host.
func (g gateway) opens(o gatewayObject, host string) bool {
	if !labels.SelectorFromSet(o.Spec.Selector).Matches(labels.Set(g.labels)) {
		return false
	}
	for _, each := range o.Spec.Servers {
		mode := cmp.Or(each.TLS.Mode, passThrough)
		if each.Port.Number == port && each.Port.Protocol == "TLS" && mode == passThrough && specificity(each.Hosts, host) >= 0 {
			return true
		}
	}
	return false
}

func (s virtualService) isExportedTo(namespace string) bool {
	own := map[string]bool{namespace: true, "*": true, ".": s.Namespace == namespace}
	return slices.ContainsFunc(s.Spec.ExportTo, func(each string) bool { return own[each] })
}

// isBoundTo reports whether the VirtualService names a Gateway, given as namespace/name.
func (s virtualService) isBoundTo(name string) bool {
	return slices.ContainsFunc(s.Spec.Gateways, func(each string) bool { return each == name || s.Namespace+"/"+each == name })
}

// route returns the address for a host, and how specific the match is: -1 if there is no match.
func (s virtualService) route(host string) (best int, address string) {
	best = -1
	for _, each := range s.Spec.TLS {
		if len(each.Route) == 0 {
			continue
		}
		for _, match := range each.Match {
			if found := specificity(match.SNIHosts, host); found > best && (match.Port == 0 || match.Port == port) {
				to := each.Route[0].Destination
				best, address = found, net.JoinHostPort(to.Host, strconv.Itoa(cmp.Or(to.Port.Number, port)))
			}
		}
	}
	return best, address
}

// specificity returns how specific the best match of a host is: the length of the matching pattern, or a higher number if the host itself
// is listed; -1 if there is no match. The host of a Gateway may have a namespace before it.
func specificity(patterns []string, host string) int {
	best := -1
	for _, each := range patterns {
		pattern := each[strings.IndexByte(each, '/')+1:]
		switch {
		case pattern == host:
			return len(host) + 1
		case strings.HasPrefix(pattern, "*") && strings.HasSuffix(host, pattern[1:]) && len(host) >= len(pattern):
			best = max(best, len(pattern))
		}
	}
	return best
}

// labelsOf parses labels in the format of a downward API volume: a line key="value" for each label.
func labelsOf(text string) map[string]string {
	decoded := map[string]string{}
	for line := range strings.Lines(text) {
		key, quoted, _ := strings.Cut(strings.TrimSpace(line), "=")
		if value, err := strconv.Unquote(quoted); err == nil {
			decoded[key] = value
		}
	}
	return decoded
}
