package desired

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// The limits for names.
const (
	maxName    = 253
	nameDigits = 8
)

// fromController is the suffix of the names of policies for an ingress controller.
const fromController = "-from-ingress-controller"

// shortName returns a name that the API server accepts. It cuts a name that is too long, and appends a dash and 8 hexadecimal digits of the
// SHA-256 of the whole name.
func shortName(name string) string {
	if len(name) <= maxName {
		return name
	}
	digest := sha256.Sum256([]byte(name))
	return strings.TrimRight(name[:maxName-nameDigits-1], "-.") + "-" + hex.EncodeToString(digest[:])[:nameDigits]
}

// labelTail is the part after "to-" in the key of the label of clients in a namespace, before it is shortened.
func (e *Exposure) labelTail(p port, client string) string {
	tail := p.tail(e.service.Name)
	switch {
	case client == e.service.Namespace:
		return tail
	case e.alias != nil:
		return *e.alias + "-" + tail
	}
	return e.service.Namespace + "-" + tail
}

// ingressName and egressName return the names of the pair of policies for clients in a namespace.
func (e *Exposure) ingressName(p port, client string) string {
	name := "ingress-to-" + p.id(e.service.Name)
	if client != e.service.Namespace {
		name += "-from-" + client
	}
	return name
}

func (e *Exposure) egressName(p port, client string) string {
	if client == e.service.Namespace {
		return "egress-to-" + p.id(e.service.Name)
	}
	return "egress-to-" + e.service.Namespace + "-" + p.id(e.service.Name)
}

func (e *Exposure) worldName() string { return "ingress-to-" + e.service.Name + "-from-world" }

// whole returns the key of a label before it is shortened.
func whole(tail string) string {
	return strings.TrimSuffix(resourcesv1alpha1.NetworkingClientLabel(""), "to-") + "to-" + tail
}

// describe returns the descriptions of a pair of policies; from describes the clients.
func (e *Exposure) describe(p port, from string) (ingress, egress string) {
	to := fmt.Sprintf("pods selected by the %s service selector", e.service)
	ingress = fmt.Sprintf("Allows ingress %s traffic to port %s for %s from %s.", p.protocol, p.number.String(), to, from)
	egress = fmt.Sprintf("Allows egress %s traffic to port %s from %s to %s.", p.protocol, p.number.String(), from, to)
	return ingress, egress
}

func (e *Exposure) describeWorld() string {
	ports := make([]string, 0, len(e.world))
	for _, p := range e.world {
		ports = append(ports, describePort(p))
	}
	return fmt.Sprintf("Allows ingress traffic from everywhere to ports [%s] for pods selected by the %s service selector.",
		strings.Join(ports, " "), e.service)
}

func describePort(p networkingv1.NetworkPolicyPort) string {
	text := string(*p.Protocol)
	if p.Port != nil {
		text += "/" + p.Port.String()
	}
	if p.EndPort != nil {
		text += "-" + strconv.Itoa(int(*p.EndPort))
	}
	return text
}

// describeSelector formats labels like a Go map, sorted, followed by expressions in the format of kubectl.
func describeSelector(selector metav1.LabelSelector) string {
	text := fmt.Sprint(selector.MatchLabels)
	if len(selector.MatchExpressions) > 0 {
		text += " " + metav1.FormatLabelSelector(&metav1.LabelSelector{MatchExpressions: selector.MatchExpressions})
	}
	return text
}
