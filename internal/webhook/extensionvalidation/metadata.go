package extensionvalidation

import (
	"cmp"
	"slices"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// API servers have checked metadata before they call a webhook. Metadata that is larger than they would pass on, or than any user
// needs, comes from a client that posts here directly, and is not checked item by item.
const (
	// maxEntries limits how many labels and annotations together are checked.
	maxEntries = 10_000
	// maxItems limits owners, finalizers and managers of fields, each.
	maxItems = 1000
)

func metadataPath() *field.Path { return field.NewPath("metadata") }

// metadata validates the metadata of one object.
func (f *findings) metadata(meta *metav1.ObjectMeta, namespaced bool) {
	if f.exceedsLimits(meta) {
		return
	}
	meta = withoutLongTexts(meta)
	f.add(sortByValue(apivalidation.ValidateObjectMeta(meta, namespaced, apivalidation.NameIsDNSSubdomain, metadataPath()))...)
}

// metadataUpdate validates a change of metadata.
func (f *findings) metadataUpdate(now, before *metav1.ObjectMeta) {
	if f.exceedsLimits(now) {
		return
	}
	f.add(sortByValue(apivalidation.ValidateObjectMetaUpdate(withoutLongTexts(now), before, metadataPath()))...)
}

// exceedsLimits adds an error if metadata exceed the limits.
func (f *findings) exceedsLimits(meta *metav1.ObjectMeta) bool {
	var found field.ErrorList
	if entries := len(meta.Labels) + len(meta.Annotations); entries > maxEntries {
		found = append(found, field.TooMany(metadataPath(), entries, maxEntries))
	}
	for child, items := range map[string]int{
		"ownerReferences": len(meta.OwnerReferences), "finalizers": len(meta.Finalizers), "managedFields": len(meta.ManagedFields),
	} {
		if items > maxItems {
			found = append(found, field.TooMany(metadataPath().Child(child), items, maxItems))
		}
	}
	slices.SortFunc(found, func(a, b *field.Error) int { return cmp.Compare(a.Field, b.Field) })
	f.add(found...)
	return len(found) > 0
}

// withoutLongTexts returns metadata without the ends of long texts that the checks would repeat with every item or character.
func withoutLongTexts(meta *metav1.ObjectMeta) *metav1.ObjectMeta {
	short := *meta
	short.OwnerReferences = slices.Clone(meta.OwnerReferences)
	for i := range short.OwnerReferences {
		owner := &short.OwnerReferences[i]
		owner.APIVersion, owner.Kind, owner.Name = cut(owner.APIVersion, maxValue), cut(owner.Kind, maxValue), cut(owner.Name, maxValue)
	}
	short.ManagedFields = slices.Clone(meta.ManagedFields)
	for i := range short.ManagedFields {
		short.ManagedFields[i].Manager = cut(short.ManagedFields[i].Manager, maxValue)
	}
	return &short
}

// sortByValue sorts the errors of each field, which come from maps in any order, by value. Fields keep their order.
func sortByValue(found field.ErrorList) field.ErrorList {
	position := map[string]int{}
	for i, each := range found {
		if _, seen := position[each.Field]; !seen {
			position[each.Field] = i
		}
	}
	text := func(each *field.Error) string {
		value, _ := each.BadValue.(string)
		return value
	}
	slices.SortStableFunc(found, func(a, b *field.Error) int {
		return cmp.Or(cmp.Compare(position[a.Field], position[b.Field]), cmp.Compare(text(a), text(b)), cmp.Compare(a.Detail, b.Detail))
	})
	return found
}
