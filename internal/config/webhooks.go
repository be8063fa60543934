package config

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// minTokenExpirySeconds is the shortest lifetime of a token that the API server accepts in a request.
const minTokenExpirySeconds = 600

// Webhooks has one section per admission handler; all are off by default.
type Webhooks struct {
	// CRDDeletionProtection refuses the deletion of CRDs with label `gardener.cloud/deletion-protected: "true"`, of extension resources
	// except Bastions, and of Etcds, unless annotation `confirmation.gardener.cloud/deletion` is true. To delete a collection, also a part of
	// it, all objects of the kind in the namespace need the annotation; for CRDs, all CRDs with the label.
	CRDDeletionProtection Switch `json:"crdDeletionProtection,omitempty"`
	// EndpointSliceHints adds the endpoint's own zone as a hint to each endpoint of EndpointSlices. It changes only EndpointSlices with label
	// `endpoint-slice-hints.resources.gardener.cloud/consider: "true"`. Kubernetes copies this label from the Service.
	EndpointSliceHints Switch `json:"endpointSliceHints,omitempty"`
	// ExtensionValidation validates the kinds of `extensions.gardener.cloud`, and Etcds. It refuses objects with invalid fields, and changes
	// of immutable fields.
	ExtensionValidation Switch `json:"extensionValidation,omitempty"`
	// HighAvailabilityConfig sets replicas, zones, spread and tolerations of Deployments, StatefulSets, HorizontalPodAutoscalers and Hvpas,
	// by annotations of the namespace. It changes only objects in namespaces with label
	// `high-availability-config.resources.gardener.cloud/consider: "true"`, and no objects with label
	// `high-availability-config.resources.gardener.cloud/skip`.
	HighAvailabilityConfig HighAvailabilityConfigWebhook `json:"highAvailabilityConfig,omitempty"`
	// KubernetesServiceHost sets the environment variable `KUBERNETES_SERVICE_HOST` in each container of a Pod that does not set this
	// variable itself. It changes no Pods if the Pod or its namespace has label `apiserver-proxy.networking.gardener.cloud/inject: disable`.
	KubernetesServiceHost KubernetesServiceHostWebhook `json:"kubernetesServiceHost,omitempty"`
	// PodSchedulerName sets the scheduler of Pods that name the default scheduler.
	PodSchedulerName PodSchedulerNameWebhook `json:"podSchedulerName,omitempty"`
	// PodTopologySpread adds `pod-template-hash` to the selectors of spread constraints in Pods of Deployments, so that the Pods of each
	// rollout are spread separately. It does not change a constraint whose `matchLabelKeys` already contain `pod-template-hash`. Not for Pods
	// with label `topology-spread-constraints.resources.gardener.cloud/skip`.
	PodTopologySpread Switch `json:"podTopologySpreadConstraints,omitempty"`
	// ProjectedTokenMount mounts a token that expires into Pods whose ServiceAccount disables automounting, unless the Pod disables
	// automounting, too. Not for Pods with the ServiceAccount `default`, or with label `projected-token-mount.resources.gardener.cloud/skip`.
	// The annotation `projected-token-mount.resources.gardener.cloud/expiration-seconds` of the Pod overrides the lifetime of the token.
	ProjectedTokenMount ProjectedTokenMountWebhook `json:"projectedTokenMount,omitempty"`
	// SeccompProfile sets the seccomp profile `RuntimeDefault` of Pods, if none is set. Not for Pods for Windows, and not for Pods with label
	// `seccompprofile.resources.gardener.cloud/skip`.
	SeccompProfile Switch `json:"seccompProfile,omitempty"`
	// SystemComponentsConfig adds node selectors and tolerations to Pods with label `resources.gardener.cloud/managed-by: gardener`, in
	// flavor gardener-shoot only. It does not change Pods of DaemonSets, or Pods with label
	// `system-components-config.resources.gardener.cloud/skip`.
	SystemComponentsConfig SystemComponentsConfigWebhook `json:"systemComponentsConfig,omitempty"`
	// TokenInvalidator overwrites static tokens in Secrets that the token invalidator of token-controllers has marked. Enable both this
	// handler and the token invalidator of token-controllers, or neither.
	TokenInvalidator Switch `json:"tokenInvalidator,omitempty"`
}

// Switch is a section with a single field that enables the handler.
type Switch struct {
	// Enabled enables the handler.
	Enabled bool `json:"enabled,omitempty"`
}

// HighAvailabilityConfigWebhook sets replicas, spread and tolerations of workloads.
type HighAvailabilityConfigWebhook struct {
	// Enabled enables the handler.
	Enabled bool `json:"enabled,omitempty"`
	// DefaultNotReadyTolerationSeconds and DefaultUnreachableTolerationSeconds are in seconds, at least 0 (checked
	// even when disabled); nil: no toleration is added.
	DefaultNotReadyTolerationSeconds    *int64 `json:"defaultNotReadyTolerationSeconds,omitempty"`
	DefaultUnreachableTolerationSeconds *int64 `json:"defaultUnreachableTolerationSeconds,omitempty"`
}

// KubernetesServiceHostWebhook sets KUBERNETES_SERVICE_HOST in Pods.
type KubernetesServiceHostWebhook struct {
	// Enabled enables the handler.
	Enabled bool `json:"enabled,omitempty"`
	// Host is the fully qualified domain name of the API server.
	Host string `json:"host,omitempty"`
}

// PodSchedulerNameWebhook sets the scheduler of Pods.
type PodSchedulerNameWebhook struct {
	// Enabled enables the handler.
	Enabled bool `json:"enabled,omitempty"`
	// SchedulerName is set on Pods; not empty if enabled.
	SchedulerName *string `json:"schedulerName,omitempty"`
}

// ProjectedTokenMountWebhook mounts projected ServiceAccount tokens into Pods.
type ProjectedTokenMountWebhook struct {
	// Enabled enables the handler.
	Enabled bool `json:"enabled,omitempty"`
	// ExpirationSeconds is the lifetime of the token; at least 600 if enabled.
	ExpirationSeconds *int64 `json:"expirationSeconds,omitempty"`
}

// SystemComponentsConfigWebhook adds selectors and tolerations to Pods of system components.
type SystemComponentsConfigWebhook struct {
	// Enabled enables the handler.
	Enabled bool `json:"enabled,omitempty"`
	// NodeSelector selects, by labels, the Nodes for whose taints Pods get tolerations.
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// PodNodeSelector is added to the node selector of Pods; its values take precedence.
	PodNodeSelector map[string]string `json:"podNodeSelector,omitempty"`
	// PodTolerations are added to Pods; validated even when disabled.
	PodTolerations []corev1.Toleration `json:"podTolerations,omitempty"`
}

func defaultWebhooks(c *Webhooks) {
	if c.PodSchedulerName.Enabled {
		setIfNil(&c.PodSchedulerName.SchedulerName, "default-scheduler")
	}
	if c.ProjectedTokenMount.Enabled {
		setIfNil(&c.ProjectedTokenMount.ExpirationSeconds, 43200)
	}
}

func validateWebhooks(c Webhooks, at *field.Path) field.ErrorList {
	ha := c.HighAvailabilityConfig
	errs := validateTolerationSeconds(ha.DefaultNotReadyTolerationSeconds, ha.DefaultUnreachableTolerationSeconds,
		at.Child("highAvailabilityConfig"))
	errs = append(errs, validateTolerations(c.SystemComponentsConfig.PodTolerations, at.Child("systemComponentsConfig", "podTolerations"))...)
	if c.PodSchedulerName.Enabled && ptr.Deref(c.PodSchedulerName.SchedulerName, "") == "" {
		errs = append(errs, field.Required(at.Child("podSchedulerName", "schedulerName"), "must specify schedulerName when webhook is enabled"))
	}
	if seconds := ptr.Deref(c.ProjectedTokenMount.ExpirationSeconds, 0); c.ProjectedTokenMount.Enabled && seconds < minTokenExpirySeconds {
		errs = append(errs,
			field.Invalid(at.Child("projectedTokenMount", "expirationSeconds"), seconds, fmt.Sprintf("must be at least %d", minTokenExpirySeconds)))
	}
	return errs
}
