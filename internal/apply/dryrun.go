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

// DryRunCreate makes the API server do everything that Create would, admission included, except store the object. It returns
// the object that Create would store.
func (t *Target) DryRunCreate(ctx context.Context, r Resource, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return t.dryRun(ctx, t.client.Post().AbsPath(r.path(object.GetNamespace())...), object)
}

// DryRunUpdate is the dry run of Update, as DryRunCreate is of Create.
func (t *Target) DryRunUpdate(ctx context.Context, r Resource, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return t.dryRun(ctx, t.client.Put().AbsPath(r.path(object.GetNamespace(), object.GetName())...), object)
}

func (t *Target) dryRun(ctx context.Context, request *rest.Request, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if err := t.acquire(ctx); err != nil {
		return nil, err
	}
	defer t.release()
	content, err := json.Marshal(object.Object)
	if err != nil {
		return nil, fmt.Errorf("encode object: %w", err)
	}
	request = request.SetHeader("Content-Type", runtime.ContentTypeJSON).SetHeader("Accept", runtime.ContentTypeJSON)
	raw, err := rawBody(request.Param("fieldManager", fields.Manager).Param("dryRun", metav1.DryRunAll).Body(content).Do(ctx))
	if err != nil {
		return nil, err
	}
	answer := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(raw, &answer.Object); err != nil {
		return nil, fmt.Errorf("decode answer: %w", err)
	}
	return answer, nil
}
