package plan_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/espalier-dev/espalier/internal/managedresource/plan"
)

func comparingPlain() cmp.Option { return cmpopts.IgnoreUnexported(plan.Object{}) }

func TestFields(t *testing.T) {
	long := strings.Repeat("ä", 200)
	for name, tc := range map[string]struct {
		before, after string
		unconfirmed   bool
		want          []plan.Field
	}{
		"a value added, one changed, one removed": {
			before: "{data: {a: 1, b: 2}}", after: "{data: {b: 3, c: 4}}",
			want: []plan.Field{{Path: "data.a", Old: "1"}, {Path: "data.b", Old: "2", New: "3"}, {Path: "data.c", New: "4"}},
		},
		"without a dry run, what only live has may be a default": {
			before: "{data: {a: 1, b: 2}}", after: "{data: {b: 3}}", unconfirmed: true,
			want: []plan.Field{{Path: "data.b", Old: "2", New: "3"}},
		},
		"items of lists by name and by position": {
			before: "{spec: {containers: [{name: app, image: a}, {name: side, args: [x, u]}]}}",
			after:  "{spec: {containers: [{name: app, image: b}, {name: side, args: [x, z, w]}]}}",
			want: []plan.Field{
				{Path: "spec.containers[name=app].image", Old: `"a"`, New: `"b"`},
				{Path: "spec.containers[name=side].args[1]", Old: `"u"`, New: `"z"`},
				{Path: "spec.containers[name=side].args[2]", New: `"w"`},
			},
		},
		"whole parts, and characters that HTML escapes": {
			before: "{}", after: "{spec: {a: {b: [<1>, true]}}}",
			want: []plan.Field{{Path: "spec", New: `{"a":{"b":["<1>",true]}}`}},
		},
		"an empty text is a value": {
			before: "{data: {a: x}}", after: `{data: {a: ""}}`,
			want: []plan.Field{{Path: "data.a", Old: `"x"`, New: `""`}},
		},
		"what every write changes does not count": {
			before: "{metadata: {resourceVersion: '1', generation: 1, managedFields: [{manager: a}]}, status: {a: 1}}",
			after:  "{metadata: {resourceVersion: '2', generation: 2, managedFields: []}, status: {a: 2}, x: 1}",
			want:   []plan.Field{{Path: "x", New: "1"}},
		},
		"long values are cut between characters": {
			before: "{}", after: "{x: " + long + "}",
			want: []plan.Field{{Path: "x", New: `"` + strings.Repeat("ä", 126) + "…"}},
		},
		"a Secret's values": {
			before: "{apiVersion: v1, kind: Secret, type: a, data: {old: aHVudGVy, same: eA==, gone: eHl6}}",
			after:  "{apiVersion: v1, kind: Secret, type: b, data: {old: aHVudGVyMg==, same: eA==, new: eHh4eA==}}",
			want: []plan.Field{
				{Path: "data.gone", Masked: "removed (3 bytes)"},
				{Path: "data.new", Masked: "added (4 bytes)"},
				{Path: "data.old", Masked: "changed (6 bytes → 7 bytes)"},
				{Path: "type", Old: `"a"`, New: `"b"`},
			},
		},
		"a Secret's whole data": {
			before: "{kind: Secret}", after: "{kind: Secret, data: {a: aHVudGVy, b: eA==}}",
			want: []plan.Field{{Path: "data", Masked: "added (2 keys)"}},
		},
		"unknown fields of a Secret": {
			before: "{kind: Secret}", after: "{kind: Secret, stringdata: hunter2}",
			want: []plan.Field{{Path: "stringdata", Masked: "added (7 bytes)"}},
		},
		"a Secret inside of another object": {
			before: "{spec: {template: {kind: Secret, stringData: {a: hunter}}}}",
			after:  "{spec: {template: {kind: Secret, stringData: {a: hunter22}}}}",
			want:   []plan.Field{{Path: "spec.template.stringData.a", Masked: "changed (6 bytes → 8 bytes)"}},
		},
		"a new Secret inside of another object": {
			before: "{}", after: "{items: [{kind: Secret, metadata: {name: x}, stringData: {a: hunter2}}]}",
			want: []plan.Field{{Path: "items", New: `[{"kind":"Secret","metadata":{"name":"x"},"stringData":"(not shown)"}]`}},
		},
		"what kubectl applied last": {
			before: "{metadata: {annotations: {kubectl.kubernetes.io/last-applied-configuration: hunter2}}}", after: "{metadata: {annotations: " +
				"{}}, spec: {metadata: {annotations: {kubectl.kubernetes.io/last-applied-configuration: hunter2}}}}",
			want: []plan.Field{
				{Path: "metadata.annotations['kubectl.kubernetes.io/last-applied-configuration']", Masked: "(not shown)"},
				{Path: "spec", New: `{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"(not shown)"}}}`},
			},
		},
		"a Secret's annotations, other than ours": {
			before: `{kind: Secret, metadata: {annotations: {kapp.k14s.io/original: '{"data":{"a":"hunter"}}', gone: hunter2, ` +
				`resources.gardener.cloud/origin: shop/other}}}`,
			after: `{kind: Secret, metadata: {annotations: {kapp.k14s.io/original: '{"data":{"a":"hunter22"}}', espalier.dev/x: w, ` +
				`resources.gardener.cloud/origin: shop/web}}}`,
			want: []plan.Field{
				{Path: "metadata.annotations.gone", Masked: "removed (7 bytes)"},
				{Path: "metadata.annotations['espalier.dev/x']", New: `"w"`},
				{Path: "metadata.annotations['kapp.k14s.io/original']", Masked: "changed (23 bytes → 25 bytes)"},
				{Path: "metadata.annotations['resources.gardener.cloud/origin']", Old: `"shop/other"`, New: `"shop/web"`},
			},
		},
		"all annotations of a Secret": {
			before: "{spec: {a: {kind: Secret, metadata: {name: x}}}}", after: "{spec: {a: {kind: Secret, metadata: {name: x, annotations: " +
				"{espalier.dev/x: w, z: hunter2}}}}}",
			want: []plan.Field{{Path: "spec.a.metadata.annotations", New: `{"espalier.dev/x":"w","z":"(not shown)"}`}},
		},
		"annotations of a Secret inside of another object": {
			before: "{}", after: "{items: [{kind: Secret, metadata: {annotations: {z: hunter2}}}]}",
			want: []plan.Field{{Path: "items", New: `[{"kind":"Secret","metadata":{"annotations":{"z":"(not shown)"}}}]`}},
		},
		"copies of Secrets in texts": {
			before: `{kind: ConfigMap, data: {same: x, one: '{"kind": "Secret", "data": {"a": "hunter"}}'}}`,
			after: `{kind: ConfigMap, data: {same: w, one: '{"kind": "Secret", "data": {"a": "hunter2"}}', two: ` +
				`'["{\"kind\":\"SecretList\",\"items\":[\"hunter2\"]}"]'}}`,
			want: []plan.Field{
				{Path: "data.one", Masked: "(not shown)"}, {Path: "data.same", Old: `"x"`, New: `"w"`}, {Path: "data.two", New: `"(not shown)"`},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			facts := plan.Wanted{Live: object(t, tc.before), Desired: object(t, tc.after), Answer: object(t, tc.after), Managed: true}
			if tc.unconfirmed {
				facts.Answer, facts.Err = nil, errors.New("down")
			}
			decided := plan.Decide(facts)
			g.Expect(decided.Fields).To(BeComparableTo(tc.want))
			g.Expect(fmt.Sprintf("%#v", decided)).NotTo(ContainSubstring("hunter"))
		})
	}
}

func TestFieldsAreBounded(t *testing.T) {
	g := NewWithT(t)
	var text strings.Builder
	for i := range 30 {
		fmt.Fprintf(&text, "k%02d: 1, ", i)
	}
	decided := plan.Decide(plan.Wanted{
		Live: object(t, "{data: {}}"), Desired: object(t, "{}"),
		Answer: object(t, "{data: {"+text.String()+"}}"), Managed: true,
	})
	g.Expect(decided.Fields).To(HaveLen(20))
	g.Expect(decided.Fields[19].Path).To(Equal("data.k19"))
	g.Expect(decided.MoreFields).To(Equal(10))
}

// A plan without values is for all readers of ConfigMaps. Neither its fields nor its errors of the API server show a value.
func TestPlansWithoutValuesShowPathsAndReasonsOnly(t *testing.T) {
	before, after := "data: {same: hunter1, gone: hunter2, other: hunter3}", "data: {same: hunter1, other: hunter4, new: hunter5}"
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "x",
		field.ErrorList{field.Invalid(field.NewPath("data").Key("a"), "hunter6", "no")})
	webhook := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x",
		errors.New(`admission webhook "x" denied the request: hunter7`))
	missing := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x",
		errors.New(`pod "hunter8" refers to config map "made", which was not found`))
	objects := []plan.Object{
		plan.Decide(plan.Wanted{Live: object(t, before), Desired: object(t, after), Answer: object(t, after)}),
		plan.Decide(plan.Wanted{Live: object(t, before), Desired: object(t, after), Err: invalid}),
		plan.Decide(plan.Wanted{Live: object(t, before), Desired: object(t, after), Err: invalid, Replaceable: true}),
		plan.Decide(plan.Wanted{Desired: object(t, after), Err: webhook}),
		plan.Decide(plan.Wanted{Desired: object(t, after), Err: errors.New("dial hunter9")}),
		plan.Decide(plan.Wanted{Desired: object(t, after), Err: missing}),
		{Action: plan.Create, ID: plan.ID{APIVersion: "v1", Kind: "Config", Name: "made"}},
	}
	plan.Reconsider(objects)
	full := &plan.Plan{Objects: objects}
	g := NewWithT(t)
	g.Expect(full.Text(plan.Unbounded)).To(ContainSubstring("hunter6"))
	hidden := full.WithoutValues()
	machine, err := hidden.JSON(plan.Unbounded)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(hidden.Text(plan.Unbounded) + machine).NotTo(ContainSubstring("hunter"))
	changes := []plan.Field{
		{Path: "data.gone", Masked: "removed"},
		{Path: "data.new", Masked: "added"},
		{Path: "data.other", Masked: "changed"},
	}
	g.Expect(hidden.Objects[0].Fields).To(BeComparableTo(changes))
	var notes []string
	for _, each := range hidden.Objects[1:6] {
		notes = append(notes, string(each.Action)+": "+each.Note)
	}
	g.Expect(notes).To(Equal([]string{
		"refused: the API server answers Invalid data[a] (FieldValueInvalid)",
		"replace: it would be deleted and made anew, because the API server does not take the change: " +
			"the API server answers Invalid data[a] (FieldValueInvalid)",
		"refused: the API server answers Forbidden",
		"create: not confirmed: the request failed",
		"create: not confirmed: the API server answers Forbidden; v1 Config made is created by the set itself",
	}))
	g.Expect(full.Text(plan.Unbounded)).To(ContainSubstring("hunter6"), "the plan itself is not changed")
}

// Errors of API servers quote values. A plan must not show such quotes for a Secret.
func TestAnswersAboutSecretsAreReduced(t *testing.T) {
	secrets := schema.GroupResource{Resource: "secrets"}
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"invalid": {
			apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "x",
				field.ErrorList{field.Invalid(field.NewPath("data").Key("a"), "hunter2", "no")}),
			"the API server answers Invalid data[a] (FieldValueInvalid)",
		},
		"malformed": {apierrors.NewBadRequest(`cannot decode "hunter2"`), "the API server answers BadRequest"},
		"a webhook": {apierrors.NewForbidden(secrets, "x", errors.New("hunter2 is a bad password")), "the API server answers Forbidden"},
		"a network": {errors.New("hunter2"), "not confirmed: the request failed"},
		"no rights": {
			apierrors.NewForbidden(secrets, "x", errors.New(`User "jane" cannot create resource "secrets"`)),
			`secrets "x" is forbidden: User "jane" cannot create resource "secrets"`,
		},
		"a webhook that finds nothing": {
			&apierrors.StatusError{ErrStatus: metav1.Status{
				Reason: metav1.StatusReasonNotFound, Code: 404,
				Message: `admission webhook "x" denied the request: user of hunter2 not found`,
			}},
			"the API server answers NotFound",
		},
		"a server that finds nothing in what it was sent": {
			&apierrors.StatusError{ErrStatus: metav1.Status{
				Reason: metav1.StatusReasonNotFound, Code: 404,
				Message: `key "hunter2" of the Secret not found`,
			}},
			"the API server answers NotFound",
		},
		"a network that finds nothing": {errors.New("hunter2 not found"), "not confirmed: the request failed"},
		"a webhook that speaks of rights": {
			apierrors.NewForbidden(secrets, "x",
				errors.New(`admission webhook "x" denied the request: hunter2 is forbidden: User "a" cannot get resource`)),
			"the API server answers Forbidden",
		},
		"no context": {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "shop"), `namespaces "shop" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			decided := plan.Decide(plan.Wanted{ID: plan.ID{Kind: "Secret"}, Desired: object(t, "{}"), Err: tc.err})
			g.Expect(decided.Note).To(Equal(tc.want))
		})
	}
}
