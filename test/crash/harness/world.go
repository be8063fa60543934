package harness

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

// World is a namespace of the source, one of the same name in the target, and the objects of a scenario in them. In texts that its methods
// get, $NS stands for the name of the namespace.
//
// After a method has failed, the later ones do nothing, so that a scenario needs no error checks; Err returns the error. Only Close clears
// the error and removes the objects.
type World struct {
	// NS is the namespace.
	NS string
	// Source and Target are administrators' clients; they are the same if there is one cluster.
	Source, Target client.Client

	ctx context.Context //nolint:containedctx // it is the context of the run, with the same lifetime
	err error
	// documents are the contents of the Secrets, by name. references are the names of the Secrets of each set.
	documents  map[string][]string
	references map[string][]string
	// objects are the cluster-scoped objects that the scenario uses, and, without a name, the namespaced kinds of its objects.
	objects sets.Set[object]
}

// object identifies an object of the target or, if name is empty, all objects of a kind in the namespace.
type object struct{ apiVersion, kind, name string }

// NewWorld creates the namespaces.
func NewWorld(ctx context.Context, source, target client.Client) (*World, error) {
	w := &World{
		Source: source, Target: target, ctx: ctx, documents: map[string][]string{}, references: map[string][]string{},
		objects: sets.Set[object]{},
	}
	var err error
	w.NS, err = binary.CreateNamespace(ctx, "crash-", source, target)
	return w, err
}

// Err returns the first error of a method, nil if there was none.
func (w *World) Err() error { return w.err }

// outage is how long an API server may be unavailable during a run.
const outage = time.Minute

// do makes one change, unless an earlier one has failed. It waits for an API server that does not answer.
func (w *World) do(what string, change func() error) {
	if w.err != nil {
		return
	}
	err := change()
	for begin := time.Now(); away(err) && w.ctx.Err() == nil && time.Since(begin) < outage; time.Sleep(100 * time.Millisecond) {
		err = change()
	}
	if err != nil {
		w.err = fmt.Errorf("%s: %w", w.fill(what), err)
	}
}

// away reports whether an API server does not answer, or is starting.
func away(err error) bool {
	var broken *url.Error
	return errors.As(err, &broken) || brokenOff(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsForbidden(err) && strings.Contains(err.Error(), "not yet ready")
}

// brokenOff reports whether an API server ended in the middle of its answer.
func brokenOff(err error) bool {
	return utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) || errors.Is(err, io.ErrUnexpectedEOF)
}

func (w *World) fill(text string) string { return strings.ReplaceAll(text, "$NS", w.NS) }

// AwaitNextSecond waits until the clock of the target's API server shows the next second, so that managedFields distinguish later writes
// from earlier ones.
func (w *World) AwaitNextSecond() {
	w.do("wait for the next second", func() error {
		var begin metav1.Time
		for {
			probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: "probe"}}
			if err := w.Target.Create(w.ctx, probe, client.DryRunAll); err != nil {
				return err
			}
			if begin.IsZero() {
				begin = probe.CreationTimestamp
			}
			if !probe.CreationTimestamp.Equal(&begin) {
				return nil
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
}

// Secret creates or replaces a Secret with documents.
func (w *World) Secret(name string, documents ...string) {
	filled := make([]string, 0, len(documents))
	for _, each := range documents {
		filled = append(filled, w.fill(each))
	}
	w.documents[name] = filled
	w.do("write Secret "+name, func() error {
		for _, each := range filled {
			_, _ = w.learn(each) // the document may be invalid on purpose
		}
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: name},
			Data:       map[string][]byte{dataKey: []byte(value(filled))},
		}
		err := w.Source.Create(w.ctx, secret)
		if apierrors.IsAlreadyExists(err) {
			err = w.Source.Update(w.ctx, secret)
		}
		return err
	})
}

const dataKey = "objects.yaml"

func value(documents []string) string { return strings.Join(documents, "\n---\n") }

// learn parses a manifest, and records the object or its kind in objects, so that the object is read at the end of the run.
func (w *World) learn(manifest string) (*unstructured.Unstructured, error) {
	content := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &content.Object); err != nil {
		return nil, fmt.Errorf("parse manifest: %w", err)
	}
	each := object{apiVersion: content.GetAPIVersion(), kind: content.GetKind()}
	if content.GetNamespace() == "" {
		each.name = content.GetName()
	}
	w.objects.Insert(each)
	return content, nil
}

// Set creates a Secret with documents and a set of the same name that references it. change, which may be nil, changes the set before its
// creation.
func (w *World) Set(name string, change func(*resourcesv1alpha1.ManagedResource), documents ...string) {
	w.Secret(name, documents...)
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: name}}
	mr.Spec.SecretRefs = []corev1.LocalObjectReference{{Name: name}}
	if change != nil {
		change(mr)
	}
	w.note(mr)
	w.do("create set "+name, func() error { return w.Source.Create(w.ctx, mr) })
}

func (w *World) note(mr *resourcesv1alpha1.ManagedResource) {
	w.references[mr.Name] = nil
	for _, ref := range mr.Spec.SecretRefs {
		w.references[mr.Name] = append(w.references[mr.Name], ref.Name)
	}
}

// Change updates a set, and retries on conflicts.
func (w *World) Change(name string, change func(*resourcesv1alpha1.ManagedResource)) {
	w.update(name, func(mr *resourcesv1alpha1.ManagedResource) error {
		change(mr)
		w.note(mr)
		return w.Source.Update(w.ctx, mr)
	})
}

// ChangeStatus updates the status of a set, as an earlier controller might have written it.
func (w *World) ChangeStatus(name string, change func(*resourcesv1alpha1.ManagedResourceStatus)) {
	w.update(name, func(mr *resourcesv1alpha1.ManagedResource) error {
		change(&mr.Status)
		return w.Source.Status().Update(w.ctx, mr)
	})
}

func (w *World) update(name string, write func(*resourcesv1alpha1.ManagedResource) error) {
	w.do("change set "+name, func() error {
		return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			mr := &resourcesv1alpha1.ManagedResource{}
			if err := w.Source.Get(w.ctx, client.ObjectKey{Namespace: w.NS, Name: name}, mr); err != nil {
				return err
			}
			return write(mr)
		})
	})
}

// DeleteSet deletes a set, and then its Secrets. In the other order, a controller might report a missing Secret, depending on timing.
func (w *World) DeleteSet(name string) {
	secrets := w.references[name]
	delete(w.references, name)
	w.remove("set "+name, w.Source, &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: name}})
	for _, each := range secrets {
		w.remove("Secret "+each, w.Source, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: each}})
	}
}

// remove deletes an object, if it exists.
func (w *World) remove(what string, c client.Client, object client.Object) {
	w.do("delete "+what, func() error { return client.IgnoreNotFound(c.Delete(w.ctx, object)) })
}

// Create creates an object in the target that belongs to no set.
func (w *World) Create(manifest string) {
	w.do("create foreign object", func() error {
		content, err := w.learn(w.fill(manifest))
		if err != nil {
			return err
		}
		return w.Target.Create(w.ctx, content, client.FieldOwner("kubectl-create"))
	})
}

// Patch changes an object of the target, of a kind like "apps/v1/Deployment", as another client.
func (w *World) Patch(kind, name, patch string) {
	w.do("patch "+kind+" "+name, func() error {
		return w.Target.Patch(w.ctx, w.addressed(kind, name), client.RawPatch("application/merge-patch+json", []byte(w.fill(patch))),
			client.FieldOwner("kubectl-edit"))
	})
}

// Delete deletes an object of the target, as another client.
func (w *World) Delete(kind, name string) {
	w.remove(kind+" "+name, w.Target, w.addressed(kind, name))
}

// Live reads an object of the target; nil if it does not exist.
func (w *World) Live(kind, name string) *unstructured.Unstructured {
	live := w.addressed(kind, name)
	w.do("read "+kind+" "+name, func() error {
		return ignoreAbsent(w.Target.Get(w.ctx, client.ObjectKeyFromObject(live), live))
	})
	if live.GetUID() == "" || w.err != nil {
		return nil
	}
	return live
}

func (w *World) addressed(kind, name string) *unstructured.Unstructured {
	version, short := path.Split(w.fill(kind))
	return local.NewObject(strings.TrimSuffix(version, "/"), short, w.NS, w.fill(name), nil)
}

// Applied reports whether every set that was not deleted is applied in its current state, and every deleted one is gone.
func (w *World) Applied() bool {
	list := w.managedResources()
	pending := slices.ContainsFunc(list, func(mr resourcesv1alpha1.ManagedResource) bool {
		_, wanted := w.references[mr.Name]
		return !wanted || !w.applied(&mr)
	})
	return w.err == nil && !pending && len(list) == len(w.references)
}

// SetApplied reports whether one set is applied in its current state.
func (w *World) SetApplied(name string) bool {
	return slices.ContainsFunc(w.managedResources(), func(mr resourcesv1alpha1.ManagedResource) bool {
		return mr.Name == name && w.applied(&mr)
	})
}

// Says reports whether a condition of a set has this value, "status/reason", and its message contains a text.
func (w *World) Says(name, condition, want, text string) bool {
	return slices.ContainsFunc(w.managedResources(), func(mr resourcesv1alpha1.ManagedResource) bool {
		return mr.Name == name && managedresourcetest.Condition(&mr, condition) == want &&
			strings.Contains(managedresourcetest.Message(&mr, condition), w.fill(text))
	})
}

func (w *World) managedResources() []resourcesv1alpha1.ManagedResource {
	list := &resourcesv1alpha1.ManagedResourceList{}
	w.do("list sets", func() error { return w.Source.List(w.ctx, list, client.InNamespace(w.NS)) })
	return list.Items
}

func (w *World) applied(mr *resourcesv1alpha1.ManagedResource) bool {
	return mr.DeletionTimestamp == nil && mr.Status.ObservedGeneration == mr.Generation &&
		ptr.Deref(mr.Status.SecretsDataChecksum, "") == w.Checksum(mr.Name) &&
		managedresourcetest.Condition(mr, "ResourcesApplied") == "True/ApplySucceeded"
}

// Checksum returns the checksum that the status of an applied set must have: a hash of each Secret's value, once for each object that is
// not released.
func (w *World) Checksum(set string) string {
	hash := sha256.New()
	for _, secret := range w.references[set] {
		documents := w.documents[secret]
		for _, each := range documents {
			if !strings.Contains(each, "resources.gardener.cloud/mode: Ignore") {
				_, _ = hash.Write([]byte(value(documents)))
			}
		}
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// Close removes the remaining objects, so that they do not affect other runs. It does not wait for the end of the deletions.
func (w *World) Close(ctx context.Context) error {
	w.ctx, w.err = ctx, nil
	for _, mr := range w.managedResources() {
		w.do("release set", func() error {
			patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
			return client.IgnoreNotFound(w.Source.Patch(ctx, &mr, patch))
		})
	}
	w.do("delete sets", func() error {
		return w.Source.DeleteAllOf(ctx, &resourcesv1alpha1.ManagedResource{}, client.InNamespace(w.NS))
	})
	w.do("delete Secrets", func() error { return w.Source.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace(w.NS)) })
	for each := range w.objects {
		w.do("delete objects", func() error {
			live := w.addressed(each.apiVersion+"/"+each.kind, each.name)
			if each.name == "" {
				return ignoreAbsent(w.Target.DeleteAllOf(ctx, live, client.InNamespace(w.NS)))
			}
			return ignoreAbsent(w.Target.Delete(ctx, live))
		})
	}
	return w.err
}

func ignoreAbsent(err error) error {
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	return err
}
