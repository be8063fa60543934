package shared

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/version"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// KubernetesVersion returns the version of Kubernetes that a live Deployment has: that of the annotation, or else that of the tag of the
// image of a container. It is nil if neither has one.
func KubernetesVersion(live *appsv1.Deployment, container string) *version.Version {
	text := live.Annotations[operatorv1alpha1.AnnotationKubernetesVersion]
	for i := range live.Spec.Template.Spec.Containers {
		if c := &live.Spec.Template.Spec.Containers[i]; text == "" && c.Name == container {
			text = c.Image[strings.LastIndex(c.Image, ":")+1:]
		}
	}
	parsed, err := version.ParseSemantic(text)
	if err != nil {
		return nil
	}
	return parsed
}
