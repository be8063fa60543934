package apply

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/apply/fields"
)

// TryCreate lets the API server do everything that Create would, admission included, but store the object. It returns
// what would be stored.
func (t *Target) TryCreate(ctx context.Context, r Resource, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return t.try(ctx, t.client.Post().AbsPath(r.path(object.GetNamespace())...), object)
}

// TryUpdate is to Update what TryCreate is to Create.
func (t *Target) TryUpdate(ctx context.Context, r Resource, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return t.try(ctx, t.client.Put().AbsPath(r.path(object.GetNamespace(), object.GetName())...), object)
}

func (t *Target) try(ctx context.Context, request *rest.Request, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if err := t.acquire(ctx); err != nil {
		return nil, err
	}
	defer t.release()
	content, err := json.Marshal(object.Object)
	if err != nil {
		return nil, fmt.Errorf("encode object: %w", err)
	}
	request = request.SetHeader("Content-Type", runtime.ContentTypeJSON).SetHeader("Accept", runtime.ContentTypeJSON)
	raw, err := body(request.Param("fieldManager", fields.Manager).Param("dryRun", metav1.DryRunAll).Body(content).Do(ctx))
	if err != nil {
		return nil, err
	}
	answer := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(raw, &answer.Object); err != nil {
		return nil, fmt.Errorf("decode answer: %w", err)
	}
	return answer, nil
}
