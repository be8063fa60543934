package extensionvalidation_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/admission/reviewtest"
	"github.com/espalier-dev/espalier/internal/webhook/extensionvalidation"
)

// The value of the secret fields in the valid objects, plain and in base64.
const (
	secret        = "hush-hush"
	encodedSecret = "aHVzaC1odXNo"
)

// odd returns values that may be invalid, depending on the field.
func odd() []any {
	return []any{
		nil, "", "x", "*.example.com", "1.2.3.4", "::ffff:1.2.3.4", "10.0.0.0/8", "2001:db8::/32", "IPv4", "IPv6", "CNAME", "AAAA", "b64", "-1",
		"500m", "1e400", "1e-99", "1e-99999999", "10E", "1Gi",
		"2026-01-02T03:04:05Z", "10m", "e30=", "\xff\x00", true, 0, -1, 1.5, 1 << 40,
		[]any{},
		[]any{nil},
		[]any{"x", "x"},
		map[string]any{},
		map[string]any{"x": nil},
		map[string]any{"x": "y"},
		map[string]any{"inline": map[string]any{"data": secret}, "secretRef": map[string]any{}, "imageRef": nil},
	}
}

// dice makes decisions from bytes. When the bytes are used up, every value stays the same.
type dice struct{ bytes []byte }

func (d *dice) roll(sides int) int {
	if len(d.bytes) == 0 {
		return sides - 1
	}
	first := int(d.bytes[0])
	d.bytes = d.bytes[1:]
	return first % sides
}

// damage returns a value in which some parts are replaced, removed or repeated. A secret is replaced as a whole or removed.
func (d *dice) damage(value any) any {
	switch d.roll(12) {
	case 0:
		return odd()[d.roll(len(odd()))]
	case 1:
		return nil
	case 2:
		if list, is := value.([]any); is {
			return slices.Concat(list, list)
		}
	}
	switch value := value.(type) {
	case map[string]any:
		changed := map[string]any{}
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if d.roll(16) > 0 {
				changed[key] = d.damage(value[key])
			}
		}
		return changed
	case []any:
		changed := []any{}
		for _, item := range value {
			changed = append(changed, d.damage(item))
		}
		return changed
	}
	return value
}

// damaged returns an object of a kind, also with metadata, in which any value may be wrong.
func (d *dice) damaged(t *testing.T, kind extensionvalidation.Kind, deleting bool) map[string]any {
	t.Helper()
	patches := []string{
		"metadata: {uid: u, resourceVersion: '7', generation: 1, labels: {a: b}, annotations: {a: b}, finalizers: [a/b], ownerReferences: " +
			"[{apiVersion: v1, kind: A, name: a, uid: u}]}",
	}
	if deleting {
		patches = append(patches, "metadata: {deletionTimestamp: 2026-01-02T03:04:05Z}")
	}
	switch kind.Kind {
	case "Bastion":
		patches = append(patches, "spec: {userData: "+encodedSecret+"}")
	case "OperatingSystemConfig":
		patches = append(patches,
			"{spec: {providerConfig: {a: "+secret+"}, units: [{name: u, content: "+secret+", dropIns: [{name: d, content: "+secret+
				"}]}], files: [{path: p, content: {inline: {data: "+secret+"}}}]}, status: {extensionFiles: [{path: p, content: {inline: {data: "+
				secret+"}}}]}}")
	case "Worker":
		patches = append(patches,
			"spec: {pools: [{name: p, providerConfig: {a: "+secret+"}, userData: "+encodedSecret+
				", nodeTemplate: {capacity: {cpu: 1}}, labels: {a: b}, zones: [a], architecture: amd64, machineImage: {name: a, version: b}}]}")
	}
	object := map[string]any{}
	NewWithT(t).Expect(json.Unmarshal(patched(t, validObject(t, kind, here), patches...), &object)).To(Succeed())
	changed, is := d.damage(object).(map[string]any)
	if !is {
		return map[string]any{}
	}
	return changed
}

func FuzzValidate(f *testing.F) {
	for kind := range extensionvalidation.Kinds() {
		f.Add(uint8(kind), uint8(0), []byte{})
		f.Add(uint8(kind), uint8(1), []byte{9, 1, 8, 2, 7, 3, 0, 4, 11, 5, 10, 6})
		f.Add(uint8(kind), uint8(2), []byte{11, 15, 11, 15, 11, 15, 0, 5, 11, 15, 1, 11, 2, 11, 15, 11, 16, 0, 32})
	}
	operations := []review.Operation{"CREATE", "UPDATE", "UPDATE", "DELETE", "CONNECT"}
	f.Fuzz(func(t *testing.T, which, how uint8, bytes []byte) {
		g := NewWithT(t)
		kinds := extensionvalidation.Kinds()
		kind := kinds[int(which)%len(kinds)]
		d := &dice{bytes}
		deleting := int(how)%len(operations) == 2
		object, old := d.damaged(t, kind, deleting), d.damaged(t, kind, deleting)
		request := &review.Request{UID: "u", Operation: operations[int(how)%len(operations)], Name: name, Namespace: here}
		request.Object, request.OldObject = encode(t, object), encode(t, old)

		response, _ := reviewtest.Handle(t, kind.Handler, request)
		g.Expect(kind.Handler.Handle(t.Context(), request)).To(Equal(response), "equal requests get equal answers")
		g.Expect(response.Patch).To(BeNil())
		g.Expect(response.Message).NotTo(Or(ContainSubstring(secret), ContainSubstring(encodedSecret)))
		switch response.Code {
		case 200:
			g.Expect(response).To(Equal(review.Response{Allowed: true, Code: 200}))
		case 422:
			g.Expect(response.Allowed).To(BeFalse())
			g.Expect(response.Details.Causes).NotTo(BeEmpty())
		default:
			g.Expect(response.Allowed).To(BeFalse())
			g.Expect(response.Code).To(BeEquivalentTo(400), response.Message)
			return // the error text of a decoder depends on the position of the value
		}

		object["unheardOf"] = map[string]any{"spec": 1}
		if spec, is := object["spec"].(map[string]any); is {
			spec["unheardOf"] = []any{1}
		}
		request.Object = encode(t, object)
		g.Expect(kind.Handler.Handle(t.Context(), request)).To(Equal(response), "unknown fields do not count")
	})
}

func encode(t *testing.T, object map[string]any) []byte {
	t.Helper()
	encoded, err := json.Marshal(object)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return encoded
}
