// Package highavailability makes workloads fit to lose a node or a zone. It sets the replicas, the node affinity, the spread and
// the tolerations of Deployments and StatefulSets, and the limits of the autoscalers that scale them, from annotations of their
// namespace. It changes no other field; other items in the lists that it changes keep their order and all of their fields.
//
// It reads the namespace and the autoscalers of the workload, from the target cluster, for every request; it writes nothing.
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
	// Annotations returns those annotations of a namespace that begin with AnnotationPrefix, and maybe others. They must
	// not be changed. A namespace that is not there is an error, as the API server words it.
	Annotations(ctx context.Context, name string) (map[string]string, error)
}

// Target is the object that an autoscaler scales.
type Target struct{ Namespace, APIVersion, Kind, Name string }

// Scaling finds the autoscalers of a workload.
type Scaling interface {
	// MaxReplicas returns whether a HorizontalPodAutoscaler or an Hvpa of the target's namespace scales exactly this
	// target, and up to how many replicas. No autoscaler scales a target without a name. Errors begin with "failed to list
	// all HPAs: " or "failed to list all HVPAs: ".
	MaxReplicas(ctx context.Context, target Target) (limit int32, scaled bool, err error)
	// MaxReplicasLive is MaxReplicas with a read from the API server: an autoscaler counts even if it was created just before.
	MaxReplicasLive(ctx context.Context, target Target) (limit int32, scaled bool, err error)
}

// Handler judges workloads and autoscalers.
type Handler struct {
	Namespaces Namespaces
	Scaling    Scaling
	// DefaultNotReadyTolerationSeconds and DefaultUnreachableTolerationSeconds are how long Pods stay on nodes that have
	// gone, in seconds, unless their template says so itself; nil adds no toleration.
	DefaultNotReadyTolerationSeconds    *int64
	DefaultUnreachableTolerationSeconds *int64
	// LegacyReplicaCriteria makes the annotation replica-criteria of namespaces count.
	LegacyReplicaCriteria bool
}

// Handle implements review.Handler. All operations are judged alike. Look-ups that fail are answered with 500, objects that
// cannot be read with 403.
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

// targetOf is the object of a request as autoscalers name it.
func targetOf(request *review.Request) Target {
	return Target{Namespace: request.Namespace, APIVersion: request.Kind.GroupVersion().String(), Kind: request.Kind.Kind, Name: request.Name}
}

// judgeWorkload asks the API server for autoscalers if the caches know none and one would change the answer: an autoscaler
// that was created just before the workload may not have reached the caches. Other workloads cost no request.
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

// setsReplicas reports whether the request creates the workload or changes its number of replicas. Other updates keep the
// spread that an earlier request has got, which is right as soon as the caches know the autoscaler.
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

// decodeAndRespond reads an object and answers with the changes of change. Every error denies the request.
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
