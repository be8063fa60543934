// Package installations watches the ControllerInstallations of the virtual cluster. A ControllerInstallation installs an extension in a
// Seed. Its field spec.registrationRef contains the name of the ControllerRegistration, which is also the name of the Extension.
//
// The package only reads.
package installations

import (
	"cmp"
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/garden/late"
)

// kind is the kind of ControllerInstallations.
var kind = schema.GroupVersionKind{Group: corev1beta1.GroupName, Version: "v1beta1", Kind: "ControllerInstallation"}

// Installation is the part of a ControllerInstallation that the conditions of Extensions depend on.
type Installation struct {
	Name, Seed string
	Conditions []corev1beta1.Condition

	registration string
}

// Watch watches, and requests the Extension of each ControllerInstallation.
type Watch struct{ *late.Objects[Installation] }

// NewWatch returns a watch with the given fields of late.Objects.
func NewWatch(period time.Duration, connect func(ctx context.Context) (client.WithWatch, error)) *Watch {
	return &Watch{&late.Objects[Installation]{Kind: kind, Connect: connect, Period: period, Keep: keep, Requests: requests}}
}

// Of returns the ControllerInstallations of an Extension, sorted by name, and false if they are not known now.
func (w *Watch) Of(extension string) ([]Installation, bool) {
	all, known := w.All()
	found := slices.DeleteFunc(all, func(each Installation) bool { return each.registration != extension })
	slices.SortFunc(found, func(a, b Installation) int { return cmp.Compare(a.Name, b.Name) })
	return found, known
}

// requests returns requests for the Extensions of a ControllerInstallation before and after a change.
func requests(_ types.NamespacedName, before, after *Installation) []reconcile.Request {
	var all []reconcile.Request
	for _, each := range []*Installation{before, after} {
		if each != nil && each.registration != "" {
			all = append(all, reconcile.Request{NamespacedName: types.NamespacedName{Name: each.registration}})
		}
	}
	return all
}

// keep reads a ControllerInstallation. Fields of unexpected types count as missing.
func keep(object client.Object) (Installation, bool) {
	raw, ok := object.(*unstructured.Unstructured)
	if !ok {
		return Installation{}, false
	}
	var read struct {
		Spec struct {
			RegistrationRef struct {
				Name string `json:"name"`
			} `json:"registrationRef"`
			SeedRef struct {
				Name string `json:"name"`
			} `json:"seedRef"`
		} `json:"spec"`
		Status struct {
			Conditions []corev1beta1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, &read); err != nil {
		return Installation{}, false
	}
	return Installation{
		Name: raw.GetName(), Seed: read.Spec.SeedRef.Name, Conditions: read.Status.Conditions, registration: read.Spec.RegistrationRef.Name,
	}, true
}
