package crdtest

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/binary"
)

// change is a merge patch of a Project.
type change struct {
	spec   string // of the Project before
	status string // written before the change, if not empty
	patch  string
	want   []string // the errors of the API server
}

// changeAll makes each change, on the main resource or on the status, and compares the errors.
func changeAll(t *testing.T, all map[string]change, status bool) {
	t.Helper()
	served := newEnv(t)
	for sentence, tc := range all {
		t.Run(sentence, func(t *testing.T) {
			e := served.in(t)
			project, err := e.create(e.project("rules", tc.spec))
			e.Expect(err).NotTo(HaveOccurred())
			if tc.status != "" {
				e.Expect(e.client.Status().Patch(t.Context(), project, client.RawPatch(types.MergePatchType, []byte(`{"status":`+tc.status+`}`)))).
					To(Succeed())
			}
			patch := client.RawPatch(types.MergePatchType, []byte(tc.patch))
			if status {
				err = e.client.Status().Patch(t.Context(), project, patch)
			} else {
				err = e.client.Patch(t.Context(), project, patch)
			}
			e.Expect(binary.Causes(e, err)).To(ConsistOf(tc.want))
		})
	}
}

func TestTheCreatorNeverChanges(t *testing.T) {
	refused := []string{"spec.createdBy: Invalid value: field is immutable"}
	const bob = "{createdBy: {apiGroup: rbac.authorization.k8s.io, kind: User, name: bob}, description: d}"
	changeAll(t, map[string]change{
		"set once":               {spec: "{}", patch: `{"spec":{"createdBy":{"kind":"User","name":"bob"}}}`},
		"left":                   {spec: bob, patch: `{"spec":{"description":"e"}}`},
		"another name":           {spec: bob, patch: `{"spec":{"createdBy":{"name":"alice"}}}`, want: refused},
		"another kind":           {spec: bob, patch: `{"spec":{"createdBy":{"kind":"Group"}}}`, want: refused},
		"its group taken away":   {spec: bob, patch: `{"spec":{"createdBy":{"apiGroup":null}}}`, want: refused},
		"a namespace added":      {spec: bob, patch: `{"spec":{"createdBy":{"namespace":"a"}}}`, want: refused},
		"removed":                {spec: bob, patch: `{"spec":{"createdBy":null}}`, want: refused},
		"removed with the specs": {spec: bob, patch: `{"spec":null}`, want: refused},
	}, false)
}

func TestTheNamespaceNeverChangesAndTheOwnerStays(t *testing.T) {
	immutable := []string{"spec.namespace: Invalid value: field is immutable"}
	reset := []string{"spec.owner: Invalid value: owner cannot be reset"}
	const alices = "{owner: {apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}, description: d}"
	changeAll(t, map[string]change{
		"the owner changed":             {spec: alices, patch: `{"spec":{"owner":{"name":"bob"}}}`},
		"the owner set":                 {spec: "{}", patch: `{"spec":{"owner":{"kind":"User","name":"bob"}}}`},
		"the owner removed":             {spec: alices, patch: `{"spec":{"owner":null}}`, want: reset},
		"the owner removed with all":    {spec: alices, patch: `{"spec":null}`, want: reset},
		"the namespace set":             {spec: "{description: d}", patch: `{"spec":{"namespace":"garden-a"}}`},
		"the first spec":                {spec: "null", patch: `{"spec":{"namespace":"garden-a"}}`},
		"the namespace left":            {spec: "{namespace: garden-a}", patch: `{"spec":{"description":"d"}}`},
		"the namespace changed":         {spec: "{namespace: garden-a}", patch: `{"spec":{"namespace":"garden-b"}}`, want: immutable},
		"the namespace removed":         {spec: "{namespace: garden-a, description: d}", patch: `{"spec":{"namespace":null}}`, want: immutable},
		"the namespace removed, at end": {spec: "{namespace: garden-a}", patch: `{"spec":null}`, want: immutable},
		"set, but to one of the cluster's": {
			spec: "{}", patch: `{"spec":{"namespace":"kube-system"}}`,
			want: []string{"spec.namespace: Forbidden: .spec.namespace must start with garden-"},
		},
	}, false)
}

func TestThePhaseIsNotTakenBack(t *testing.T) {
	refused := []string{"status.phase: Invalid value: phase cannot be updated to an empty string"}
	const ready = `{"phase":"Ready","observedGeneration":1}`
	changeAll(t, map[string]change{
		"the first phase":         {spec: "{}", patch: `{"status":{"phase":"Pending"}}`},
		"another phase":           {spec: "{}", status: ready, patch: `{"status":{"phase":"Failed"}}`},
		"a phase with nothing":    {spec: "{}", patch: `{"status":{"phase":""}}`},
		"a timestamp":             {spec: "{}", status: ready, patch: `{"status":{"staleSinceTimestamp":"2020-01-02T03:04:05Z"}}`},
		"emptied":                 {spec: "{}", status: ready, patch: `{"status":{"phase":""}}`, want: refused},
		"removed":                 {spec: "{}", status: ready, patch: `{"status":{"phase":null}}`, want: refused},
		"removed with the status": {spec: "{}", status: ready, patch: `{"status":null}`, want: refused},
		"an unknown phase": {
			spec: "{}", patch: `{"status":{"phase":"Done"}}`,
			want: []string{`status.phase: Unsupported value: "Done": supported values: "", "Pending", "Ready", "Failed", "Terminating"`},
		},
		"a timestamp that is no time": {
			spec: "{}", patch: `{"status":{"staleSinceTimestamp":"soon"}}`,
			want: []string{`status.staleSinceTimestamp: Invalid value: "soon": staleSinceTimestamp in body must be of type date-time: "soon"`},
		},
	}, true)
}

func TestGenerationAndStatusAreTheSubresources(t *testing.T) {
	e := newEnv(t)
	created, err := e.create(binary.Object(e,
		`{apiVersion: core.gardener.cloud/v1beta1, kind: Project, metadata: {name: gen}, spec: {}, status: {phase: Ready}}`))
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(created.GetGeneration()).To(BeEquivalentTo(1))
	e.Expect(created.Object).NotTo(HaveKey("status"))
	patch := func(text string) {
		e.Expect(e.client.Patch(t.Context(), created, client.RawPatch(types.MergePatchType, []byte(text)))).To(Succeed())
	}
	patch(`{"status":{"phase":"Ready"},"metadata":{"labels":{"a":"b"}}}`)
	e.Expect(created.Object).NotTo(HaveKey("status"))
	e.Expect(created.GetGeneration()).To(BeEquivalentTo(1))
	patch(`{"spec":{"description":"d"}}`)
	e.Expect(created.GetGeneration()).To(BeEquivalentTo(2))
	e.Expect(e.client.Status().
		Patch(t.Context(), created, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"description":"e"},"status":{"phase":"Ready"}}`)))).
		To(Succeed())
	e.Expect(created.Object).To(HaveKeyWithValue("status", map[string]any{"phase": "Ready"}))
	e.Expect(created.Object).To(HaveKeyWithValue("spec", map[string]any{"description": "d"}))
	e.Expect(created.GetGeneration()).To(BeEquivalentTo(2))
}
