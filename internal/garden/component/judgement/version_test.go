package judgement_test

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/garden/component/judgement"
)

func TestVersionOfALiveDeployment(t *testing.T) {
	for sentence, tc := range map[string]struct {
		annotation, image string
		want              string // "" if it is not known
	}{
		"the annotation wins":                      {annotation: "1.35.2", image: "registry.example.com/kube-apiserver:v1.34.0", want: "1.35.2"},
		"the tag, before there was the annotation": {image: "registry.example.com:5000/kube-apiserver:v1.34.0", want: "1.34.0"},
		"another tag":                              {image: "registry.example.com/kube-apiserver:stable"},
		"no tag":                                   {image: "registry.example.com:5000/kube-apiserver"},
	} {
		t.Run(sentence, func(t *testing.T) {
			live := &appsv1.Deployment{}
			live.Annotations = map[string]string{"espalier.dev/kubernetes-version": tc.annotation}
			live.Spec.Template.Spec.Containers = []corev1.Container{{Name: "other", Image: "a:v1.0.0"}, {Name: "kube-apiserver", Image: tc.image}}
			got := ""
			if parsed := judgement.KubernetesVersion(live, "kube-apiserver"); parsed != nil {
				got = parsed.String()
			}
			NewWithT(t).Expect(got).To(Equal(tc.want))
		})
	}
}
