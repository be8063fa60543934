// Package desired computes which NetworkPolicies a Service needs: pure functions of the Service, the client namespaces and the Ingresses
// with the Service as a backend. It neither reads nor writes a cluster.
package desired

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// Exposure is a parsed and validated Service: its selector, the ports that it exposes, and its clients.
type Exposure struct {
	service   types.NamespacedName
	selector  map[string]string
	ports     []port
	selectors []labels.Selector
	// alias replaces the namespace in the label keys of other namespaces; nil stands for the namespace itself.
	alias *string
	// world are the ports that every peer may reach if isOpenToAll is true; an empty list stands for all ports.
	world       []networkingv1.NetworkPolicyPort
	isOpenToAll bool
	// WorldFault says why the annotation for every peer cannot be parsed; nil if it can. The existing policy for every peer then stays as it
	// is.
	WorldFault *Fault
}

// Fault is a mistake in an annotation of a Service.
type Fault struct {
	Annotation string // the key
	Problem    string
	Remedy     string // the annotation to write instead
}

// String returns all of it in one line.
func (f Fault) String() string {
	return fmt.Sprintf("annotation %s: %s: %s", f.Annotation, f.Problem, f.Remedy)
}

// The characters that are valid wherever an alias is used: in names of policies, and in keys of labels.
var (
	aliasText          = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	namespaceAliasText = regexp.MustCompile(`^[-._A-Za-z0-9]*$`)
)

// Read reads a Service. Faults are mistakes because of which the set of its policies is not known, so that no policy may be created or
// deleted. A mistake in the annotation for every peer is not among them, see Exposure.WorldFault.
func Read(service *corev1.Service) (*Exposure, []Fault) {
	r := reader{service: service, e: &Exposure{
		service:  types.NamespacedName{Namespace: service.Namespace, Name: service.Name},
		selector: service.Spec.Selector,
	}}
	for _, p := range service.Spec.Ports {
		r.add(targetPort(p))
	}
	r.namespaceSelectors()
	r.namespaceAlias()
	r.policyPorts()
	r.aliasPorts()
	r.fromWorld()
	return r.e, r.faults
}

// Selects reports whether the annotation of the Service makes a namespace with these labels a client.
func (e *Exposure) Selects(namespace labels.Set) bool { return Matches(e.selectors, namespace) }

// SelectsNone reports whether only the Service's own namespace can be a client.
func (e *Exposure) SelectsNone() bool { return len(e.selectors) == 0 }

// Matches reports whether one of the selectors matches.
func Matches(selectors []labels.Selector, set labels.Set) bool {
	return slices.ContainsFunc(selectors, func(s labels.Selector) bool { return s.Matches(set) })
}

// reader collects the ports and clients of a Service, and its faults.
type reader struct {
	service *corev1.Service
	e       *Exposure
	faults  []Fault
}

func (r *reader) fault(annotation, remedy string, problem error) {
	r.faults = append(r.faults, Fault{Annotation: annotation, Problem: problem.Error(), Remedy: remedy})
}

// add keeps the first of several equal ports. clash is true if a different port of the same name exists already.
func (r *reader) add(p port) (clash bool) {
	for _, known := range r.e.ports {
		if known.id(r.service.Name) == p.id(r.service.Name) {
			return !known.equal(p)
		}
	}
	r.e.ports = append(r.e.ports, p)
	return false
}

func (r *reader) namespaceSelectors() {
	const annotation = resourcesv1alpha1.NetworkingNamespaceSelectors
	text, ok := r.service.Annotations[annotation]
	if !ok {
		return
	}
	var fault *Fault
	if r.e.selectors, fault = Selectors(text); fault != nil {
		r.faults = append(r.faults, *fault)
	}
}

// Selectors parses the value of the annotation that selects client namespaces.
func Selectors(text string) ([]labels.Selector, *Fault) {
	const remedy = `write a JSON list of label selectors such as [{"matchLabels":{"role":"client"}}], or remove the annotation`
	fault := func(err error) *Fault {
		return &Fault{Annotation: resourcesv1alpha1.NetworkingNamespaceSelectors, Problem: err.Error(), Remedy: remedy}
	}
	list, err := parseList[metav1.LabelSelector](text)
	if err != nil {
		return nil, fault(err)
	}
	selectors := make([]labels.Selector, 0, len(list))
	for i := range list {
		selector, err := metav1.LabelSelectorAsSelector(&list[i])
		if err != nil {
			return nil, fault(fmt.Errorf("failed parsing %s to labels.Selector: %w", brief(metav1.FormatLabelSelector(&list[i])), err))
		}
		selectors = append(selectors, selector)
	}
	return selectors, nil
}

func (r *reader) namespaceAlias() {
	const annotation = resourcesv1alpha1.NetworkingPodLabelSelectorNamespaceAlias
	alias, ok := r.service.Annotations[annotation]
	if !ok {
		return
	}
	if !namespaceAliasText.MatchString(alias) {
		r.fault(annotation, "it becomes a part of a label's key: use letters, digits, dashes, dots and underscores",
			fmt.Errorf("%s cannot be a part of a label's key", brief(alias)))
	}
	r.e.alias = &alias
}

// policyPorts reads the deprecated pair of annotations.
func (r *reader) policyPorts() {
	alias, list := r.service.Annotations[resourcesv1alpha1.NetworkingFromPolicyPodLabelSelector],
		r.service.Annotations[resourcesv1alpha1.NetworkingFromPolicyAllowedPorts]
	if alias != "" && list != "" {
		r.portsOf(resourcesv1alpha1.NetworkingFromPolicyPodLabelSelector, resourcesv1alpha1.NetworkingFromPolicyAllowedPorts, alias, list)
	}
}

func (r *reader) aliasPorts() {
	for _, annotation := range slices.Sorted(maps.Keys(r.service.Annotations)) {
		if alias, ok := aliasOf(annotation); ok {
			r.portsOf(annotation, annotation, alias, r.service.Annotations[annotation])
		}
	}
}

// aliasOf returns the alias in the key of an annotation. The deprecated key has none.
func aliasOf(annotation string) (string, bool) {
	tail, ok := strings.CutPrefix(annotation, resourcesv1alpha1.NetworkingFromPrefix)
	if !ok || annotation == resourcesv1alpha1.NetworkingFromPolicyAllowedPorts {
		return "", false
	}
	return strings.CutSuffix(tail, resourcesv1alpha1.NetworkingAllowedPortsSuffix)
}

func (r *reader) portsOf(aliasAnnotation, annotation, alias, list string) {
	if !aliasText.MatchString(alias) {
		r.fault(aliasAnnotation, "the alias becomes a part of a policy's name: use lower-case letters, digits, dashes and dots between a "+
			"letter or digit at both ends", fmt.Errorf("%s cannot be a part of a policy's name", brief(alias)))
		return
	}
	const remedy = `write a JSON list of ports such as [{"port":8080,"protocol":"TCP"}], or remove the annotation`
	entries, err := parsePorts(list)
	if err != nil {
		r.fault(annotation, remedy, err)
		return
	}
	for i, entry := range entries {
		if entry.Port == nil {
			r.fault(annotation, remedy, fmt.Errorf("[%d]: port is missing", i))
			continue
		}
		if r.add(port{protocol: *entry.Protocol, number: *entry.Port, end: entry.EndPort, alias: alias}) {
			r.fault(annotation, "leave one of them",
				fmt.Errorf("[%d]: port %s/%s is listed before with another endPort", i, *entry.Protocol, entry.Port))
		}
	}
}

func (r *reader) fromWorld() {
	const annotation = resourcesv1alpha1.NetworkingFromWorldToPorts
	text, ok := r.service.Annotations[annotation]
	if !ok {
		return
	}
	entries, err := parsePorts(text)
	if err != nil {
		r.e.WorldFault = &Fault{
			Annotation: annotation, Problem: err.Error(),
			Remedy: `write a JSON list of ports such as [{"port":8080,"protocol":"TCP"}], [] for all ports, or remove the annotation`,
		}
		return
	}
	r.e.world, r.e.isOpenToAll = entries, true
}
