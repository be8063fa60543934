package view

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/fields"
	"github.com/espalier-dev/espalier/internal/apply/merge"
)

// The reasons of Events that "why" reads.
const (
	driftRepaired     = "DriftRepaired"
	driftRepairPaused = "DriftRepairPaused"
)

// maxFields limits how many fields of one writer are listed.
const maxFields = 8

// Writer is a field manager that has written fields of an object, other than Espalier and status.
type Writer struct {
	Manager   string      `json:"manager"`
	Operation string      `json:"operation"`
	Time      metav1.Time `json:"time"`
	// Fields are paths of fields that the writer owns, at most 8; MoreFields is how many more there are.
	Fields     []string `json:"fields"`
	MoreFields int      `json:"moreFields,omitempty"`
}

// Why explains an object: which set has it, and the fate of changes by other clients.
type Why struct {
	Object ID `json:"object"`
	// Exists is "yes", "no", or the reason why it is not known.
	Exists string `json:"exists"`
	// Set is the set that has the object; nil if none was found.
	Set *Set `json:"set,omitempty"`
	// OtherSets are other sets whose status lists the object.
	OtherSets []string `json:"otherSets,omitempty"`
	// Edits is the fate of changes by other clients, as a sentence that begins with its verb.
	Edits string `json:"edits"`
	// LastDrift is the last Event about a repair of the object, LastPause the last one about a pause of the repairs.
	LastDrift *Event `json:"lastDrift,omitempty"`
	LastPause *Event `json:"lastPause,omitempty"`
	// Writers are other field managers that own fields.
	Writers []Writer `json:"writers,omitempty"`
	// WouldChange names the changes that the controller would make.
	WouldChange string `json:"wouldChange,omitempty"`
	// ToChange and ToStop say how to change the object, and how to stop the controller.
	ToChange string `json:"toChange,omitempty"`
	ToStop   string `json:"toStop,omitempty"`
	// Remarks name information that the user may not read.
	Remarks []string `json:"remarks,omitempty"`
}

// Facts are the observations from which WhyOf concludes.
type Facts struct {
	Object ID
	// Live is the metadata of the object; nil if the object does not exist or cannot be read.
	Live *metav1.PartialObjectMetadata
	// Unreadable says why the object cannot be read; empty if it is known whether the object exists.
	Unreadable string
	// Sets are all sets that the user may read.
	Sets []resourcesv1alpha1.ManagedResource
	// Events are about the set that Owner returns.
	Events []corev1.Event
	// Plan is the plan of this set; nil if there is none.
	Plan *Plan
	// Remarks name information that the user may not read.
	Remarks []string
}

// Owner returns the set to which the object belongs. If the annotation of the live object names a set, it is this set. Otherwise, it is
// the first set whose status lists the object. The result is nil if Sets does not contain such a set.
func (f *Facts) Owner() *resourcesv1alpha1.ManagedResource {
	origin, named := f.origin()
	for i := range f.Sets {
		if named && f.Sets[i].Namespace == origin.Namespace && f.Sets[i].Name == origin.Name {
			return &f.Sets[i]
		}
	}
	for i := range f.Sets {
		if !named && f.listed(&f.Sets[i]) != nil {
			return &f.Sets[i]
		}
	}
	return nil
}

func (f *Facts) origin() (resourcesv1alpha1.Origin, bool) {
	if f.Live == nil {
		return resourcesv1alpha1.Origin{}, false
	}
	origin, err := resourcesv1alpha1.ParseOrigin(f.Live.Annotations[resourcesv1alpha1.OriginAnnotation])
	return origin, err == nil
}

// listed returns the entry of the object in the status of a set; nil if there is none. The version of the kind is not compared.
func (f *Facts) listed(mr *resourcesv1alpha1.ManagedResource) *resourcesv1alpha1.ObjectReference {
	group := schema.FromAPIVersionAndKind(f.Object.APIVersion, f.Object.Kind).Group
	for i := range mr.Status.Resources {
		ref := &mr.Status.Resources[i]
		if ref.GroupVersionKind().Group == group && ref.Kind == f.Object.Kind &&
			ref.Namespace == f.Object.Namespace && ref.Name == f.Object.Name {
			return ref
		}
	}
	return nil
}

// WhyOf explains an object.
func WhyOf(f *Facts) Why {
	why := Why{Object: f.Object, Exists: "yes", Writers: f.writers(), Remarks: f.Remarks}
	switch {
	case f.Unreadable != "":
		why.Exists = f.Unreadable
	case f.Live == nil:
		why.Exists = "no"
	}
	owner := f.Owner()
	for i := range f.Sets {
		if each := &f.Sets[i]; each != owner && f.listed(each) != nil {
			why.OtherSets = append(why.OtherSets, each.Namespace+"/"+each.Name)
		}
	}
	if owner == nil {
		why.Edits = f.withoutOwner()
		return why
	}
	set := SetOf(owner)
	why.Set = &set
	for _, each := range EventsOf(f.Events).Events {
		if each.Object == nil || each.Object.Kind != f.Object.Kind || each.Object.Namespace != f.Object.Namespace ||
			each.Object.Name != f.Object.Name {
			continue
		}
		switch each.Reason {
		case driftRepaired:
			why.LastDrift = &each
		case driftRepairPaused:
			why.LastPause = &each
		}
	}
	why.Edits = f.edits(owner, &why)
	why.WouldChange = f.wouldChange(&set)
	why.ToChange = fmt.Sprintf("change its manifest in Secret %s of namespace %s", strings.Join(set.Secrets, " or "), set.Namespace)
	why.ToStop = fmt.Sprintf("kubectl espalier pause %s -n %s", set.Name, set.Namespace)
	if set.State == Paused {
		why.ToStop = ""
	}
	return why
}

// withoutOwner returns the field Edits for an object of which no set was found.
func (f *Facts) withoutOwner() string {
	origin, named := f.origin()
	switch {
	case named:
		return fmt.Sprintf("not known: the annotation %s of the object names set %s, which does not exist in the source cluster or which "+
			"you may not read", resourcesv1alpha1.OriginAnnotation, origin)
	case f.Live == nil:
		return "not known: no set that you may read lists the object in its status"
	}
	return "stay: no set that you may read has the object, so Espalier does not change it"
}

// edits returns the field Edits for an object of a set.
func (f *Facts) edits(owner *resourcesv1alpha1.ManagedResource, why *Why) string {
	ref := f.listed(owner)
	applied := corev1beta1.GetCondition(owner.Status.Conditions, resourcesv1alpha1.ResourcesApplied)
	switch {
	case why.Set.State == Deleting:
		return "are lost: the set is being deleted, and its objects with it"
	case why.Set.State == Paused:
		return fmt.Sprintf("stay until the set is resumed (%s): kubectl espalier resume %s -n %s", why.Set.Problem, owner.Name, owner.Namespace)
	case why.Set.State == PlanOnly:
		return fmt.Sprintf("stay until the set is applied (%s)", why.Set.Problem)
	case why.Set.State == Pending:
		return "stay: " + why.Set.Problem
	case ref == nil:
		return "stay: the annotation of the object names the set, whose status does not list the object"
	case merge.Truthy(ref.Annotations[resourcesv1alpha1.Ignore]):
		return fmt.Sprintf("stay: the annotation %s of its manifest says that the object is created once and never changed",
			resourcesv1alpha1.Ignore)
	case owner.Annotations[resourcesv1alpha1.Drift] == resourcesv1alpha1.DriftReport:
		return fmt.Sprintf("stay until the manifest changes, and are reported (annotation %s=%s)", resourcesv1alpha1.Drift,
			resourcesv1alpha1.DriftReport)
	case applied.Reason == resourcesv1alpha1.ConditionCannotReadSecret:
		return "stay until the controller can read the manifests: " + applied.Message
	case why.LastPause != nil && (why.LastDrift == nil || why.LastDrift.Last.Before(&why.LastPause.Last)):
		return "are undone after a pause: " + why.LastPause.Note
	}
	return "are undone at once: the set keeps the object as its manifest says"
}

// wouldChange returns the field WouldChange.
func (f *Facts) wouldChange(set *Set) string {
	switch {
	case f.Plan != nil:
		return f.Plan.about(f.Object)
	case set.State == Paused:
		return "nothing while the set is paused; afterwards, all that differs from the manifest"
	case set.State == Failed || set.State == Applying:
		return set.Problem
	case set.State == PlanOnly:
		return "not known: the plan cannot be read"
	}
	return "nothing: the set is applied"
}

// writers returns the field managers of other programs that own fields of the object outside of its status, the latest first.
func (f *Facts) writers() []Writer {
	if f.Live == nil {
		return nil
	}
	var all []Writer
	for _, entry := range f.Live.ManagedFields {
		if fields.IsOwnName(entry.Manager) || entry.Subresource == "status" {
			continue
		}
		writer := Writer{Manager: entry.Manager, Operation: string(entry.Operation), Fields: pathsOf(entry)}
		if entry.Time != nil {
			writer.Time = *entry.Time
		}
		if more := len(writer.Fields) - maxFields; more > 0 {
			writer.Fields, writer.MoreFields = writer.Fields[:maxFields], more
		}
		all = append(all, writer)
	}
	slices.SortStableFunc(all, func(a, b Writer) int { return b.Time.Compare(a.Time.Time) })
	return all
}

// pathsOf returns the fields of an entry. It leaves out items of lists that are identified by their value, because their paths contain it.
func pathsOf(entry metav1.ManagedFieldsEntry) []string {
	set, paths := fieldpath.Set{}, []string{}
	if entry.FieldsV1 == nil || set.FromJSON(entry.FieldsV1.GetRawReader()) != nil {
		return paths
	}
	set.Leaves().Iterate(func(path fieldpath.Path) {
		if !slices.ContainsFunc(path, func(e fieldpath.PathElement) bool { return e.Value != nil }) {
			paths = append(paths, strings.TrimPrefix(path.String(), "."))
		}
	})
	return paths
}

// Text implements Answer.
func (w Why) Text(p *Printer) {
	heading := w.Object.String()
	switch {
	case w.Exists == "no":
		heading += " (does not exist)"
	case w.Exists != "yes":
		heading += " (" + w.Exists + ")"
	}
	fmt.Fprintln(p, heading)
	if w.Set != nil {
		p.fact("set", cell{w.Set.Key() + ", " + string(w.Set.State), w.Set.State.cell().colour})
	}
	if len(w.OtherSets) > 0 {
		p.fact("also wanted by", cell{strings.Join(w.OtherSets, ", "), yellow})
	}
	p.fact("edits", text(w.Edits))
	if w.LastDrift != nil {
		p.fact("last drift", text(p.age(w.LastDrift.Last)+" ago: "+w.LastDrift.text()))
	}
	if w.LastPause != nil {
		p.fact("repair pause", cell{p.age(w.LastPause.Last) + " ago: " + w.LastPause.text(), yellow})
	}
	for _, each := range w.Writers {
		list := strings.Join(each.Fields, ", ")
		if each.MoreFields > 0 {
			list += fmt.Sprintf(" and %d more", each.MoreFields)
		}
		p.fact("also written by", text(fmt.Sprintf("%s (%s), %s ago: %s", each.Manager, each.Operation, p.age(each.Time), list)))
	}
	p.fact("would change", text(w.WouldChange))
	p.fact("to change it", text(w.ToChange))
	p.fact("to stop", text(w.ToStop))
	for _, remark := range w.Remarks {
		p.fact("not read", cell{remark, yellow})
	}
}
