// Package crds contains the CustomResourceDefinitions that the garden operator deploys into the runtime cluster.
//
// The definitions of other projects are copies of files in their Go modules, which are licensed under the Apache License 2.0:
// hack/garden-crds.sh says which module and version each folder is from. The copies are unchanged, except for the folders monitoring,
// opentelemetry, victoria and perses. The definitions in these four folders have no descriptions of fields, and only the version that is
// stored: the process keeps all definitions in memory, and descriptions would be four fifths of their size. The definitions in the folder
// extensions are generated from package api/extensions/v1alpha1. There is no definition of Hvpas: no module contains it, and the operator
// only removes this kind.
package crds

import (
	"bufio"
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/version"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/deploy"
)

//go:embed etcd/*.yaml vpa/*.yaml istio/*.yaml fluent/*.yaml monitoring/*.yaml extensions/*.yaml
//go:embed opentelemetry/*.yaml victoria/*.yaml perses/*.yaml
var files embed.FS

// Each folder is decoded once, because that takes much longer than a copy. Callers must not change the returned objects: see copies.
var (
	etcd, vpa, istio, fluent = once(files, "etcd"), once(files, "vpa"), once(files, "istio"), once(files, "fluent")
	monitoring, extensions   = once(files, "monitoring"), once(files, "extensions")
	opentelemetry, victoria  = once(files, "opentelemetry"), once(files, "victoria")
	perses                   = once(files, "perses")
	managedResources         = once(deploy.Files, "crds")
)

func once(from fs.FS, folder string) func() ([]*unstructured.Unstructured, error) {
	return sync.OnceValues(func() ([]*unstructured.Unstructured, error) { return read(from, folder) })
}

// copies returns copies of definitions, which the caller may change.
func copies(definitions []*unstructured.Unstructured, err error) ([]*unstructured.Unstructured, error) {
	all := make([]*unstructured.Unstructured, 0, len(definitions))
	for _, each := range definitions {
		all = append(all, each.DeepCopy())
	}
	return all, err
}

// HVPA is the name of the definition of Hvpas, which Gardener deployed up to release 1.109.
const HVPA = "hvpas.autoscaling.k8s.io"

// deletionProtected is a label of objects. Webhooks deny their deletion unless an annotation confirms it.
const deletionProtected = "gardener.cloud/deletion-protected"

// derived are the kinds whose objects another component makes out of other data. Such objects do not prevent the deletion of their
// definition.
var derived = []string{"verticalpodautoscalercheckpoints.autoscaling.k8s.io"}

// IsDerived reports whether a component that the operator deploys creates the objects of the definition with this name.
func IsDerived(name string) bool { return slices.Contains(derived, name) }

// ETCD returns the definitions for etcd-druid. Their deletion is protected.
func ETCD() ([]*unstructured.Unstructured, error) { return protected(etcd()) }

// VPA returns the definitions for the vertical pod autoscaler. Because of an annotation, managedresource-controller never deletes them.
func VPA() ([]*unstructured.Unstructured, error) {
	definitions, err := copies(vpa())
	for _, each := range definitions {
		annotations := each.GetAnnotations()
		annotations[resourcesv1alpha1.KeepObject] = "true"
		each.SetAnnotations(annotations)
	}
	return definitions, err
}

// Istio returns the definitions for Istio.
func Istio() ([]*unstructured.Unstructured, error) { return copies(istio()) }

// Fluent returns the definitions for fluent-operator, without the definitions for fluentd.
func Fluent() ([]*unstructured.Unstructured, error) { return copies(fluent()) }

// Monitoring returns the definitions for prometheus-operator.
func Monitoring() ([]*unstructured.Unstructured, error) { return copies(monitoring()) }

// OpenTelemetry returns the definitions for the OpenTelemetry operator.
func OpenTelemetry() ([]*unstructured.Unstructured, error) { return copies(opentelemetry()) }

// Victoria returns the definition for the operator of VictoriaMetrics that the garden needs.
func Victoria() ([]*unstructured.Unstructured, error) { return copies(victoria()) }

// Perses returns the definitions for perses-operator.
func Perses() ([]*unstructured.Unstructured, error) { return copies(perses()) }

// releaseAnnotation is an annotation of the definitions of prometheus-operator with its release.
const releaseAnnotation = "operator.prometheus.io/version"

// HasRelease reports whether a definition has an annotation with the release of its program, so that Newer can compare releases.
func HasRelease(definition *unstructured.Unstructured) bool {
	return definition.GetAnnotations()[releaseAnnotation] != ""
}

// IsOfGardener reports whether a definition is of a group that only programs of Gardener define.
func IsOfGardener(definition *unstructured.Unstructured) bool {
	return strings.HasSuffix(definition.GetName(), ".gardener.cloud")
}

// Newer returns the reason why the live definition is newer than our definition, or "" if it is not newer. The live definition is newer if
// it belongs to a later release of its program, or if it has versions of its kind that our definition does not have. Objects may depend on
// a newer definition, so the operator must not replace it.
func Newer(live, ours *unstructured.Unstructured) string {
	theirs := live.GetAnnotations()[releaseAnnotation]
	release, err := version.ParseGeneric(theirs)
	own, ownErr := version.ParseGeneric(ours.GetAnnotations()[releaseAnnotation])
	if err == nil && ownErr == nil && own.LessThan(release) {
		return "it is of release " + theirs
	}
	known := versionsOf(ours)
	for _, each := range versionsOf(live) {
		if !slices.Contains(known, each) {
			return "it has version " + each
		}
	}
	return ""
}

// versionsOf returns the names of the versions of a definition.
func versionsOf(definition *unstructured.Unstructured) []string {
	list, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	names := make([]string, 0, len(list))
	for _, each := range list {
		fields, _ := each.(map[string]any)
		name, _, _ := unstructured.NestedString(fields, "name")
		names = append(names, name)
	}
	return names
}

// Extensions returns those definitions of extensions.gardener.cloud that gardenlet does not deploy into the runtime cluster of a Garden.
// Their deletion is protected.
func Extensions() ([]*unstructured.Unstructured, error) { return protected(extensions()) }

// ManagedResources returns the definition of ManagedResources. Its deletion is protected.
func ManagedResources() ([]*unstructured.Unstructured, error) { return protected(managedResources()) }

func protected(definitions []*unstructured.Unstructured, err error) ([]*unstructured.Unstructured, error) {
	definitions, err = copies(definitions, err)
	for _, each := range definitions {
		labels := each.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[deletionProtected] = "true"
		each.SetLabels(labels)
	}
	return definitions, err
}

// read returns the definitions in all files of a folder, sorted by name.
func read(from fs.FS, folder string) ([]*unstructured.Unstructured, error) {
	entries, err := fs.ReadDir(from, folder)
	if err != nil {
		return nil, fmt.Errorf("read definitions: %w", err)
	}
	var all []*unstructured.Unstructured
	for _, entry := range entries {
		content, err := fs.ReadFile(from, path.Join(folder, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("read definitions: %w", err)
		}
		definitions, err := parse(content)
		if err != nil {
			return nil, fmt.Errorf("read definitions in %s/%s: %w", folder, entry.Name(), err)
		}
		all = append(all, definitions...)
	}
	slices.SortFunc(all, func(a, b *unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) })
	return all, nil
}

func parse(content []byte) ([]*unstructured.Unstructured, error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	var all []*unstructured.Unstructured
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("split documents: %w", err)
		}
		text, err := yaml.YAMLToJSON(document)
		if err != nil {
			return nil, fmt.Errorf("decode YAML: %w", err)
		}
		if bytes.Equal(bytes.TrimSpace(text), []byte("null")) {
			continue
		}
		definition := &unstructured.Unstructured{}
		if err := definition.UnmarshalJSON(text); err != nil {
			return nil, fmt.Errorf("decode definition: %w", err)
		}
		unstructured.RemoveNestedField(definition.Object, "status")
		all = append(all, definition)
	}
}
