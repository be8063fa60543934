package care

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/api"
	prometheusv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/excerpt"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
)

// The instances of Prometheus are listed live, and only with feature gate PrometheusHealthChecks.
// +kubebuilder:rbac:groups=monitoring.coreos.com,resources=prometheuses,verbs=list,namespace=garden,roleName=espalier-garden-operator-garden

const (
	// checkSeries and upSeries are the series of recording rules in deploy/observability: upSeries is 1 or 0, and there is a checkSeries for
	// each fault.
	checkSeries = "healthcheck"
	upSeries    = "healthcheck:up"
	// prometheusTimeout is how long an instance may take to answer.
	prometheusTimeout = 5 * time.Second
	prometheusPort    = 9090
)

// ownPrometheuses are the labels of the instances that this operator asks.
var ownPrometheuses = client.MatchingLabels{"health-check-by": "gardener-operator"}

var prometheusKind = schema.GroupVersionKind{Group: "monitoring.coreos.com", Version: "v1", Kind: "Prometheus"}

// checkPrometheuses asks each Pod of each instance whether the instance is healthy. It returns the first fault, in the order of the names
// of the Pods. It returns a fault only when all checks within a sync period have found a fault, because a Pod that has just started has no
// series yet. An error of the list of instances is returned at once.
func (r *Reconciler) checkPrometheuses(ctx context.Context) verdict {
	v := r.askPrometheuses(ctx)
	switch now := r.Clock.Now(); {
	case v.healthy || v.err != nil:
		r.faultSince = time.Time{}
	case r.faultSince.IsZero():
		r.faultSince = now
		return verdict{healthy: true}
	case now.Sub(r.faultSince) < r.period():
		return verdict{healthy: true}
	}
	return v
}

func (r *Reconciler) askPrometheuses(ctx context.Context) verdict {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(prometheusKind.GroupVersion().WithKind(prometheusKind.Kind + "List"))
	if err := r.Client.List(ctx, list, client.InNamespace(r.Namespace), ownPrometheuses); ignoreNotServed(err) != nil {
		return verdict{err: fmt.Errorf("list instances of Prometheus: %w", err)}
	}
	var hosts []string
	for i := range list.Items {
		hosts = append(hosts, hostsOf(&list.Items[i])...)
	}
	slices.Sort(hosts)
	verdicts := make([]verdict, len(hosts))
	var group sync.WaitGroup // each function writes an element of its own
	for i, host := range hosts {
		group.Go(func() { verdicts[i] = ask(ctx, r.Prometheus, host) })
	}
	group.Wait()
	return firstFailure(verdict{healthy: true}, verdicts...)
}

// hostsOf returns the names of the servers of an instance, one for each Pod.
func hostsOf(instance *unstructured.Unstructured) []string {
	// Fields of other types cannot come from the API server.
	replicas, isSet, _ := unstructured.NestedInt64(instance.Object, "spec", "replicas")
	if !isSet {
		replicas = 1
	}
	service, _, _ := unstructured.NestedString(instance.Object, "spec", "serviceName")
	if service == "" {
		service = "prometheus-operated"
	}
	hosts := make([]string, 0, replicas)
	for i := range replicas {
		hosts = append(hosts, object.ServiceHost(instance.GetNamespace(), fmt.Sprintf("prometheus-%s-%d.%s", instance.GetName(), i, service)))
	}
	return hosts
}

// ask queries one server of Prometheus for the series of its health.
func ask(ctx context.Context, c *http.Client, host string) verdict {
	ctx, cancel := context.WithTimeout(ctx, prometheusTimeout)
	defer cancel()
	connection, err := api.NewClient(api.Config{Address: "http://" + net.JoinHostPort(host, strconv.Itoa(prometheusPort)), Client: c})
	if err != nil {
		return answerOf(host, nil, err)
	}
	// Series that a server has copied from other instances have the label instance.
	query := fmt.Sprintf(`{__name__=~%q,instance=""}`, checkSeries+"|"+upSeries)
	result, _, _, err := prometheusv1.NewAPI(connection).Query(ctx, query, time.Time{})
	return answerOf(host, result, err)
}

// answerOf judges the answer of a server.
func answerOf(host string, result model.Value, err error) verdict {
	series, isVector := result.(model.Vector)
	if err == nil && !isVector {
		err = errors.New("the answer is no vector")
	}
	var up []float64
	var faults []string
	for _, each := range series {
		switch each.Metric[model.MetricNameLabel] {
		case upSeries:
			up = append(up, float64(each.Value))
		case checkSeries:
			labels := each.Metric.Clone()
			delete(labels, model.MetricNameLabel)
			faults = append(faults, labels.String())
		}
	}
	if err == nil && len(up) == 0 {
		err = fmt.Errorf("there is no series %s: its rules are not evaluated", upSeries)
	}
	pod, _, _ := strings.Cut(host, ".")
	switch {
	case err != nil:
		return unhealthy(reasonPrometheusError, bounded(fmt.Sprintf("Could not check health of Prometheus Pod %q: %v", pod, err)))
	case slices.ContainsFunc(up, func(value float64) bool { return value != 1 }):
		slices.Sort(faults)
		return unhealthy(reasonPrometheusDown, bounded(fmt.Sprintf("Prometheus Pod %q is unhealthy: %s", pod, strings.Join(faults, ", "))))
	}
	return verdict{healthy: true}
}

// bounded shortens a message.
func bounded(message string) string {
	const longest = 500
	return excerpt.Of(message, longest)
}
