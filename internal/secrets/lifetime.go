package secrets

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/secrets/config"
)

const (
	// renewAtPercent is the part of the validity after which a Secret is renewed.
	renewAtPercent = 80
	// renewBefore is how long before the end of its validity a Secret is renewed at the latest.
	renewBefore = 10 * 24 * time.Hour
	// maxAhead is how far in the future the time of issue may be. If it is further in the future, the clock was ahead when the content was
	// issued.
	maxAhead = 10 * time.Minute
)

// lifetime is the validity of the content of a Secret. Without validity, validUntil is zero.
type lifetime struct{ issuedAt, validUntil time.Time }

// lifetimeOf returns the lifetime that the labels of a Secret must show. For a certificate, it returns the validity in the certificate.
// For other content, it returns the time of issue, which never changes, and the end of the requested validity, which begins at that time.
func lifetimeOf(request Request, secret *corev1.Secret, now time.Time) (lifetime, error) {
	if key := certificateKey(request.Config); key != "" {
		certificate, err := config.ParseCertificate(secret.Data[key])
		if err != nil {
			return lifetime{}, fmt.Errorf("parse %s of secret %q: %w", key, secret.Name, err)
		}
		return lifetime{issuedAt: certificate.NotBefore, validUntil: certificate.NotAfter}, nil
	}
	issuedAt := now
	if secret.Labels[LabelIssuedAt] != "" {
		var err error
		if issuedAt, err = timeOfLabel(secret, LabelIssuedAt); err != nil {
			return lifetime{}, err
		}
	}
	if request.Validity == 0 {
		return lifetime{issuedAt: issuedAt}, nil
	}
	return lifetime{issuedAt: issuedAt, validUntil: issuedAt.Add(request.Validity)}, nil
}

// certificateKey returns the data key of the certificate of a config, or "" if the config describes none.
func certificateKey(c config.Config) string {
	switch c := c.(type) {
	case config.Certificate:
		if c.SigningCA == nil {
			return config.DataKeyCACertificate
		}
		return config.DataKeyCertificate
	case config.ControlPlane:
		if c.Certificate != nil {
			return config.CertificateDataKey(c.Name)
		}
	}
	return ""
}

// needsRenewal reports whether 80 % of the validity are over, or at most ten days of it are left.
func (l lifetime) needsRenewal(now time.Time) bool {
	renewAt := l.issuedAt.Add(l.validUntil.Sub(l.issuedAt) / 100 * renewAtPercent)
	return now.After(renewAt) || now.After(l.validUntil.Add(-renewBefore))
}

// isOver reports whether the validity has ended.
func (l lifetime) isOver(now time.Time) bool { return now.After(l.validUntil) }

// isEarly reports whether the validity begins so far in the future that the clock was ahead at the time of issue.
func (l lifetime) isEarly(now time.Time) bool { return l.issuedAt.After(now.Add(maxAhead)) }

// lifetimeOfLabels returns the lifetime that the labels of a Secret show, and false if one of these labels is missing.
func lifetimeOfLabels(secret *corev1.Secret) (lifetime, bool, error) {
	if secret.Labels[LabelIssuedAt] == "" || secret.Labels[LabelValidUntil] == "" {
		return lifetime{}, false, nil
	}
	issuedAt, err := timeOfLabel(secret, LabelIssuedAt)
	if err != nil {
		return lifetime{}, false, err
	}
	validUntil, err := timeOfLabel(secret, LabelValidUntil)
	return lifetime{issuedAt: issuedAt, validUntil: validUntil}, err == nil, err
}

func timeOfLabel(secret *corev1.Secret, label string) (time.Time, error) {
	seconds, err := strconv.ParseInt(secret.Labels[label], 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("parse label %q of secret %q: %w", label, secret.Name, err)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

func labelOfTime(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }
