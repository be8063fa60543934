package plan_test

import (
	"errors"
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/managedresource/ownership"
	"github.com/espalier-dev/espalier/internal/managedresource/plan"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	parsed := &unstructured.Unstructured{}
	NewWithT(t).Expect(yaml.Unmarshal([]byte(text), &parsed.Object)).To(Succeed())
	return parsed
}

const (
	live = `{apiVersion: v1, kind: ConfigMap, metadata: {name: pear, namespace: shop, generation: 1, resourceVersion: "7", ` +
		`annotations: {resources.gardener.cloud/origin: shop/web}}, data: {key: old}}`
	wanted = `{apiVersion: v1, kind: ConfigMap, metadata: {name: pear, namespace: shop, resourceVersion: "7", annotations: ` +
		`{resources.gardener.cloud/origin: shop/web}}, data: {key: new}}`
	foreign = `{apiVersion: v1, kind: ConfigMap, metadata: {name: pear, namespace: shop, annotations: {resources.gardener.cloud/origin: ` +
		`shop/other}}, data: {key: new}}`
	emptied = `{apiVersion: v1, kind: ConfigMap, metadata: {name: pear, namespace: shop, annotations: {resources.gardener.cloud/origin: ` +
		`shop/web}}, data: {}}`
	unmarked = `{apiVersion: v1, kind: ConfigMap, metadata: {name: pear, namespace: shop}, data: {key: new}}`
)

func configMaps() schema.GroupResource { return schema.GroupResource{Resource: "configmaps"} }

func noRights() error {
	return apierrors.NewForbidden(configMaps(), "pear",
		errors.New(`User "jane" cannot update resource "configmaps" in API group "" in the namespace "shop"`))
}

func invalid() error {
	return apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "pear",
		field.ErrorList{field.Invalid(field.NewPath("data"), "x", "too sweet")})
}

func TestDecide(t *testing.T) {
	id := plan.ID{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "pear"}
	keyChange := []plan.Field{{Path: "data.key", Old: `"old"`, New: `"new"`}}
	for name, tc := range map[string]struct {
		facts plan.Wanted
		want  plan.Object
	}{
		"it is missing": {
			facts: plan.Wanted{Desired: object(t, wanted), Answer: object(t, wanted)},
			want:  plan.Object{Action: "create"},
		},
		"it differs": {
			facts: plan.Wanted{Live: object(t, live), Desired: object(t, wanted), Answer: object(t, wanted)},
			want:  plan.Object{Action: "change", Fields: keyChange},
		},
		"fields are not applied, and nothing else differs": {
			facts: plan.Wanted{Live: object(t, live), Unapplied: []string{"metadata.finalizers", "secrets"}},
			want:  plan.Object{Action: "unchanged", Note: "it keeps metadata.finalizers, secrets although the manifest differs"},
		},
		"fields are not applied, and others differ": {
			facts: plan.Wanted{Live: object(t, live), Desired: object(t, wanted), Answer: object(t, wanted), Unapplied: []string{"secrets"}},
			want:  plan.Object{Action: "change", Fields: keyChange, Note: "it keeps secrets although the manifest differs"},
		},
		"it has drifted": {
			facts: plan.Wanted{Live: object(t, live), Desired: object(t, wanted), Answer: object(t, wanted), Drift: true, By: "kubectl-edit"},
			want:  plan.Object{Action: "change", Fields: keyChange, Note: `changed by another client since it was applied, last by "kubectl-edit"`},
		},
		"it is as desired": {
			facts: plan.Wanted{Live: object(t, live)},
			want:  plan.Object{Action: "unchanged"},
		},
		"a write would change nothing": {
			facts: plan.Wanted{Live: object(t, live), Desired: object(t, wanted), Answer: object(t, live), Drift: true},
			want:  plan.Object{Action: "unchanged"},
		},
		"it is made once only": {
			facts: plan.Wanted{Live: object(t, unmarked), CreatedOnce: true},
			want:  plan.Object{Action: "unchanged", Note: "created once and then left alone"},
		},
		"it is made once only, and bears a description that is not true": {
			facts: plan.Wanted{Live: object(t, unmarked), Desired: object(t, wanted), Answer: object(t, wanted), CreatedOnce: true},
			want: plan.Object{Action: "change", Fields: []plan.Field{{
				Path: "metadata.annotations['resources.gardener.cloud/origin']",
				New:  `"shop/web"`,
			}}},
		},
		"it belongs to no set": {
			facts: plan.Wanted{Live: object(t, unmarked), Desired: object(t, wanted), Answer: object(t, wanted)},
			want: plan.Object{
				Action: "adopt", Fields: []plan.Field{{Path: "metadata.annotations['resources.gardener.cloud/origin']", New: `"shop/web"`}},
				Note: "it exists and belongs to no set",
			},
		},
		"it has lost its mark": {
			facts: plan.Wanted{Live: object(t, unmarked), Desired: object(t, wanted), Answer: object(t, wanted), Managed: true},
			want: plan.Object{Action: "change", Fields: []plan.Field{{
				Path: "metadata.annotations['resources.gardener.cloud/origin']",
				New:  `"shop/web"`,
			}}},
		},
		"another set holds it, and it is taken": {
			facts: plan.Wanted{Live: object(t, foreign), Desired: object(t, wanted), Answer: object(t, wanted), Claim: ownership.Claimed},
			want: plan.Object{
				Action: "adopt", Fields: []plan.Field{{
					Path: "metadata.annotations['resources.gardener.cloud/origin']", Old: `"shop/other"`,
					New: `"shop/web"`,
				}},
				Note: `it would be taken from ManagedResource "shop/other", which holds it too`,
			},
		},
		"another set holds it, and keeps it": {
			facts: plan.Wanted{Live: object(t, foreign), Claim: ownership.Claimed, Yields: true},
			want: plan.Object{
				Action: "refused",
				Note:   `it is held by ManagedResource "shop/other", which wants it as well; remove it from one of the two`,
			},
		},
		"its origin cannot be seen": {
			facts: plan.Wanted{Live: object(t, foreign), Desired: object(t, foreign), Answer: object(t, foreign), Claim: ownership.Unknown},
			want:  plan.Object{Action: "adopt", Note: `its origin names "shop/other", which cannot be seen from here`},
		},
		"its origin does not hold it": {
			facts: plan.Wanted{Live: object(t, foreign), Desired: object(t, foreign), Answer: object(t, foreign)},
			want:  plan.Object{Action: "adopt", Note: `its origin names "shop/other", which does not hold it`},
		},
		"the set may not contain it": {
			facts: plan.Wanted{Refusal: "refused: sets may not write there"},
			want:  plan.Object{Action: "refused", Note: "refused: sets may not write there"},
		},
		"it cannot be read": {
			facts: plan.Wanted{Doubt: "no rights"},
			want:  plan.Object{Action: "unknown", Note: "cannot tell: no rights"},
		},
		"its kind comes with the set": {
			facts: plan.Wanted{Unserved: "pears.example.com"},
			want: plan.Object{
				Action: "create", Unconfirmed: true,
				Note: `not confirmed: its kind is not served yet; CustomResourceDefinition "pears.example.com" of the set defines it`,
			},
		},
		"the API server calls it invalid": {
			facts: plan.Wanted{Live: object(t, live), Desired: object(t, wanted), Err: invalid()},
			want:  plan.Object{Action: "refused", Fields: keyChange, Note: `ConfigMap "pear" is invalid: data: Invalid value: "x": too sweet`},
		},
		"invalid, but it may be replaced": {
			facts: plan.Wanted{Live: object(t, live), Desired: object(t, wanted), Err: invalid(), Replaceable: true},
			want: plan.Object{
				Action: "replace", Fields: keyChange, Unconfirmed: true,
				Note: `it would be deleted and made anew, because the API server does not take the change: ConfigMap "pear" is invalid: data: ` +
					`Invalid value: "x": too sweet`,
			},
		},
		"the controller lacks the right": {
			facts: plan.Wanted{Live: object(t, live), Desired: object(t, wanted), Err: noRights()},
			want:  plan.Object{Action: "refused", Fields: keyChange, Note: noRights().Error()},
		},
		"another user lacks the right": {
			facts: plan.Wanted{Live: object(t, live), Desired: object(t, wanted), Err: noRights(), OtherRights: true},
			want:  plan.Object{Action: "change", Fields: keyChange, Unconfirmed: true, Note: "not confirmed: " + noRights().Error()},
		},
		"no dry run can confirm that it stays as it is": {
			facts: plan.Wanted{Live: object(t, live), Desired: object(t, live), Err: noRights(), OtherRights: true},
			want:  plan.Object{Action: "unchanged", Unconfirmed: true, Note: "not confirmed: " + noRights().Error()},
		},
		"no dry run can confirm that an added field is removed": {
			facts: plan.Wanted{Live: object(t, wanted), Desired: object(t, emptied), Err: noRights(), OtherRights: true, Drift: true},
			want: plan.Object{Action: "change", Unconfirmed: true, Note: "changed by another client since it was applied; not confirmed: " +
				noRights().Error()},
		},
		"no dry run can confirm that an equal object is adopted": {
			facts: plan.Wanted{Live: object(t, foreign), Desired: object(t, foreign), Err: noRights(), OtherRights: true},
			want: plan.Object{Action: "adopt", Unconfirmed: true, Note: `its origin names "shop/other", which does not hold it; not confirmed: ` +
				noRights().Error()},
		},
		"an admission check refuses it for every user": {
			facts: plan.Wanted{
				Desired: object(t, wanted), Err: apierrors.NewForbidden(configMaps(), "pear", errors.New("exceeded quota")),
				OtherRights: true,
			},
			want: plan.Object{Action: "refused", Note: `configmaps "pear" is forbidden: exceeded quota`},
		},
		"a quota refuses it, and objects leave the set": {
			facts: plan.Wanted{
				Desired: object(t, wanted), Err: apierrors.NewForbidden(configMaps(), "pear", errors.New("exceeded quota: full")), Prunes: true,
			},
			want: plan.Object{Action: "create", Unconfirmed: true, Note: `not confirmed: configmaps "pear" is forbidden: exceeded quota: full`},
		},
		"it cannot be changed, and would not be created again": {
			facts: plan.Wanted{Live: object(t, live), Desired: object(t, wanted), Err: invalid(), Replaceable: true, Obstacle: invalid()},
			want: plan.Object{Action: "refused", Fields: keyChange, Note: invalid().Error() + "; it is not replaced, because the API server would " +
				"refuse the new one: " + invalid().Error()},
		},
		"it has finished": {
			facts: plan.Wanted{Ended: true},
			want:  plan.Object{Action: "unchanged", Note: "it has finished, and Kubernetes has deleted it"},
		},
		"a webhook refuses it with a code of its own": {
			facts: plan.Wanted{Desired: object(t, wanted), Err: &apierrors.StatusError{ErrStatus: metav1.Status{
				Code:    http.StatusTeapot,
				Message: `admission webhook "x" denied the request: no`,
			}}},
			want: plan.Object{Action: "refused", Note: `admission webhook "x" denied the request: no`},
		},
		"a webhook knows no dry run": {
			facts: plan.Wanted{Desired: object(t, wanted), Err: apierrors.NewBadRequest(`admission webhook "x" does not support dry run`)},
			want:  plan.Object{Action: "create", Unconfirmed: true, Note: `not confirmed: admission webhook "x" does not support dry run`},
		},
		"the API server has trouble": {
			facts: plan.Wanted{Desired: object(t, wanted), Err: apierrors.NewInternalError(errors.New("no etcd"))},
			want:  plan.Object{Action: "create", Unconfirmed: true, Note: "not confirmed: Internal error occurred: no etcd"},
		},
		"its namespace comes with the set": {
			facts: plan.Wanted{
				Desired: object(t, wanted), NamespaceInSet: true,
				Err: apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "shop"),
			},
			want: plan.Object{Action: "create", Unconfirmed: true, Note: "not confirmed: its namespace is created by the set itself"},
		},
		"its namespace is missing": {
			facts: plan.Wanted{Desired: object(t, wanted), Err: apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "shop")},
			want:  plan.Object{Action: "refused", Note: `namespaces "shop" not found`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.facts.ID, tc.facts.Origin, tc.want.ID = id, "shop/web", id
			NewWithT(t).Expect(plan.Decide(tc.facts)).To(BeComparableTo(tc.want, comparingPlain()))
		})
	}
}

func TestAnObjectThatIsBeingDeletedHasANote(t *testing.T) {
	leaving := object(t, live)
	now := metav1.Now()
	leaving.SetDeletionTimestamp(&now)
	decided := plan.Decide(plan.Wanted{Live: leaving, Desired: object(t, wanted), Answer: object(t, wanted), Origin: "shop/web"})
	NewWithT(t).Expect(decided.Note).To(ContainSubstring("it is being deleted"))
}

func TestRefusalsAreRevertedForObjectsThatTheSetCreates(t *testing.T) {
	g := NewWithT(t)
	pod := func(reason string) plan.Object {
		return plan.Decide(plan.Wanted{
			ID: plan.ID{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "web"}, Desired: object(t, wanted),
			Err: apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web", errors.New(reason)),
		})
	}
	account := plan.Object{Action: "create", ID: plan.ID{APIVersion: "v1", Kind: "ServiceAccount", Namespace: "shop", Name: "web-robot"}}
	missing := `error looking up service account shop/web-robot: serviceaccount "web-robot" not found`
	objects := []plan.Object{account, pod(missing), pod("exceeded quota: web-robot"), pod(`serviceaccount "web" not found`)}
	plan.Reconsider(objects)
	g.Expect(objects[1]).To(BeComparableTo(plan.Object{
		Action: "create", ID: objects[1].ID, Unconfirmed: true,
		Note: `not confirmed: pods "web" is forbidden: ` + missing + `; v1 ServiceAccount shop/web-robot is created by the set itself`,
	}, comparingPlain()))
	g.Expect([]plan.Action{objects[2].Action, objects[3].Action}).To(Equal([]plan.Action{"refused", "refused"}))

	robot := account
	robot.Name = "robot"
	objects = []plan.Object{robot, pod(missing)}
	plan.Reconsider(objects)
	g.Expect(objects[1].Action).To(Equal(plan.Action("refused")), "another name ends in the same way")

	objects = []plan.Object{{Action: "unchanged", ID: account.ID}, pod(missing)}
	plan.Reconsider(objects)
	g.Expect(objects[1].Action).To(Equal(plan.Action("refused")), "what exists already is not what is missing")

	namesake := account
	namesake.Name = "web"
	objects = []plan.Object{namesake, pod("serviceAccountName is bad"), plan.Decide(plan.Wanted{
		ID: plan.ID{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "bin"}, Desired: object(t, wanted),
		Err: apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "bin",
			field.ErrorList{field.Invalid(field.NewPath("spec", "serviceAccountName"), "web", "is bad")}),
	})}
	plan.Reconsider(objects)
	g.Expect([]plan.Action{objects[1].Action, objects[2].Action}).To(Equal([]plan.Action{"refused", "refused"}),
		"the name is that of the Pod, and no validation looks for an object")
}

func TestNewObjectsThatMayBeRefusedWithholdObsoleteOnes(t *testing.T) {
	noDryRun := apierrors.NewBadRequest(`admission webhook "x" does not support dry run`)
	full := apierrors.NewForbidden(configMaps(), "pear", errors.New("exceeded quota: full"))
	allocated := apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "pear",
		field.ErrorList{field.Invalid(field.NewPath("spec", "ports"), 30000, "provided port is already allocated")})
	for name, tc := range map[string]struct {
		facts plan.Wanted
		want  bool
	}{
		"accepted":                       {facts: plan.Wanted{Desired: object(t, wanted), Answer: object(t, wanted)}},
		"refused":                        {facts: plan.Wanted{Desired: object(t, wanted), Err: invalid()}, want: true},
		"refused, and the user confirms": {facts: plan.Wanted{Desired: object(t, wanted), Err: invalid(), Untested: true}},
		"its kind is not served":         {facts: plan.Wanted{Refusal: "no matches for kind"}, want: true},
		"the set defines its kind":       {facts: plan.Wanted{Unserved: "pears.example.com"}},
		"no rights":                      {facts: plan.Wanted{Desired: object(t, wanted), Err: noRights()}, want: true},
		"it is unknown":                  {facts: plan.Wanted{Doubt: "a timeout"}, want: true},
		"a webhook knows no dry run":     {facts: plan.Wanted{Desired: object(t, wanted), Err: noDryRun}, want: true},
		"a quota is full":                {facts: plan.Wanted{Desired: object(t, wanted), Err: full}},
		"a Service has its port":         {facts: plan.Wanted{Desired: object(t, wanted), Err: allocated}},
		"the API server is overloaded": {
			facts: plan.Wanted{Desired: object(t, wanted), Err: apierrors.NewTooManyRequests("later", 1)}, want: true,
		},
		"it exists outside of the set, refused": {
			facts: plan.Wanted{Live: object(t, foreign), Desired: object(t, wanted), Err: invalid()}, want: true,
		},
		"it exists in the set, refused": {
			facts: plan.Wanted{Live: object(t, live), Desired: object(t, wanted), Err: invalid(), Managed: true},
		},
		"another set holds it": {facts: plan.Wanted{Live: object(t, foreign), Claim: ownership.Claimed, Yields: true}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.facts.Prunes, tc.facts.Origin = true, "shop/web"
			decided := plan.Decide(tc.facts)
			NewWithT(t).Expect(decided.Withholds()).To(Equal(tc.want))
		})
	}
}

func TestDismiss(t *testing.T) {
	id := plan.ID{APIVersion: "v1", Kind: "Service", Namespace: "shop", Name: "web"}
	for name, tc := range map[string]struct {
		facts plan.Leaving
		want  plan.Object
	}{
		"it goes": {want: plan.Object{Action: "delete"}},
		"it cannot be read": {
			facts: plan.Leaving{Doubt: "no rights", Stays: "x"},
			want:  plan.Object{Action: "unknown", Note: "cannot tell: no rights"},
		},
		"it is gone": {
			facts: plan.Leaving{Gone: "it is gone already", Stays: "x"},
			want:  plan.Object{Action: "unchanged", Note: "it is gone already"},
		},
		"it is protected": {
			facts: plan.Leaving{Stays: "keep-object", Released: true},
			want:  plan.Object{Action: "keep", Note: "keep-object"},
		},
		"it is released": {
			facts: plan.Leaving{Released: true},
			want:  plan.Object{Action: "release", Note: `mode "Ignore": it stays, without the marks of the set`},
		},
		"it is being deleted, with finalizers": {
			facts: plan.Leaving{Deleted: true, Finalizers: []string{"a/b", "c/d"}},
			want:  plan.Object{Action: "delete", Note: "it is being deleted already; it is gone only when its finalizers are removed: a/b, c/d"},
		},
		"its volume claims are deleted too": {
			facts: plan.Leaving{Claims: 2},
			want:  plan.Object{Action: "delete", Note: "with it 2 PersistentVolumeClaims"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.facts.ID, tc.want.ID = id, id
			NewWithT(t).Expect(plan.Dismiss(tc.facts)).To(BeComparableTo(tc.want, comparingPlain()))
		})
	}
}
