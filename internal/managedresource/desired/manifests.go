package desired

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/manifest"
)

// ErrChanged means that a Secret of the set changed after the Content was read. The caller must read the Content again.
var ErrChanged = errors.New("a Secret of the set changed meanwhile")

// Manifests returns the manifests of the items of one version of a set's content. It stores the data that it has read and decoded. So the
// caller must drop it after the reconciliation, unless it is a result of Undecoded. Its methods may be called concurrently.
type Manifests struct {
	reader   *Reader
	set      *resourcesv1alpha1.ManagedResource
	versions []Version

	mu        sync.Mutex
	values    data                          // nil until the Secrets are read
	documents map[Place][]manifest.Document // by Secret and data key
	objects   map[*Item]*unstructured.Unstructured
}

// Manifests returns the manifests of a Content that was read earlier from Secrets of these versions. The result reads the Secrets again
// when the caller first requests a manifest.
func (r *Reader) Manifests(mr *resourcesv1alpha1.ManagedResource, versions []Version) *Manifests {
	return &Manifests{reader: r, set: mr, versions: versions, objects: map[*Item]*unstructured.Unstructured{}}
}

// Undecoded returns manifests from the data that m has read, without the objects that m has decoded. If m has read the Secrets, the result
// does not read them again. The caller may keep the result after the reconciliation.
func (m *Manifests) Undecoded() *Manifests {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &Manifests{reader: m.reader, set: m.set, versions: m.versions, values: m.values, objects: map[*Item]*unstructured.Unstructured{}}
}

// Of returns the manifest of an item. The caller must not change it. The error is ErrChanged if the Secrets have another version now.
func (m *Manifests) Of(ctx context.Context, i *Item) (*unstructured.Unstructured, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if object := m.objects[i]; object != nil {
		return object, nil
	}
	if m.values == nil {
		values, versions, err := m.reader.readSecrets(ctx, m.set)
		if err != nil {
			return nil, err
		}
		if !slices.Equal(versions, m.versions) {
			return nil, ErrChanged
		}
		m.values = values
	}
	at := slices.IndexFunc(m.split(i.Place), func(d manifest.Document) bool { return d.Index == i.Place.Index })
	if at < 0 || documentDigest(m.split(i.Place)[at]) != i.raw {
		return nil, ErrChanged
	}
	content, err := m.split(i.Place)[at].Decode()
	if err != nil {
		return nil, fmt.Errorf("decode document: %w", err)
	}
	object := &unstructured.Unstructured{Object: content}
	m.reader.defaultNamespace(object)
	manifest.FoldStringData(object.Object)
	m.objects[i] = object
	return object, nil
}

// split returns the documents of a data value. The caller has locked mu.
func (m *Manifests) split(at Place) []manifest.Document {
	key := Place{Secret: at.Secret, DataKey: at.DataKey}
	if m.documents[key] == nil {
		if m.documents == nil {
			m.documents = map[Place][]manifest.Document{}
		}
		m.documents[key], _ = manifest.Split(at.DataKey, m.values[at.Secret][at.DataKey], m.reader.MaxDecompressedBytes)
	}
	return m.documents[key]
}
