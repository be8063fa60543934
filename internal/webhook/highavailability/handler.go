// Package highavailability makes workloads survive the loss of a node or a zone. It sets the replicas, the node affinity, the spread and
// the tolerations of Deployments and StatefulSets, according to annotations of their namespace. It also sets the limits of
// HorizontalPodAutoscalers and Hvpas. It changes no other field; other items in the lists that it changes keep their order and all of
// their fields.
//
// For every request it reads the namespace of the object, and the autoscalers that scale the object, from the target cluster. It writes
// nothing.
package highavailability

import (
	"context"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/admission/patch"
	"github.com/espalier-dev/espalier/internal/admission/review"
)

// Namespaces reads namespaces.
type Namespaces interface {
	// Annotations returns the annotations of a namespace that begin with AnnotationPrefix, and possibly others. Callers must not change the
	// map. If the namespace does not exist, it returns the error of the API server.
	Annotations(ctx context.Context, name string) (map[string]string, error)
}

// Target is the object that an autoscaler scales.
type Target struct{ Namespace, APIVersion, Kind, Name string }

// Scaling finds the autoscalers of a workload.
type Scaling interface {
	// MaxReplicas reports whether a HorizontalPodAutoscaler or an Hvpa in the namespace of the target scales exactly this target. The result
	// limit is the maximum number of replicas of that autoscaler. No autoscaler scales a target without a name. Errors begin with "failed to
	// list all HPAs: " or "failed to list all HVPAs: ".
	MaxReplicas(ctx context.Context, target Target) (limit int32, scaled bool, err error)
	// MaxReplicasLive is like MaxReplicas, but reads from the API server: it finds an autoscaler even if it was created just before.
	MaxReplicasLive(ctx context.Context, target Target) (limit int32, scaled bool, err error)
}

// Handler judges workloads and autoscalers.
type Handler struct {
	Namespaces Namespaces
	Scaling    Scaling
	// DefaultNotReadyTolerationSeconds is how many seconds Pods stay on a node that is not ready, and DefaultUnreachableTolerationSeconds is
	// how many seconds they stay on a node that is unreachable. If the Pod template already tolerates the taint of such a node, the value has
	// no effect. If a value is nil, no toleration is added.
	DefaultNotReadyTolerationSeconds    *int64
	DefaultUnreachableTolerationSeconds *int64
	// LegacyReplicaCriteria enables legacy mode: the annotation replica-criteria of namespaces has an effect.
	LegacyReplicaCriteria bool
}

// Handle implements review.Handler. It makes the same changes for all operations; only the decision to read autoscalers from the API
// server depends on the operation. If a look-up fails, the code of the response is 500. If an object cannot be decoded, the code is 403.
func (h *Handler) Handle(ctx context.Context, request *review.Request) review.Response {
	annotations, err := h.Namespaces.Annotations(ctx, request.Namespace)
	if err != nil {
		return review.Errored(http.StatusInternalServerError, err)
	}
	found := surroundings{namespace: readNamespace(annotations, h.LegacyReplicaCriteria)}
	found.limit, found.scaled, err = h.Scaling.MaxReplicas(ctx, targetOf(request))
	if err != nil {
		return review.Errored(http.StatusInternalServerError, err)
	}
	switch request.Kind.GroupKind() {
	case schema.GroupKind{Group: "apps", Kind: "Deployment"}, schema.GroupKind{Group: "apps", Kind: statefulSet}:
		return h.judgeWorkload(ctx, request, found)
	case schema.GroupKind{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}:
		if version := request.Kind.Version; version != "v2" && version != "v2beta1" {
			return review.Denied(fmt.Sprintf("autoscaling version %q in request is not supported", version))
		}
		object := horizontalPodAutoscaler{}
		return decodeAndRespond(request, &object, func(changes *patch.Patch) (string, error) {
			return "", changeScaler(changes, object.Metadata, object.Spec, "/spec", found.namespace)
		})
	case schema.GroupKind{Group: "autoscaling.k8s.io", Kind: "Hvpa"}:
		object := hvpa{}
		return decodeAndRespond(request, &object, func(changes *patch.Patch) (string, error) {
			return "", changeScaler(changes, object.Metadata, object.Spec.HPA.Template.Spec, "/spec/hpa/template/spec", found.namespace)
		})
	}
	return review.Allowed("unexpected resource: " + request.Kind.GroupKind().String())
}

// targetOf returns the object of a request in the form in which autoscalers refer to it.
func targetOf(request *review.Request) Target {
	return Target{Namespace: request.Namespace, APIVersion: request.Kind.GroupVersion().String(), Kind: request.Kind.Kind, Name: request.Name}
}

// judgeWorkload returns the response for a workload. If the caches contain no autoscaler of the workload, and an autoscaler could change
// the result, it reads the autoscalers from the API server: an autoscaler that was created just before the workload may not be in the
// caches yet. Otherwise judgeWorkload sends no request.
func (h *Handler) judgeWorkload(ctx context.Context, request *review.Request, found surroundings) review.Response {
	object := workload{}
	if err := request.Decode(&object); err != nil {
		return review.Denied(err.Error())
	}
	if object.losesReplicas(found) || spreadDependsOnLimit(&object, found) && setsReplicas(request, &object) {
		var err error
		if found.limit, found.scaled, err = h.Scaling.MaxReplicasLive(ctx, targetOf(request)); err != nil {
			return review.Errored(http.StatusInternalServerError, err)
		}
	}
	return respondWithChanges(func(changes *patch.Patch) (string, error) {
		return h.changeWorkload(changes, request.Kind.Kind, &object, found)
	})
}

// setsReplicas reports whether the request creates the workload or changes its number of replicas. It also returns true if it cannot
// decode the object before an update. For other updates the caches are enough: an earlier request has set the spread of the workload, and
// this spread is correct once the caches contain the autoscaler.
func setsReplicas(request *review.Request, object *workload) bool {
	switch request.Operation {
	case review.Create:
		return true
	case review.Update:
		before := workload{}
		return review.Decode(request.OldObject, &before) != nil || before.replicas() != object.replicas()
	case review.Delete, review.Connect:
	}
	return false
}

// decodeAndRespond decodes an object, calls change, and returns a response with the changes. Every error denies the request.
func decodeAndRespond(request *review.Request, object any, change func(*patch.Patch) (warning string, err error)) review.Response {
	if err := request.Decode(object); err != nil {
		return review.Denied(err.Error())
	}
	return respondWithChanges(change)
}

func respondWithChanges(change func(*patch.Patch) (warning string, err error)) review.Response {
	var changes patch.Patch
	warning, err := change(&changes)
	if err != nil {
		return review.Denied(err.Error())
	}
	response := review.Patched(changes)
	if warning != "" {
		response.Warnings = []string{warning}
	}
	return response
}
