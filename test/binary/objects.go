package binary

import (
	"context"
	"errors"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Object reads a manifest in YAML.
func Object(g Gomega, manifest string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	content, err := yaml.YAMLToJSON([]byte(manifest))
	g.Expect(err).NotTo(HaveOccurred(), manifest)
	g.Expect(o.UnmarshalJSON(content)).To(Succeed(), manifest)
	return o
}

// CreateCopy creates a copy of an object, and deletes it when the test ends. It returns the stored object.
func CreateCopy(
	t *testing.T, c client.Client, o *unstructured.Unstructured, options ...client.CreateOption,
) (*unstructured.Unstructured, error) {
	t.Helper()
	created := o.DeepCopy()
	if err := c.Create(t.Context(), created, options...); err != nil {
		return nil, err
	}
	DeleteAtEnd(t, c, created)
	return created, nil
}

// DeleteAtEnd deletes an object when the test ends, if it exists.
func DeleteAtEnd(t *testing.T, c client.Client, o *unstructured.Unstructured) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() { NewWithT(t).Expect(client.IgnoreNotFound(c.Delete(ctx, o.DeepCopy()))).To(Succeed()) })
}

// unchecked is the message that an API server adds when a fault keeps it from evaluating further rules.
const unchecked = "some validation rules were not checked because the object was invalid"

// Causes returns the faults that an error of the status 422 lists, as "field: message"; nothing if there is no error.
func Causes(g Gomega, err error) []string {
	if err == nil {
		return nil
	}
	g.Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
	var all []string
	status := apierrors.APIStatus(nil)
	g.Expect(errors.As(err, &status)).To(BeTrue())
	for _, cause := range status.Status().Details.Causes {
		if !strings.Contains(cause.Message, unchecked) {
			all = append(all, cause.Field+": "+cause.Message)
		}
	}
	return all
}
