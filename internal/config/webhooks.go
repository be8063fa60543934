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
	CRDDeletionProtection  Switch                        `json:"crdDeletionProtection,omitempty"`
	EndpointSliceHints     Switch                        `json:"endpointSliceHints,omitempty"`
	ExtensionValidation    Switch                        `json:"extensionValidation,omitempty"`
	HighAvailabilityConfig HighAvailabilityConfigWebhook `json:"highAvailabilityConfig,omitempty"`
	KubernetesServiceHost  KubernetesServiceHostWebhook  `json:"kubernetesServiceHost,omitempty"`
	PodSchedulerName       PodSchedulerNameWebhook       `json:"podSchedulerName,omitempty"`
	PodTopologySpread      Switch                        `json:"podTopologySpreadConstraints,omitempty"`
	ProjectedTokenMount    ProjectedTokenMountWebhook    `json:"projectedTokenMount,omitempty"`
	SeccompProfile         Switch                        `json:"seccompProfile,omitempty"`
	SystemComponentsConfig SystemComponentsConfigWebhook `json:"systemComponentsConfig,omitempty"`
	TokenInvalidator       Switch                        `json:"tokenInvalidator,omitempty"`
}

// Switch is a section with a single field that enables the handler.
type Switch struct {
	// Enabled enables the handler; default false.
	Enabled bool `json:"enabled,omitempty"`
}

// HighAvailabilityConfigWebhook sets replicas, spread and tolerations of workloads.
type HighAvailabilityConfigWebhook struct {
	// Enabled enables the handler; default false.
	Enabled bool `json:"enabled,omitempty"`
	// DefaultNotReadyTolerationSeconds and DefaultUnreachableTolerationSeconds are in seconds, at least 0 (checked
	// even when disabled); nil: no toleration is added.
	DefaultNotReadyTolerationSeconds    *int64 `json:"defaultNotReadyTolerationSeconds,omitempty"`
	DefaultUnreachableTolerationSeconds *int64 `json:"defaultUnreachableTolerationSeconds,omitempty"`
}

// KubernetesServiceHostWebhook sets KUBERNETES_SERVICE_HOST in Pods.
type KubernetesServiceHostWebhook struct {
	// Enabled enables the handler; default false.
	Enabled bool `json:"enabled,omitempty"`
	// Host is the fully qualified domain name of the API server.
	Host string `json:"host,omitempty"`
}

// PodSchedulerNameWebhook sets the scheduler of Pods.
type PodSchedulerNameWebhook struct {
	// Enabled enables the handler; default false.
	Enabled bool `json:"enabled,omitempty"`
	// SchedulerName is set on Pods; if enabled not empty, default default-scheduler.
	SchedulerName *string `json:"schedulerName,omitempty"`
}

// ProjectedTokenMountWebhook mounts projected ServiceAccount tokens into Pods.
type ProjectedTokenMountWebhook struct {
	// Enabled enables the handler; default false.
	Enabled bool `json:"enabled,omitempty"`
	// ExpirationSeconds is the lifetime of the token; if enabled at least 600, default 43200.
	ExpirationSeconds *int64 `json:"expirationSeconds,omitempty"`
}

// SystemComponentsConfigWebhook adds selectors and tolerations to Pods of system components.
type SystemComponentsConfigWebhook struct {
	// Enabled enables the handler; default false.
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
