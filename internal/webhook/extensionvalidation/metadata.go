package extensionvalidation

import (
	"cmp"
	"slices"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// API servers check metadata before they call a webhook. Larger metadata than an API server accepts, or than any user needs, comes from a
// client that calls this server directly, and is not checked item by item.
const (
	// maxEntries limits the number of labels and annotations together.
	maxEntries = 10_000
	// maxItems limits the numbers of owner references, finalizers and managed fields, each.
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

// exceedsLimits reports whether the metadata exceed the limits, and adds the errors.
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

// withoutLongTexts returns metadata in which long texts are shortened, if the checks would repeat them for every item or character.
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

// sortByValue sorts the errors of each field by value, because they come from maps in random order. The order of the fields stays.
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
