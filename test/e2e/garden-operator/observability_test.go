//go:build e2e

package gardenoperator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	list "github.com/espalier-dev/espalier/internal/garden/images"
)

// The programs of monitoring and logs of a local garden, as users reach them with `kubectl get --raw`.
var _ = Describe("observability of a Garden", Ordered, Label("garden", "observability"), func() {
	BeforeAll(requireObservability, NodeTimeout(2*patience))

	for _, service := range []string{"prometheus-garden:80", "prometheus-longterm:80"} {
		It("has all targets of "+service+" up, and evaluates rules without errors", func(ctx SpecContext) {
			Eventually(ctx, badTargets).WithArguments(service).WithTimeout(patience).Should(BeEmpty())
			Eventually(ctx, badRules).WithArguments(service).WithTimeout(patience).Should(BeEmpty())
		}, SpecTimeout(2*patience))
	}

	It("has metrics of objects, and of requests to the API servers", func(ctx SpecContext) {
		for _, query := range []string{
			`kube_deployment_status_replicas{namespace="garden"}`, `probe_success == 1`, `espalier_garden_tasks`, `etcd_server_has_leader == 1`,
		} {
			Eventually(ctx, series).WithArguments("prometheus-garden:80", query).WithTimeout(patience).Should(BeNumerically(">", 0), query)
		}
		Eventually(ctx, series).WithArguments("prometheus-longterm:81", `probe_success`).WithTimeout(patience).Should(BeNumerically(">", 0))
	}, SpecTimeout(2*patience))

	It("sends an alert to Alertmanager", func(ctx SpecContext) {
		rule := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule",
			"metadata": map[string]any{
				"namespace": namespace, "name": "e2e", "labels": map[string]any{"prometheus": "garden"},
			},
			"spec": map[string]any{"groups": []any{map[string]any{"name": "e2e", "interval": "5s", "rules": []any{
				map[string]any{"alert": "E2E", "expr": "vector(1)"},
			}}}},
		}}
		Expect(c.Client.Create(ctx, rule)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(c.Client.Delete(ctx, rule)).To(Succeed()) })
		Eventually(ctx, func(ctx context.Context) (string, error) {
			return raw(ctx, "alertmanager-garden:9093", "/api/v2/alerts", nil)
		}).WithTimeout(patience).Should(ContainSubstring(`"alertname":"E2E"`))
	}, SpecTimeout(patience+time.Minute))

	It("stores each of 10,000 lines of a Pod", func(ctx SpecContext) {
		text := writeLines(ctx)
		reportLines(ctx, text)
	}, SpecTimeout(patience))

	for _, deployment := range []string{"opentelemetry-collector-collector", "vlsingle-victoria-logs"} {
		It("stores each of 10,000 lines although the Pod of "+deployment+" is deleted", func(ctx SpecContext) {
			text := writeLines(ctx, "600ms")
			Eventually(ctx, storedLines).WithArguments(text).WithTimeout(patience).Should(HaveField("Different", And(
				BeNumerically(">", 0), BeNumerically("<", lines))))
			d := &appsv1.Deployment{}
			Expect(c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: deployment}, d)).To(Succeed())
			deletePods(ctx, d.Spec.Selector.MatchLabels)
			reportLines(ctx, text)
		}, SpecTimeout(2*patience))
	}
})

// requireObservability skips the specs unless the cluster has the local garden with monitoring and logs.
func requireObservability(ctx SpecContext) {
	GinkgoHelper()
	requireLocalGarden(ctx)
	err := c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "prometheus-garden"}, &corev1.Service{})
	if apierrors.IsNotFound(err) {
		Skip("SKIPPED: the garden runs without OBSERVABILITY=true")
	}
	Expect(err).NotTo(HaveOccurred())
}

// lines is the number of lines that writeLines writes.
const lines = 10000

// writeLines starts a Pod that writes lines, and returns the text with which they begin, which is also the name of the Pod. With a pause,
// the Pod pauses after every hundred lines.
func writeLines(ctx context.Context, pause ...string) string {
	GinkgoHelper()
	image, err := imageOf(ctx, "lines")
	Expect(err).NotTo(HaveOccurred())
	text := fmt.Sprintf("pear-%d", time.Now().Unix())
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: text},
		Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{
			Name: "lines", Image: image, Args: append([]string{text, strconv.Itoa(lines)}, pause...),
		}}},
	}
	Expect(c.Client.Create(ctx, pod)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(c.Client.Delete(ctx, pod)).To(Succeed()) })
	return text
}

// reportLines waits until all lines are stored, and reports how long after the end of the Pod they were, and how many are stored twice.
func reportLines(ctx context.Context, text string) {
	GinkgoHelper()
	var found stored
	Eventually(ctx, func(ctx context.Context) (_ int, err error) {
		found, err = storedLines(ctx, text)
		return found.Different, err
	}).WithTimeout(patience).Should(Equal(lines))
	read := time.Now()
	pod := &corev1.Pod{}
	Expect(c.Client.Get(ctx, client.ObjectKey{Namespace: "default", Name: text}, pod)).To(Succeed())
	end := pod.Status.ContainerStatuses[0].State.Terminated
	Expect(end).NotTo(BeNil())
	AddReportEntry("lines of "+text, fmt.Sprintf("all %d stored %s after the last one, %d of them twice", found.Different,
		read.Sub(end.FinishedAt.Time).Round(time.Second), found.All-found.Different))
}

// raw returns the answer of a Service of the garden, through the API server.
func raw(ctx context.Context, service, path string, query url.Values) (string, error) {
	target := "/api/v1/namespaces/" + namespace + "/services/" + service + "/proxy" + path
	if query != nil {
		target += "?" + query.Encode()
	}
	return c.Kubectl(ctx, "get", "--raw", target)
}

// ask decodes the field data of the answer of a Prometheus.
func ask(ctx context.Context, service, path string, query url.Values, data any) error {
	text, err := raw(ctx, service, path, query)
	if err != nil {
		return err
	}
	answer := struct{ Data json.RawMessage }{}
	return errors.Join(json.Unmarshal([]byte(text), &answer), json.Unmarshal(answer.Data, data))
}

// badTargets returns the targets that a Prometheus cannot read, with the errors. It fails if there are no targets.
func badTargets(ctx context.Context, service string) ([]string, error) {
	data := struct {
		ActiveTargets []struct{ ScrapePool, ScrapeURL, Health, LastError string }
	}{}
	if err := ask(ctx, service, "/api/v1/targets", url.Values{"state": {"active"}}, &data); err != nil {
		return nil, err
	}
	if len(data.ActiveTargets) == 0 {
		return nil, errors.New("there are no targets")
	}
	var bad []string
	for _, each := range data.ActiveTargets {
		if each.Health != "up" {
			bad = append(bad, fmt.Sprintf("%s %s: %s %s", each.ScrapePool, each.ScrapeURL, each.Health, each.LastError))
		}
	}
	return bad, nil
}

// badRules returns the rules that a Prometheus has not evaluated, with the errors.
func badRules(ctx context.Context, service string) ([]string, error) {
	data := struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}{}
	if err := ask(ctx, service, "/api/v1/rules", nil, &data); err != nil {
		return nil, err
	}
	var bad []string
	for _, group := range data.Groups {
		for _, each := range group.Rules {
			if each.Health != "ok" {
				bad = append(bad, fmt.Sprintf("%s: %s %s", each.Name, each.Health, each.LastError))
			}
		}
	}
	return bad, nil
}

// series returns the number of series of a query.
func series(ctx context.Context, service, query string) (int, error) {
	data := struct{ Result []any }{}
	err := ask(ctx, service, "/api/v1/query", url.Values{"query": {query}}, &data)
	return len(data.Result), err
}

// stored are the numbers of lines in VictoriaLogs.
type stored struct {
	All       int `json:"all,string"`
	Different int `json:"different,string"`
}

// storedLines returns the numbers of lines in VictoriaLogs of a Pod.
func storedLines(ctx context.Context, pod string) (stored, error) {
	found := stored{}
	answer, err := raw(ctx, "logging-vl:9428", "/select/logsql/query", url.Values{
		"query": {fmt.Sprintf(`{k8s.pod.name=%q} | stats count() all, count_uniq(_msg) different`, pod)}, "start": {"1h"},
	})
	if err != nil {
		return found, err
	}
	err = json.Unmarshal([]byte(strings.TrimSpace(answer)), &found)
	return found, err
}

// imageOf returns an image of the list that `make up-garden` gives the operator.
func imageOf(ctx context.Context, name string) (string, error) {
	maps := &corev1.ConfigMapList{}
	if err := c.Client.List(ctx, maps, client.InNamespace("espalier-system")); err != nil {
		return "", err
	}
	for _, each := range maps.Items {
		known := struct{ Images list.List }{}
		if text, found := each.Data["images.yaml"]; !found || yaml.Unmarshal([]byte(text), &known) != nil {
			continue
		}
		if image, err := known.Images.Find(name, list.Cluster{}); err == nil {
			return image, nil
		}
	}
	return "", errors.New("no ConfigMap in namespace espalier-system has image " + name)
}
