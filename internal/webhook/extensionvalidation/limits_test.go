package extensionvalidation_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/admission/review"
)

// judged returns the handler's response to the creation of an object. The object is written as JSON, because parsing a large one as YAML
// takes too long.
func judged(t *testing.T, kind, object string) review.Response {
	t.Helper()
	return kindOf(t, kind).Handler.
		Handle(t.Context(), &review.Request{UID: "u", Operation: "CREATE", Name: name, Namespace: here, Object: []byte(object)})
}

const long = 1 << 20

// TestOneLongValueIsShownOnlyAtItsBeginning validates objects in which a long value comes before hundreds of other errors.
func TestOneLongValueIsShownOnlyAtItsBeginning(t *testing.T) {
	text := strings.Repeat("a", long)
	beginning := strings.Repeat("a", 1024) + "… (cut, 1048576 bytes in all)"
	others := strings.Repeat(`"x",`, 2000) + `"x"`
	meta := `"metadata":{"name":"a","namespace":"b"}`
	for title, tc := range map[string]struct{ kind, object, want string }{
		"a record among many": {
			"DNSRecord",
			`{` + meta + `,"spec":{"type":"a","secretRef":{"name":"a"},"name":"a.b","recordType":"CNAME","values":["` + text + `",` + others + `]}}`,
			`Invalid spec.values: Invalid value: "[\"` + strings.Repeat("a", 1022) + "… (cut, 1056584 bytes in all)",
		},
		"a record's own finding": {
			"DNSRecord",
			`{` + meta + `,"spec":{"type":"a","secretRef":{"name":"a"},"name":"a.b","recordType":"A","values":["` + text + `",` + others + `]}}`,
			`Invalid spec.values[0]: Invalid value: "` + beginning + `": must be a valid IPv4 address`,
		},
		"a family": {
			"Network", `{` + meta + `,"spec":{"type":"a","ipFamilies":["` + text + `","` + text + `"]}}`,
			`Duplicate spec.ipFamilies[1]: Duplicate value: "` + beginning + `"`,
		},
		"a range": {
			"Network", `{` + meta + `,"spec":{"type":"a","podCIDR":"` + text + `","serviceCIDR":"10.0.0.0/8"}}`,
			`Invalid spec.podCIDR: Invalid value: "` + beginning + `": invalid CIDR address: ` + strings.Repeat("a", 1002) +
				"… (cut, 1048598 bytes in all)",
		},
		"an image": {
			"OperatingSystemConfig",
			`{` + meta + `,"spec":{"type":"a","purpose":"provision","files":[{"path":"a","content":{"secretRef":{"name":"a","dataKey":"a"},` +
				`"imageRef":{"image":"` + text + `","filePathInImage":"a"}}}` + strings.Repeat(",{}", 2000) + `]}}`,
			`Invalid spec.files[0].content: Invalid value: "{\"secretRef\":{\"name\":\"a\",\"dataKey\":\"a\"},\"imageRef\":{\"image\":\"` +
				strings.Repeat("a", 1024-61) + "… (cut, 1048662 bytes in all)",
		},
		"a store": {
			"Etcd",
			`{"apiVersion":"druid.gardener.cloud/v1alpha1","kind":"Etcd",` + meta + `,"spec":{"backup":{"store":{"prefix":"a--b","provider":"` +
				text + `"}}}}`,
			`Invalid spec.backup.store.provider: Invalid value: "` + beginning + `": unsupported storage provider: ` + beginning,
		},
		"the name of a resource": {
			"Worker",
			`{` + meta + `,"spec":{"type":"a","region":"a","secretRef":{"name":"a"},"pools":[{"name":"a","userData":"","machineType":"a",` +
				`"machineImage":{"name":"a","version":"a"},"nodeTemplate":{"capacity":{"` + text + `":"-1"}}}]}}`,
			"Invalid spec.pools[0].nodeTemplate.capacity." + strings.Repeat("a", 1024-len("spec.pools[0].nodeTemplate.capacity.")) +
				"… (cut, 1048612 bytes in all)",
		},
	} {
		t.Run(title, func(t *testing.T) {
			g := NewWithT(t)
			response := judged(t, tc.kind, tc.object)
			g.Expect(len(response.Message)).To(BeNumerically("<", 70<<10))
			g.Expect(found(t, response)).To(ContainElement(HavePrefix(tc.want)))
		})
	}
}

func TestTheFrozenSpecificationOfAnEtcdIsCut(t *testing.T) {
	g := NewWithT(t)
	object := func(prefix string) []byte {
		return []byte(`{"apiVersion":"druid.gardener.cloud/v1alpha1","kind":"Etcd","metadata":{"name":"a","namespace":"b",` +
			`"resourceVersion":"1","deletionTimestamp":"2026-01-02T03:04:05Z","finalizers":["a/b"]},` +
			`"spec":{"annotations":{"a":"` + prefix + `"}}}`)
	}
	request := &review.Request{
		UID: "u", Operation: "UPDATE", Name: "a", Namespace: "b", Object: object(strings.Repeat("a", long)), OldObject: object(""),
	}
	texts := found(t, kindOf(t, "Etcd").Handler.Handle(t.Context(), request))
	g.Expect(texts).To(ConsistOf(And(HavePrefix(`Invalid spec: Invalid value: "{\"selector\":null,`),
		MatchRegexp(`… \(cut, 10\d{5} bytes in all\)": field is immutable$`))))
	g.Expect(len(texts[0])).To(BeNumerically("<", 2000))
}

// labelled returns an Extension with the given metadata, as JSON.
func labelled(t *testing.T, metadata map[string]any) string {
	t.Helper()
	metadata["name"], metadata["namespace"] = "a", "b"
	encoded, err := json.Marshal(map[string]any{"metadata": metadata, "spec": map[string]any{"type": "a"}})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return string(encoded)
}

func numbered(count int) map[string]string {
	all := map[string]string{}
	for i := range count {
		all["wrong key "+strconv.Itoa(i)] = ""
	}
	return all
}

func TestFindingsOfMetadataAreLimitedToo(t *testing.T) {
	g := NewWithT(t)
	object := labelled(t, map[string]any{"labels": numbered(5000), "annotations": numbered(5000)})
	first := judged(t, "Extension", object)
	g.Expect(len(first.Message)).To(And(BeNumerically(">", 32<<10), BeNumerically("<", 70<<10)))
	g.Expect(found(t, first)[0]).To(HavePrefix(`Invalid metadata.labels: Invalid value: "wrong key 0": `))
	for range 3 {
		g.Expect(judged(t, "Extension", object)).To(Equal(first), "the order is always the same")
	}
}

func TestTooMuchMetadataIsNotLookedAtOneByOne(t *testing.T) {
	many := make([]string, 1001)
	for i := range many {
		many[i] = fmt.Sprintf("a/b%d", i)
	}
	owners, managers := make([]map[string]any, 1001), make([]map[string]any, 1001)
	for title, tc := range map[string]struct {
		metadata map[string]any
		want     []string
	}{
		"labels and annotations": {
			map[string]any{"labels": numbered(5001), "annotations": numbered(5000)},
			[]string{"TooMany metadata: Too many: 10001: must have at most 10000 items"},
		},
		"others": {
			map[string]any{"finalizers": many, "ownerReferences": owners, "managedFields": managers},
			[]string{
				"TooMany metadata.finalizers: Too many: 1001: must have at most 1000 items",
				"TooMany metadata.managedFields: Too many: 1001: must have at most 1000 items",
				"TooMany metadata.ownerReferences: Too many: 1001: must have at most 1000 items",
			},
		},
	} {
		t.Run(title, func(t *testing.T) {
			NewWithT(t).Expect(found(t, judged(t, "Extension", labelled(t, tc.metadata)))).To(Equal(tc.want))
		})
	}
}

// TestOwnersThatConflictAreNotMultiplied validates metadata with long texts, which the checks of Kubernetes repeat for every owner and
// every character.
func TestOwnersThatConflictAreNotMultiplied(t *testing.T) {
	g := NewWithT(t)
	owners := []map[string]any{}
	for i := range 900 {
		owner := map[string]any{"apiVersion": "v1", "kind": "A", "name": strconv.Itoa(i), "uid": "u", "controller": true}
		if i == 0 {
			owner["name"] = strings.Repeat("a", long)
		}
		owners = append(owners, owner)
	}
	managers := []map[string]any{{"operation": "Update", "fieldsType": "FieldsV1", "manager": strings.Repeat("\x7f", long)}}
	response := judged(t, "Extension", labelled(t, map[string]any{"ownerReferences": owners, "managedFields": managers}))
	g.Expect(found(t, response)).To(ContainElement(HavePrefix("Invalid metadata.ownerReferences: ")))
	g.Expect(len(response.Message)).To(BeNumerically("<", 70<<10))
}
