package desired

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

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
