package handlers

import (
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/admission/patch"
	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/webhook/object"
)

const injectServiceHost = "apiserver-proxy.networking.gardener.cloud/inject"

// serviceHostTimeoutSeconds is short, because all Pods of a cluster wait for this webhook, and can run without its change.
const serviceHostTimeoutSeconds = 2

// kubernetesServiceHost adds the environment variable KUBERNETES_SERVICE_HOST to init containers and containers that do not set it, so
// that clients in Pods connect to the host name of the API server. If the configured host is empty, it adds the variable with an empty
// value. It does not change KUBERNETES_SERVICE_PORT or ephemeral containers.
func kubernetesServiceHost() Handler {
	return Handler{
		Name: "kubernetes-service-host", Path: "/webhooks/kubernetes-service-host", Mutating: true,
		Section: "kubernetesServiceHost", Switch: func(w *config.Webhooks) *bool { return &w.KubernetesServiceHost.Enabled },
		Webhooks: func(in Cluster) []registration.Webhook {
			notDisabled := registration.NotIn(injectServiceHost, "disable")
			return []registration.Webhook{{
				Rules:              createdPods(),
				Namespaces:         registration.Selection{Standard: in.Plain(), Labels: registration.Expressions(notDisabled)},
				Objects:            registration.Selection{Labels: in.Pods(notDisabled)},
				FailurePolicy:      admissionregistrationv1.Ignore,
				TimeoutSeconds:     serviceHostTimeoutSeconds,
				ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
			}}
		},
		Policy: serviceHostPolicy(),
		Review: func(s Settings) review.Handler {
			return object.Change(corev1.SchemeGroupVersion.WithKind("Pod"), func(found hostPod) patch.Patch {
				return planServiceHost(found, s.Webhooks.KubernetesServiceHost.Host)
			})
		},
	}
}

func serviceHostPolicy() *Policy {
	variables := func(containers string) string {
		const variable = "{'name': 'KUBERNETES_SERVICE_HOST', 'value': variables.host}"
		return eachOf("spec."+containers, "c", "!has(c.env) || !c.env.exists(e, e.name == 'KUBERNETES_SERVICE_HOST')",
			appended("c", "env", variable))
	}
	return &Policy{
		Variables: []admissionregistrationv1.Variable{{Name: "host", Expression: "''"}},
		Patch:     "variables.host == '' ? [] : " + variables("initContainers") + "\n+ " + variables("containers"),
	}
}

// serviceHostVariable is the name of the environment variable by which clients in Pods find the API server.
const serviceHostVariable = "KUBERNETES_SERVICE_HOST"

// hostPod is the part of a Pod that the handler reads. A container that is null in JSON is a nil pointer.
type hostPod struct {
	Spec struct {
		InitContainers []*hostContainer `json:"initContainers"`
		Containers     []*hostContainer `json:"containers"`
	} `json:"spec"`
}

type hostContainer struct {
	Env []envName `json:"env"`
}

type envName struct {
	Name string `json:"name"`
}

// planServiceHost adds the variable after the other variables of each container that does not set it in any way.
func planServiceHost(found hostPod, host string) patch.Patch {
	changes := patch.Patch{}
	giveVariable(&changes, "initContainers", found.Spec.InitContainers, host)
	giveVariable(&changes, "containers", found.Spec.Containers, host)
	return changes
}

func giveVariable(changes *patch.Patch, list string, containers []*hostContainer, host string) {
	for i, each := range containers {
		if len(*changes) > patch.MaxOperations { // then Encode refuses the patch
			return
		}
		if each != nil && !slices.Contains(each.Env, envName{Name: serviceHostVariable}) {
			patch.Append(changes, patch.Pointer("spec", list, i, "env"), len(each.Env), corev1.EnvVar{Name: serviceHostVariable, Value: host})
		}
	}
}
