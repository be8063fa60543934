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
	// and of Etcds, unless annotation `confirmation.gardener.cloud/deletion` is true. The deletion of a collection needs the confirmation
	// of every object in it. Bastions need none.
	CRDDeletionProtection Switch `json:"crdDeletionProtection,omitempty"`
	// EndpointSliceHints adds the endpoint's own zone as a hint to each endpoint of EndpointSlices. Only with label
	// `endpoint-slice-hints.resources.gardener.cloud/consider: "true"` on the Service.
	EndpointSliceHints Switch `json:"endpointSliceHints,omitempty"`
	// ExtensionValidation refuses invalid fields, and changes of immutable ones, of the kinds of `extensions.gardener.cloud` and of
	// Etcds.
	ExtensionValidation Switch `json:"extensionValidation,omitempty"`
	// HighAvailabilityConfig sets replicas, zones, spread and tolerations of Deployments, StatefulSets, HorizontalPodAutoscalers and
	// Hvpas, by annotations of the namespace. Only in namespaces with label `high-availability-config.resources.gardener.cloud/consider:
	// "true"`, and not for objects with `high-availability-config.resources.gardener.cloud/skip`.
	HighAvailabilityConfig HighAvailabilityConfigWebhook `json:"highAvailabilityConfig,omitempty"`
	// KubernetesServiceHost sets `KUBERNETES_SERVICE_HOST` in containers of Pods that do not set it. Not with label
	// `apiserver-proxy.networking.gardener.cloud/inject: disable` on the Pod or its namespace.
	KubernetesServiceHost KubernetesServiceHostWebhook `json:"kubernetesServiceHost,omitempty"`
	// PodSchedulerName sets the scheduler of Pods that name the default scheduler.
	PodSchedulerName PodSchedulerNameWebhook `json:"podSchedulerName,omitempty"`
	// PodTopologySpread adds `pod-template-hash` to the selectors of spread constraints in Pods of Deployments, so that a rollout spreads
	// anew; constraints whose `matchLabelKeys` have it stay. Not for Pods with label
	// `topology-spread-constraints.resources.gardener.cloud/skip`.
	PodTopologySpread Switch `json:"podTopologySpreadConstraints,omitempty"`
	// ProjectedTokenMount mounts a token that expires into Pods, where the ServiceAccount forbids automounting and the Pod does not. The
	// annotation `projected-token-mount.resources.gardener.cloud/expiration-seconds` overrides the lifetime. Not for Pods with label
	// `projected-token-mount.resources.gardener.cloud/skip`.
	ProjectedTokenMount ProjectedTokenMountWebhook `json:"projectedTokenMount,omitempty"`
	// SeccompProfile sets the seccomp profile `RuntimeDefault` of Pods, if none is set. Not for Pods with label
	// `seccompprofile.resources.gardener.cloud/skip`.
	SeccompProfile Switch `json:"seccompProfile,omitempty"`
	// SystemComponentsConfig adds node selectors and tolerations to Pods with label `resources.gardener.cloud/managed-by: gardener`, in
	// flavor gardener-shoot only. Pods of DaemonSets, and with label `system-components-config.resources.gardener.cloud/skip`, stay as
	// they are.
	SystemComponentsConfig SystemComponentsConfigWebhook `json:"systemComponentsConfig,omitempty"`
	// TokenInvalidator overwrites static tokens in Secrets that token-controllers has marked. Enable both this handler and that
	// controller, or neither.
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
