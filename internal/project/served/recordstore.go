package served

import (
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

// recordStore stores objects by key and by indexes. It needs less than half of the memory for trimmed objects: it stores Shoots and
// metadata, of which there are many, as records. Each read returns newly built objects.
type recordStore struct{ records toolscache.ThreadSafeStore }

func newRecordStore(indexers toolscache.Indexers) recordStore {
	ofRecords := toolscache.Indexers{}
	for name, index := range indexers {
		ofRecords[name] = func(stored any) ([]string, error) { return index(unpack(stored)) }
	}
	return recordStore{toolscache.NewThreadSafeStore(ofRecords, toolscache.Indices{})}
}

func (s recordStore) set(key string, object any) { s.records.Update(key, pack(object)) }

func (s recordStore) replace(objects map[types.NamespacedName]runtime.Object, version string) {
	records := make(map[string]any, len(objects))
	for key, each := range objects {
		records[nameOf(key)] = pack(each)
	}
	s.records.Replace(records, version)
}

func (s recordStore) remove(key string) { s.records.Delete(key) }

func (s recordStore) keys() []string { return s.records.ListKeys() }

// get returns an object, or nil if there is none.
func (s recordStore) get(key string) any {
	stored, _ := s.records.Get(key)
	return unpack(stored)
}

// all returns all objects.
func (s recordStore) all() []any { return unpackAll(s.records.List()) }

// byIndex returns the objects with a key of an index.
func (s recordStore) byIndex(index, key string) ([]any, error) {
	found, err := s.records.ByIndex(index, key)
	return unpackAll(found), err
}

// record has the identity fields that trim keeps.
type record struct {
	namespace, name, version string
	uid                      types.UID
	generation               int64
	created                  metav1.Time
	deleted                  *metav1.Time
}

func (r *record) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: r.namespace, Name: r.name, UID: r.uid, ResourceVersion: r.version,
		Generation: r.generation, CreationTimestamp: r.created, DeletionTimestamp: r.deleted,
	}
}

func recordOf(trimmed *metav1.ObjectMeta) record {
	return record{
		namespace: trimmed.Namespace, name: trimmed.Name, uid: trimmed.UID, version: trimmed.ResourceVersion,
		generation: trimmed.Generation, created: trimmed.CreationTimestamp, deleted: trimmed.DeletionTimestamp,
	}
}

type shootRecord struct {
	record
	secretBinding, credentialsBinding *string
}

type metadataRecord struct {
	record
	labels unique.Handle[labelValues]
	owned  bool
}

// labelValues are the values of keptLabels, in the same order.
type labelValues [3]labelValue

type labelValue struct {
	value string
	has   bool
}

func (r *metadataRecord) object() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{ObjectMeta: r.meta()}
	values := r.labels.Value()
	for i, label := range keptLabels() {
		if values[i].has {
			metav1.SetMetaDataLabel(&object.ObjectMeta, label, values[i].value)
		}
	}
	if r.owned {
		object.OwnerReferences = shootOwners()
	}
	return object
}

// pack makes a record of a trimmed object. Types without a record stay as they are.
func pack(trimmed any) any {
	switch found := trimmed.(type) {
	case *corev1beta1.Shoot:
		return &shootRecord{
			record: recordOf(&found.ObjectMeta), secretBinding: found.Spec.SecretBindingName, credentialsBinding: found.Spec.CredentialsBindingName,
		}
	case *metav1.PartialObjectMetadata:
		var values labelValues
		for i, label := range keptLabels() {
			values[i].value, values[i].has = found.Labels[label]
		}
		return &metadataRecord{record: recordOf(&found.ObjectMeta), labels: unique.Make(values), owned: ownedByShoot(found)}
	}
	return trimmed
}

// unpack returns the object from which a record was made. Other values stay as they are.
func unpack(stored any) any {
	switch found := stored.(type) {
	case *shootRecord:
		return &corev1beta1.Shoot{ObjectMeta: found.meta(), Spec: corev1beta1.ShootSpec{
			SecretBindingName: found.secretBinding, CredentialsBindingName: found.credentialsBinding,
		}}
	case *metadataRecord:
		return found.object()
	}
	return stored
}

// unpackAll replaces the records of a list by their objects, in place. The caller must own the list.
func unpackAll(stored []any) []any {
	for i := range stored {
		stored[i] = unpack(stored[i])
	}
	return stored
}
