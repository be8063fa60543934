package requestor

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/espalier-dev/espalier/internal/process"
)

// States of Secrets, as the metric counts them.
const (
	stateValid   = "valid"
	stateExpired = "expired"
	stateUnknown = "unknown"
	stateMissing = "missing"
)

// Metrics of the token requestor. No label is the name of an object. Values that depend on the time are computed at each scrape.
type Metrics struct {
	requests *prometheus.CounterVec
	failures *prometheus.CounterVec

	clock  clock.PassiveClock
	tokens func() []entry

	secrets, failing, until, soonest *prometheus.Desc
}

// NewMetrics registers the metrics, which are computed from the memory.
func NewMetrics(registry prometheus.Registerer, passive clock.PassiveClock, memory *Memory) *Metrics {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "espalier_token_requests_total", Help: "Token requests to the target by result: issued or failed.",
		}, []string{"result"}),
		// Kinds are `mistake` (the user must edit the Secret), `forbidden`, `not_found`, `conflict` and `other`.
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "espalier_token_failures_total", Help: "Failed attempts to get a token into its Secret, by kind of failure.",
		}, []string{"kind"}),
		clock: passive, tokens: memory.tokens,
		// States are `valid`, `expired`, `unknown` (its expiry cannot be read) and `missing`.
		secrets: prometheus.NewDesc("espalier_token_secrets", "Secrets that want a token, by the state of the token.", []string{"state"}, nil),
		failing: prometheus.NewDesc("espalier_token_failing_secrets",
			"Secrets whose token could not be requested, renewed or written at the last attempt.", nil, nil),
		// Only of the tokens that exist now: the histogram shows no history.
		until: prometheus.NewDesc("espalier_token_until_expiry_seconds", "Time until tokens expire, 0 for expired ones.", nil, nil),
		// Use this metric for alerts: `< 3600`.
		soonest: prometheus.NewDesc("espalier_token_until_first_expiry_seconds",
			"Time until the first token expires, negative if it has. Absent if there is none.", nil, nil),
	}
	for _, result := range []string{"issued", "failed"} {
		m.requests.WithLabelValues(result)
	}
	for _, kind := range kindsOfFailure() {
		m.failures.WithLabelValues(kind)
	}
	registry.MustRegister(m.requests, m.failures, process.Collector(m.collect, m.secrets, m.failing, m.until, m.soonest))
	return m
}

func (m *Metrics) requested(err error) {
	result := "issued"
	if err != nil {
		result = "failed"
	}
	m.requests.WithLabelValues(result).Inc()
}

func (m *Metrics) failed(err error) { m.failures.WithLabelValues(kindOf(err)).Inc() }

func (m *Metrics) collect(metrics chan<- prometheus.Metric) {
	s := summarize(m.clock.Now(), m.tokens())
	for state, n := range s.states {
		metrics <- prometheus.MustNewConstMetric(m.secrets, prometheus.GaugeValue, float64(n), state)
	}
	metrics <- prometheus.MustNewConstMetric(m.failing, prometheus.GaugeValue, float64(s.failing))
	metrics <- prometheus.MustNewConstHistogram(m.until, s.known, s.sum, s.buckets)
	if s.known > 0 {
		metrics <- prometheus.MustNewConstMetric(m.soonest, prometheus.GaugeValue, s.soonest)
	}
}

// summary contains the values of the metrics about all tokens.
type summary struct {
	states  map[string]int
	failing int
	// known is the number of tokens whose expiry is known. The fields below are about these tokens, in seconds.
	known   uint64
	sum     float64
	soonest float64
	buckets map[float64]uint64
}

// bounds returns the bounds of the histogram, in seconds: 0 (expired), 1 and 10 minutes, 1, 2, 6, 12 and 24 hours, a week.
func bounds() []float64 { return []float64{0, 60, 600, 3600, 7200, 21600, 43200, 86400, 604800} }

func summarize(now time.Time, tokens []entry) summary {
	s := summary{
		states:  map[string]int{stateValid: 0, stateExpired: 0, stateUnknown: 0, stateMissing: 0},
		soonest: math.Inf(1), buckets: map[float64]uint64{},
	}
	for _, bound := range bounds() {
		s.buckets[bound] = 0
	}
	for _, each := range tokens {
		if each.failure != "" {
			s.failing++
		}
		s.states[stateOf(now, each)]++
		if !each.held || each.expiry.IsZero() {
			continue
		}
		remaining := each.expiry.Sub(now).Seconds()
		s.known++
		s.sum += max(remaining, 0)
		s.soonest = min(s.soonest, remaining)
		for _, bound := range bounds() {
			if remaining <= bound {
				s.buckets[bound]++
			}
		}
	}
	return s
}

func stateOf(now time.Time, e entry) string {
	switch {
	case !e.held:
		return stateMissing
	case e.expiry.IsZero():
		return stateUnknown
	case now.Before(e.expiry):
		return stateValid
	}
	return stateExpired
}
