package criticalcomponents

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/excerpt"
)

const (
	// maxNote is the longest note that the Events API accepts, in bytes.
	maxNote = 1024
	// maxFault is the maximum length of a text from another source in a note.
	maxFault = 512
	// maxValue is the maximum length of an annotation's value in a note.
	maxValue = 128
)

// note describes the objects or drivers that a Node waits for.
func (f finding) note() string {
	switch f.cause {
	case missing:
		return "Required node-critical DaemonSets do not exist, or lack the label on their metadata or template: " + listed(f.objects)
	case unscheduled:
		return "Node-critical DaemonSets found that were not scheduled to Node yet: " + listed(f.objects)
	case unready:
		return "Unready node-critical Pods found on Node: " + listed(f.objects)
	default:
		return bounded(fmt.Sprintf("Unready required CSI drivers for Node: %v", bound(f.drivers)), maxNote)
	}
}

// bound shortens texts that users control.
func bound(texts []string) []string {
	short := make([]string, 0, len(texts))
	for _, text := range texts {
		short = append(short, bounded(text, maxValue))
	}
	return short
}

// listed returns the names of as many objects as fit into a note, and the number of the others.
func listed(objects []types.NamespacedName) string {
	const room = maxNote - 200 // 200 bytes are for the text before and after the list
	var text strings.Builder
	for i, object := range objects {
		name := object.String()
		if i > 0 && text.Len()+len(name) > room {
			fmt.Fprintf(&text, ", and %d more", len(objects)-i)
			break
		}
		if i > 0 {
			text.WriteString(", ")
		}
		text.WriteString(name)
	}
	return text.String()
}

// related returns a reference to the first of the objects, with the other objects in its fieldPath. If CSI drivers are missing, it returns
// a reference to the CSINode, with the drivers in its fieldPath. Events that differ only in their notes are counted as one, and the later
// notes are lost. The fieldPath keeps such Events apart.
func (f finding) related(node *corev1.Node) *corev1.ObjectReference {
	if f.cause == unregistered {
		return &corev1.ObjectReference{
			APIVersion: "storage.k8s.io/v1", Kind: "CSINode", Name: node.Name,
			FieldPath: bounded(strings.Join(bound(f.drivers), " "), maxFault),
		}
	}
	reference := &corev1.ObjectReference{APIVersion: "apps/v1", Kind: "DaemonSet", Namespace: f.objects[0].Namespace, Name: f.objects[0].Name}
	if f.cause == unready {
		reference.APIVersion, reference.Kind = "v1", "Pod"
	}
	if others := f.objects[1:]; len(others) > 0 {
		reference.FieldPath = bounded("and "+listed(others), maxFault)
	}
	return reference
}

// bounded makes a text valid UTF-8, and cuts it to a number of bytes, between two characters.
func bounded(text string, limit int) string {
	return excerpt.Of(strings.ToValidUTF8(text, "\uFFFD"), limit)
}

func (b badAnnotation) note(node string) string {
	return bounded(fmt.Sprintf("Annotation %q names no CSI driver: its value %q cannot be one, as %s. Set it to the name that the driver "+
		"registers with in the CSINode, or remove it; until then Node %q keeps its taint",
		b.key, bounded(b.value, maxValue), b.why, node), maxNote)
}

func affinityNote(fault error) string {
	return bounded(fmt.Sprintf("Part of the required node affinity cannot be parsed and matches no Node, for which no Pod is made and "+
		"none is waited for: correct it: %v", fault), maxNote)
}

// failureNote includes a remedy if one is known.
func failureNote(err error) string {
	remedy := "it is tried again"
	if apierrors.IsForbidden(err) {
		remedy = "grant it, for example with the roles in deploy/node-controller; it is tried again"
	}
	return fmt.Sprintf("The taint stays because of an error; %s: %s", remedy, bounded(err.Error(), maxFault))
}
