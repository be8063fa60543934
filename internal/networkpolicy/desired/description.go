package desired

import (
	"fmt"
	"strconv"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// world is what every peer may reach; an empty list stands for all ports.
type world struct {
	ports []networkingv1.NetworkPolicyPort
}

func describeClients(e *Exposure, p port, client, pods string) (ingress, egress string) {
	return e.describe(p, fmt.Sprintf("pods running in namespace %s labeled with %s", client, pods))
}

func describeController(e *Exposure, p port, client, pods string) (ingress, egress string) {
	return e.describe(p, fmt.Sprintf("ingress controller pods running in the %s namespace labeled with %s", client, pods))
}

func (e *Exposure) describe(p port, from string) (ingress, egress string) {
	to := fmt.Sprintf("pods selected by the %s service selector", e.service)
	ingress = fmt.Sprintf("Allows ingress %s traffic to port %s for %s from %s.", p.protocol, p.number.String(), to, from)
	egress = fmt.Sprintf("Allows egress %s traffic to port %s from %s to %s.", p.protocol, p.number.String(), from, to)
	return ingress, egress
}

func (e *Exposure) describeWorld() string {
	ports := make([]string, 0, len(e.world.ports))
	for _, p := range e.world.ports {
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
