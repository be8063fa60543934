package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/clock"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/resourcemanager"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/secrets"
	"github.com/espalier-dev/espalier/internal/secrets/manager"
)

// warnBeforeExpiry is the time before the end of a certificate authority at which the user must know that it expires. The overlap of a
// rotation, in which users get the new authority, can take months.
const warnBeforeExpiry = 180 * 24 * time.Hour

// Values of label part.
const (
	partAuthority   = "authority"
	partCertificate = "certificate"
)

// NewExpiry registers the metric with the ends of certificate authorities and of certificates.
func NewExpiry(registry prometheus.Registerer) *prometheus.GaugeVec {
	// `secret` is the logical name, for example `ca-client`. Each reconciliation sets it.
	return promauto.With(registry).NewGaugeVec(prometheus.GaugeOpts{
		Name: "espalier_garden_certificate_expiry_seconds",
		Help: "When a certificate in a managed Secret expires, in seconds since 1970, by logical name of the Secret and part: authority or " +
			"certificate.",
	}, []string{"secret", "part"})
}

// NewIssued registers the metric with the times at which credentials were issued.
func NewIssued(registry prometheus.Registerer) *prometheus.GaugeVec {
	// `secret` is the logical name of one of the [credentials](reference/credentials.md). The operator sets the metric at each
	// reconciliation, and when it renews certificates.
	return promauto.With(registry).NewGaugeVec(prometheus.GaugeOpts{
		Name: "espalier_garden_credential_issued_seconds",
		Help: "When the current content of a managed Secret was issued, in seconds since 1970, by logical name of the Secret.",
	}, []string{"secret"})
}

// reportExpiry reports when certificate authorities expire: in a metric, and in a condition and an Event if a rotation is urgent.
func (r *Reconciler) reportExpiry(ctx context.Context, s *status, m *manager.Manager) error {
	if r.Expiry != nil {
		r.Expiry.DeletePartialMatch(prometheus.Labels{"part": partAuthority})
	}
	var urgent []string
	for _, authority := range rotation.Authorities {
		current, err := m.Current(authority.Name)
		if err != nil {
			return err
		}
		end, expires := endOf(current)
		if !expires {
			continue
		}
		if r.Expiry != nil {
			r.Expiry.WithLabelValues(authority.Name, partAuthority).Set(float64(end.Unix()))
		}
		if end.Sub(r.Clock.Now()) < warnBeforeExpiry && slices.Contains(m.ExpiringAuthorities(), authority.Name) {
			urgent = append(urgent, fmt.Sprintf("%s (%s)", authority.Name, end.UTC().Format(time.RFC3339)))
		}
	}
	live, overdue := s.garden.Status.Conditions, r.overdue(s.garden, m)
	reported := func(conditions []corev1beta1.Condition) []corev1beta1.Condition {
		return withOverdue(r.Clock, withExpiry(r.Clock, conditions, urgent), overdue)
	}
	if equality.Semantic.DeepEqual(reported(live), live) {
		return nil
	}
	if len(urgent) > 0 {
		r.Recorder.Eventf(s.garden, nil, "Warning", reasonAuthoritiesExpire, "Reconcile", "%s", expiryMessage(urgent))
	}
	err := s.writeUnlessRotated(ctx, func(status *operatorv1alpha1.GardenStatus) {
		status.Conditions = reported(status.Conditions)
	})
	if err != nil {
		return fmt.Errorf("record expiring certificate authorities: %w", err)
	}
	return nil
}

// reportCertificates reports in metrics when credentials were issued, and when certificates that an authority has signed expire. A
// successful reconciliation calls it, and so does renewCertificates after a failed reconciliation: the expiry of a certificate that was
// not renewed is important then.
func (r *Reconciler) reportCertificates(m *manager.Manager) {
	if r.Issued != nil {
		r.Issued.Reset()
		for _, each := range components.Registry() {
			if at, exists := issuedAt(m.Newest(each.Name)); exists && each.Name != resourcemanager.BootstrapSecret {
				r.Issued.WithLabelValues(each.Name).Set(float64(at.Unix()))
			}
		}
	}
	if r.Expiry == nil {
		return
	}
	r.Expiry.DeletePartialMatch(prometheus.Labels{"part": partCertificate})
	for name, secret := range m.Certificates() {
		if end, expires := endOf(secret); expires && name != resourcemanager.BootstrapSecret { // this one is deleted after its first use
			r.Expiry.WithLabelValues(name, partCertificate).Set(float64(end.Unix()))
		}
	}
}

// endOf returns when the content of a managed Secret expires, and false if it does not.
func endOf(secret *corev1.Secret) (time.Time, bool) {
	seconds, err := strconv.ParseInt(secret.Labels[secrets.LabelValidUntil], 10, 64)
	return time.Unix(seconds, 0), err == nil
}

// withExpiry returns the conditions with a condition about urgent authorities, or without it if there are none.
func withExpiry(now clock.PassiveClock, conditions []corev1beta1.Condition, urgent []string) []corev1beta1.Condition {
	const kind = operatorv1alpha1.CertificateAuthoritiesExpire
	if len(urgent) == 0 {
		return withoutCondition(conditions, kind)
	}
	return withTrue(now, conditions, kind, operatorv1alpha1.ReasonRotationRequired, expiryMessage(urgent))
}

func withoutCondition(conditions []corev1beta1.Condition, kind corev1beta1.ConditionType) []corev1beta1.Condition {
	return slices.DeleteFunc(slices.Clone(conditions), func(c corev1beta1.Condition) bool { return c.Type == kind })
}

func withTrue(
	now clock.PassiveClock, conditions []corev1beta1.Condition, kind corev1beta1.ConditionType, reason, message string,
) []corev1beta1.Condition {
	condition := corev1beta1.GetOrInitCondition(now, conditions, kind)
	return corev1beta1.MergeConditions(conditions, corev1beta1.UpdatedCondition(now, condition, corev1beta1.ConditionTrue, reason, message))
}

func expiryMessage(urgent []string) string {
	return fmt.Sprintf("Certificate authorities expire, and only a rotation replaces them. Start it with the operation %s: %s.",
		operatorv1alpha1.OperationRotateCAStart, strings.Join(urgent, ", "))
}
