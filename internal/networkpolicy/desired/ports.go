package desired

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
)

// briefLength is the maximum length of a quoted user-provided text.
const briefLength = 120

// port is a port of the Pods behind a Service.
type port struct {
	protocol corev1.Protocol
	number   intstr.IntOrString
	// end is the last port of a range; nil for a single port.
	end *int32
	// alias is set if the port is open to clients with an alias label.
	alias string
}

// id is the part of a policy's name that identifies the port.
func (p port) id(service string) string {
	id := service + "-" + strings.ToLower(string(p.protocol)) + "-" + p.number.String()
	if p.alias != "" {
		id += "-via-" + p.alias
	}
	return id
}

// tail is the end of the key of the clients' label.
func (p port) tail(service string) string {
	if p.alias != "" {
		return p.alias
	}
	return p.id(service)
}

func (p port) equal(other port) bool {
	return p.protocol == other.protocol && p.number == other.number && p.alias == other.alias && ptr.Equal(p.end, other.end)
}

func (p port) policyPorts() []networkingv1.NetworkPolicyPort {
	return []networkingv1.NetworkPolicyPort{{Protocol: &p.protocol, Port: &p.number, EndPort: p.end}}
}

// targetPort returns the Pods' port for a port of their Service.
func targetPort(p corev1.ServicePort) port {
	target := port{protocol: p.Protocol, number: p.TargetPort}
	if target.protocol == "" {
		target.protocol = corev1.ProtocolTCP
	}
	if target.number == (intstr.IntOrString{}) || target.number == intstr.FromString("") {
		target.number = intstr.FromInt32(p.Port)
	}
	return target
}

// parsePorts parses a JSON list of NetworkPolicyPorts, and sets the defaults of the API server for protocols. Digits in quotation marks are
// parsed as numbers.
func parsePorts(text string) ([]networkingv1.NetworkPolicyPort, error) {
	list, err := parseList[networkingv1.NetworkPolicyPort](text)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if err := complete(&list[i]); err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return list, nil
}

// complete sets defaults, and rejects ports that the API server would reject.
func complete(p *networkingv1.NetworkPolicyPort) error {
	if p.Protocol == nil {
		p.Protocol = ptr.To(corev1.ProtocolTCP)
	}
	switch *p.Protocol {
	case corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP:
	default:
		return fmt.Errorf("protocol %s is none of TCP, UDP, SCTP", brief(string(*p.Protocol)))
	}
	if p.Port != nil {
		if err := completePort(p.Port); err != nil {
			return err
		}
	}
	if p.EndPort == nil {
		return nil
	}
	if p.Port == nil || p.Port.Type != intstr.Int || *p.EndPort < p.Port.IntVal || len(validation.IsValidPortNum(int(*p.EndPort))) > 0 {
		return fmt.Errorf("endPort %d must be a port number not below port", *p.EndPort)
	}
	return nil
}

func completePort(p *intstr.IntOrString) error {
	if p.Type == intstr.String && p.StrVal != "" && strings.Trim(p.StrVal, "0123456789") == "" {
		number, err := strconv.ParseInt(p.StrVal, 10, 32)
		if err != nil {
			return fmt.Errorf("port %s is out of range", brief(p.StrVal))
		}
		*p = intstr.FromInt32(int32(number))
	}
	var problems []string
	if p.Type == intstr.Int {
		problems = validation.IsValidPortNum(p.IntValue())
	} else {
		problems = validation.IsValidPortName(p.StrVal)
	}
	if len(problems) > 0 {
		return fmt.Errorf("port %s: %s", brief(p.String()), strings.Join(problems, ", "))
	}
	return nil
}

// parseList parses a JSON list. Unknown fields are errors: without its misspelled field, an item would mean "everything".
func parseList[T any](text string) ([]T, error) {
	list, err := decodeList[T](text)
	if err != nil {
		return nil, fmt.Errorf("failed unmarshaling %s: %w", brief(text), err)
	}
	return list, nil
}

func decodeList[T any](text string) ([]T, error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	var items []*T
	if err := decoder.Decode(&items); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("it is empty")
		}
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows after the list")
	}
	if items == nil {
		return nil, errors.New("null is not a list")
	}
	list := make([]T, 0, len(items))
	for i, item := range items {
		if item == nil {
			return nil, fmt.Errorf("[%d] is null", i)
		}
		list = append(list, *item)
	}
	return list, nil
}

// brief quotes the beginning of a user-provided text.
func brief(text string) string {
	if len(text) > briefLength {
		return strconv.Quote(text[:briefLength]) + "…"
	}
	return strconv.Quote(text)
}
