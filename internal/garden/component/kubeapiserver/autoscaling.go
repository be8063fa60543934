package kubeapiserver

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/exposure"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/pods"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

const mostReplicas = 6

func leastReplicas(v values.Values) int32 {
	if v.HighAvailability {
		return 3
	}
	return 2
}

// replicas returns the number of replicas of the live Deployment, because the autoscaler changes this number. If there is no live
// Deployment, or if the number is 0, it returns the least number of replicas.
func replicas(v values.Values, live *appsv1.Deployment) int32 {
	if live != nil && ptr.Deref(live.Spec.Replicas, 0) > 0 {
		return *live.Spec.Replicas
	}
	return leastReplicas(v)
}

// resources keeps the requests of the live Deployment, because the autoscaler changes them.
func resources(v values.Values, live *appsv1.Deployment) corev1.ResourceRequirements {
	if live != nil {
		for i := range live.Spec.Template.Spec.Containers {
			c := &live.Spec.Template.Spec.Containers[i]
			if c.Name == Container && len(c.Resources.Requests) > 0 {
				return corev1.ResourceRequirements{Requests: c.Resources.Requests.DeepCopy()}
			}
		}
	}
	return pods.RequestsOfAtLeast("600m", "512Mi", pods.MinAllowed(v.KubeAPIServer.Autoscaling))
}

// horizontalAutoscaler adds replicas when the running replicas use much cpu or memory. The limits are absolute figures and not shares of
// the requests, because the vertical autoscaler changes the requests.
func horizontalAutoscaler(v values.Values) client.Object {
	metric := func(name corev1.ResourceName, average string) autoscalingv2.MetricSpec {
		return autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
			Name: name, Target: autoscalingv2.MetricTarget{
				Type: autoscalingv2.AverageValueMetricType, AverageValue: ptr.To(resource.MustParse(average)),
			},
		}}
	}
	rules := func(window, period, value int32, kind autoscalingv2.HPAScalingPolicyType) *autoscalingv2.HPAScalingRules {
		return &autoscalingv2.HPAScalingRules{
			StabilizationWindowSeconds: &window, Policies: []autoscalingv2.HPAScalingPolicy{{Type: kind, Value: value, PeriodSeconds: period}},
		}
	}
	return &autoscalingv2.HorizontalPodAutoscaler{
		TypeMeta:   object.Type(autoscalingv2.SchemeGroupVersion.String(), "HorizontalPodAutoscaler"),
		ObjectMeta: exposure.Owner(v).Meta(Name),
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{
				APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment", Name: Name,
			},
			MinReplicas: ptr.To(leastReplicas(v)), MaxReplicas: mostReplicas,
			Metrics: []autoscalingv2.MetricSpec{metric(corev1.ResourceCPU, "6"), metric(corev1.ResourceMemory, "24G")},
			Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{
				ScaleUp:   rules(60, 60, 100, autoscalingv2.PercentScalingPolicy),
				ScaleDown: rules(1800, 300, 1, autoscalingv2.PodsScalingPolicy),
			},
		},
	}
}

func verticalAutoscaler(v values.Values) client.Object {
	least := pods.Amounts("20m", "200M")
	maps.Copy(least, pods.MinAllowed(v.KubeAPIServer.Autoscaling))
	return object.Autoscaler{
		Name: AutoscalerName, Target: Name, Labels: exposure.Labels(), Container: Container, MinAllowed: least,
	}.Object(v, v.Namespace)
}
