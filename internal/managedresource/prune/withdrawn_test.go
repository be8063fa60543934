package prune

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/managedresource/desired"
	"github.com/espalier-dev/espalier/internal/managedresource/engine"
	"github.com/espalier-dev/espalier/internal/managedresource/ownership"
	"github.com/espalier-dev/espalier/internal/managedresource/plan"
)

// withdrawal is an API server that no longer serves version v1alpha1 of a kind. Its mapper learns of that in a Refresh.
type withdrawal struct {
	meta.RESTMapper
	// other is the version of the kind that the mapper finds after Refresh: "" for none, "v1alpha1" if the discovery is outdated.
	other string
	// exists is true if the object exists, in version v1.
	exists    bool
	refreshed bool
	patches   []string
}

func gadgetKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "example.com", Version: "v1alpha1", Kind: "Gadget"}
}

func (w *withdrawal) Reset() {}

func (*withdrawal) Names(schema.GroupVersionKind) bool { return true }

func (w *withdrawal) Refresh() error {
	w.refreshed = true
	return nil
}

func (w *withdrawal) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	served := "v1alpha1"
	if w.refreshed {
		served = w.other
	}
	if served == "" || len(versions) > 0 && versions[0] != served {
		return nil, &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: versions}
	}
	gv := schema.GroupVersion{Group: kind.Group, Version: served}
	return &meta.RESTMapping{
		Resource: gv.WithResource("gadgets"), GroupVersionKind: gv.WithKind(kind.Kind), Scope: meta.RESTScopeNamespace,
	}, nil
}

func (w *withdrawal) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	const path = "/namespaces/ns/gadgets/g"
	switch {
	case request.URL.Path == "/apis/example.com/v1alpha1"+path:
		http.NotFound(answer, request) // as for each path that an API server does not know
		return
	case request.URL.Path != "/apis/example.com/v1"+path:
		answer.WriteHeader(http.StatusTeapot)
		return
	}
	answer.Header().Set("Content-Type", "application/json")
	if !w.exists {
		answer.WriteHeader(http.StatusNotFound)
		status := apierrors.NewNotFound(schema.GroupResource{Group: "example.com", Resource: "gadgets"}, "g").Status()
		status.APIVersion, status.Kind = "v1", "Status"
		_ = json.NewEncoder(answer).Encode(status)
		return
	}
	if request.Method == http.MethodPatch {
		body, _ := io.ReadAll(request.Body)
		w.patches = append(w.patches, string(body))
	}
	_ = json.NewEncoder(answer).Encode(metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "g", UID: "1", ResourceVersion: "7", Annotations: map[string]string{"resources.gardener.cloud/origin": "ns/mr"},
		},
	})
}

// start returns a pruner for the set "ns/mr" in that API server.
func (w *withdrawal) start(t *testing.T) *Pruner {
	t.Helper()
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	now := clocktesting.NewFakeClock(time.Unix(0, 0))
	target, err := apply.NewTarget(&rest.Config{Host: server.URL, QPS: -1}, server.Client(), w, 1, now)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return &Pruner{Target: target, Parallel: 1, Owner: ownership.Owner{
		Set:   &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "mr"}},
		Users: func(inventory.Key) []types.NamespacedName { return nil },
	}}
}

func gadgetKey() inventory.Key { return inventory.KeyOf("example.com", "Gadget", "ns", "g") }

// withdrawals are the possible states of an object whose version is no longer served.
func withdrawals() map[string]struct {
	server     withdrawal
	gone, sure bool
} {
	return map[string]struct {
		server     withdrawal
		gone, sure bool
	}{
		"the object exists in another version": {server: withdrawal{other: "v1", exists: true}, sure: true},
		"the object does not exist":            {server: withdrawal{other: "v1"}, gone: true, sure: true},
		"no version is served":                 {server: withdrawal{exists: true}, gone: true, sure: true},
		"discovery is behind":                  {server: withdrawal{other: "v1alpha1", exists: true}},
	}
}

func TestAnObjectWhoseVersionIsWithdrawnIsStillReleased(t *testing.T) {
	for name, tc := range withdrawals() {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			gadget := []desired.Released{releasedGadget()}
			err := tc.server.start(t).Release(t.Context(), gadget, []resourcesv1alpha1.ObjectReference{gadgetReference()})
			if !tc.sure {
				g.Expect(err).To(HaveOccurred())
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			if tc.gone {
				g.Expect(tc.server.patches).To(BeEmpty())
			} else {
				g.Expect(tc.server.patches).To(ConsistOf(ContainSubstring(`"resources.gardener.cloud/origin":null`)))
			}
		})
	}
}

func TestAnObjectWhoseVersionIsWithdrawnIsNotReportedAsMissing(t *testing.T) {
	for name, tc := range withdrawals() {
		t.Run(name, func(t *testing.T) {
			e := &engine.Executor{Engine: &engine.Engine{Target: tc.server.start(t).Target}}
			g := NewWithT(t)
			g.Expect(e.IsMissing(t.Context(), &desired.Item{Key: gadgetKey(), Kind: gadgetKind(), Namespace: "ns"})).To(Equal(tc.gone))
		})
	}
}

func TestAPlanContainsAnObjectWhoseVersionIsWithdrawn(t *testing.T) {
	for name, tc := range withdrawals() {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p, refs := tc.server.start(t), []resourcesv1alpha1.ObjectReference{gadgetReference()}
			objects := p.PlanDeletion(t.Context(), refs, NewProgress(false, nil), "", Withheld{})
			tc.server.refreshed = false
			objects = append(objects, p.PlanRelease(t.Context(), []desired.Released{releasedGadget()}, refs)...)
			g.Expect(objects).To(HaveLen(2))
			for _, object := range objects {
				switch {
				case !tc.sure:
					g.Expect(object.Action).To(Equal(plan.Unknown), object.Note)
				case tc.gone:
					g.Expect(object.Action).To(Equal(plan.Unchanged), object.Note)
				default:
					g.Expect(object.Action).To(BeElementOf(plan.Delete, plan.Release), object.Note)
				}
			}
		})
	}
}

func releasedGadget() desired.Released { return desired.Released{Key: gadgetKey(), Kind: gadgetKind()} }

func gadgetReference() resourcesv1alpha1.ObjectReference {
	return resourcesv1alpha1.ObjectReference{ObjectReference: corev1.ObjectReference{
		APIVersion: "example.com/v1alpha1", Kind: "Gadget", Namespace: "ns", Name: "g",
	}}
}
