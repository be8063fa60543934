package observability

import (
	"maps"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/pods"
	"github.com/espalier-dev/espalier/internal/garden/component/system"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// Instance is an instance of Prometheus or Alertmanager. prometheus-operator makes a StatefulSet with two Pods of it.
type Instance struct {
	// Kind is the kind of the object for prometheus-operator, and Name is its name.
	Kind schema.GroupVersionKind
	Name string
	// Component is the name of all other objects of the instance. It is also the first label of its host name.
	Component string
	// Image is the image of the program, whose container has the name Container.
	Image, Container string
	// Labels are the labels of all objects. Selector are labels that prometheus-operator gives the Pods, and only these Pods.
	Labels, Selector map[string]string
	// PodLabels are further labels of the Pods. PodAnnotations are annotations of the Pods, their StatefulSet and the instance.
	PodLabels, PodAnnotations map[string]string
	// CPU and Memory are requested, and MinAllowed and MaxAllowed are the bounds of the requests that an autoscaler may set.
	CPU, Memory            string
	MinAllowed, MaxAllowed corev1.ResourceList
	// Volume is the name of the volume of each Pod, and Size its size, unless the Garden demands a larger one.
	Volume, Size string
	// Spec are the further fields of the specification.
	Spec map[string]any
	// Annotations are annotations of the Service, and Ports its ports.
	Annotations map[string]string
	Ports       []corev1.ServicePort
}

// Owner returns the namespace and the labels of all objects.
func (i Instance) Owner(v values.Values) object.Owner {
	return object.Owner{Namespace: v.Namespace, Labels: i.Labels}
}

// Objects returns the instance, its Service, its autoscaler and its disruption budget.
func (i Instance) Objects(v values.Values) []client.Object {
	owner := i.Owner(v)
	service, budget := owner.Service(i.Component, i.Annotations, i.Ports...), owner.DisruptionBudget(i.Component)
	service.Spec.Selector, budget.Spec.Selector.MatchLabels = i.Selector, i.Selector
	o := Object(i.Kind, owner, i.Name, i.spec(v))
	o.SetAnnotations(i.PodAnnotations)
	return []client.Object{
		o, service, budget,
		object.Autoscaler{
			Name: i.Component, Labels: i.Labels, APIVersion: i.Kind.GroupVersion().String(), Kind: i.Kind.Kind, Target: i.Name,
			Container: i.Container, MinAllowed: i.MinAllowed, MaxAllowed: i.MaxAllowed,
		}.Object(v, v.Namespace),
	}
}

func (i Instance) spec(v values.Values) map[string]any {
	spec := map[string]any{
		"replicas": int64(2), "image": i.Image, "priorityClassName": system.Class100,
		"podMetadata":     map[string]any{"labels": Texts(i.PodLabels)},
		"resources":       map[string]any{"requests": map[string]any{"memory": i.Memory}},
		"securityContext": podSecurity(),
		"storage": map[string]any{"volumeClaimTemplate": map[string]any{
			"metadata": map[string]any{"name": i.Volume},
			"spec": map[string]any{
				"accessModes": []any{string(corev1.ReadWriteOnce)},
				"resources":   map[string]any{"requests": map[string]any{"storage": volumeSize(v, i.Size)}},
			},
		}},
	}
	if i.PodAnnotations != nil {
		spec["podMetadata"] = map[string]any{"labels": Texts(i.PodLabels), "annotations": Texts(i.PodAnnotations)}
	}
	if i.CPU != "" {
		spec["resources"] = map[string]any{"requests": map[string]any{"cpu": i.CPU, "memory": i.Memory}}
	}
	if release := releaseOf(i.Image); release != "" {
		spec["version"] = release
	}
	if len(v.Ingress.Domains) > 0 {
		spec["externalUrl"] = "https://" + i.Component + "." + v.Ingress.Domains[0]
	}
	maps.Copy(spec, i.Spec)
	return spec
}

// podSecurity returns the security context of the Pods, which do not run as root. The Pods of Gardener run as root, so the files of a
// volume that Gardener has used belong to root: with fsGroup, the kubelet gives these files to the group of the Pods.
func podSecurity() map[string]any {
	of := pods.PodSecurityContext()
	return map[string]any{
		"runAsNonRoot": *of.RunAsNonRoot, "runAsUser": *of.RunAsUser, "runAsGroup": *of.RunAsGroup, "fsGroup": *of.FSGroup,
		"fsGroupChangePolicy": string(corev1.FSGroupChangeOnRootMismatch),
		"seccompProfile":      map[string]any{"type": string(corev1.SeccompProfileTypeRuntimeDefault)},
	}
}

// volumeSize returns the size of a volume: the given size, or the least size that the Garden demands, if that is larger.
func volumeSize(v values.Values, size string) string {
	own := resource.MustParse(size)
	if least := v.MinimumVolumeSize; least != nil && least.Cmp(own) > 0 {
		return least.String()
	}
	return own.String()
}

var releaseTag = regexp.MustCompile(`:(v\d+\.\d+\.\d+)$`)

// releaseOf returns the release in the tag of an image, or "". prometheus-operator chooses flags by the release. Without a release,
// prometheus-operator chooses the flags of the release that it deploys by default.
func releaseOf(image string) string {
	if found := releaseTag.FindStringSubmatch(image); found != nil {
		return found[1]
	}
	return ""
}

// Texts returns a map of texts for an object without a Go type.
func Texts(of map[string]string) map[string]any {
	all := make(map[string]any, len(of))
	for key, value := range of {
		all[key] = value
	}
	return all
}
