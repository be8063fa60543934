package certificates

import "github.com/prometheus/client_golang/prometheus"

// metrics of the certificates in use.
type metrics struct{ expiry *prometheus.GaugeVec }

func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{expiry: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "espalier_webhook_certificate_expiry_seconds",
		Help: "When what this replica serves with expires, in seconds since 1970, by part: authority or certificate.",
	}, []string{"part"})}
	if registry != nil {
		registry.MustRegister(m.expiry)
	}
	return m
}

func (m *metrics) use(s *state) {
	m.expiry.WithLabelValues("authority").Set(float64(s.authority.certificate.NotAfter.Unix()))
	m.expiry.WithLabelValues("certificate").Set(float64(s.serving.certificate.NotAfter.Unix()))
}
