package health_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/managedresource"
	. "github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
	"github.com/espalier-dev/espalier/test/local"
)

const (
	deployment = "apps/v1/Deployment"
	pod        = "v1/Pod"
	healthy    = "True/ResourcesHealthy"
	rolledOut  = "False/ResourcesRolledOut"
	pending    = "Unknown/ChecksPending"
)

// quietly sets the periods to an hour, so that everything that happens is caused by an event.
func quietly(change ...func(*config.ResourceManagerConfiguration)) func(*config.ResourceManagerConfiguration) {
	return func(cfg *config.ResourceManagerConfiguration) {
		cfg.Controllers.ManagedResource.SyncPeriod = &metav1.Duration{Duration: time.Hour}
		cfg.Controllers.Health.SyncPeriod = &metav1.Duration{Duration: time.Hour}
		for _, each := range change {
			each(cfg)
		}
	}
}

// checkedEvery sets the period of health checks.
func checkedEvery(period time.Duration) func(*config.ResourceManagerConfiguration) {
	return func(cfg *config.ResourceManagerConfiguration) {
		cfg.Controllers.Health.SyncPeriod = &metav1.Duration{Duration: period}
	}
}

// quiet starts a controller with the configuration of quietly.
func quiet(t *testing.T, change ...func(*config.ResourceManagerConfiguration)) *Env {
	t.Helper()
	t.Parallel()
	return New(t, Options{Configure: quietly(change...)})
}

// apart starts a controller with the configuration of quietly. Its target is a separate cluster without other controllers: the test does
// their work.
func apart(t *testing.T, change ...func(*config.ResourceManagerConfiguration)) *Env {
	t.Helper()
	t.Parallel()
	e := New(t, Options{TwoClusters: true, Configure: quietly(change...)})
	account(e, true)
	return e
}

// await waits until both conditions of a set have these values, each as "status/reason".
func await(e *Env, name, healthy, progressing string) *resourcesv1alpha1.ManagedResource {
	e.T.Helper()
	var mr *resourcesv1alpha1.ManagedResource
	soon(e, func(g Gomega) {
		mr = &resourcesv1alpha1.ManagedResource{}
		g.Expect(e.Source.Get(e.Ctx, client.ObjectKey{Namespace: e.Namespace, Name: name}, mr)).To(Succeed())
		g.Expect(Condition(mr, "ResourcesHealthy")).To(Equal(healthy), "%s (applied: %s)", Message(mr, "ResourcesHealthy"),
			Message(mr, "ResourcesApplied"))
		g.Expect(Condition(mr, "ResourcesProgressing")).To(Equal(progressing), "%s", Message(mr, "ResourcesProgressing"))
	}).Should(Succeed())
	return mr
}

// soon waits until a condition is true.
func soon(e *Env, actual any) AsyncAssertion {
	e.T.Helper()
	return e.Eventually(actual).WithTimeout(Patience)
}

// history records the changes of the status of a set.
type history struct {
	mu  sync.Mutex
	all []*resourcesv1alpha1.ManagedResource
}

// follow starts to record the changes of a set, which may not exist yet.
func follow(e *Env, name string) *history {
	e.T.Helper()
	servers, err := local.ForTests()
	e.Expect(err).NotTo(HaveOccurred())
	needs, err := managedresource.Needs(e.Config)
	e.Expect(err).NotTo(HaveOccurred())
	c, err := client.NewWithWatch(servers.Source.Config, client.Options{Scheme: needs.Scheme})
	e.Expect(err).NotTo(HaveOccurred())
	stream, err := c.Watch(e.Ctx, &resourcesv1alpha1.ManagedResourceList{}, client.InNamespace(e.Namespace),
		client.MatchingFields{"metadata.name": name})
	e.Expect(err).NotTo(HaveOccurred())
	e.T.Cleanup(stream.Stop)
	h := &history{}
	go func() {
		for event := range stream.ResultChan() {
			if mr, ok := event.Object.(*resourcesv1alpha1.ManagedResource); ok {
				h.mu.Lock()
				h.all = append(h.all, mr)
				h.mu.Unlock()
			}
		}
	}()
	return h
}

// reported lists the results of describe for the recorded versions of the set, without repetitions.
func (h *history) reported(describe func(*resourcesv1alpha1.ManagedResource) string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var found []string
	for _, each := range h.all {
		found = append(found, describe(each))
	}
	return slices.Compact(found)
}

// catchUp waits until the current state of a set was recorded: the watch may be behind.
func (h *history) catchUp(e *Env, name string) {
	e.T.Helper()
	soon(e, func() bool {
		now := e.Get(name).ResourceVersion
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.all) > 0 && h.all[len(h.all)-1].ResourceVersion == now
	}).Should(BeTrue())
}

// states describes all three conditions as "healthy/progressing/applied", with "–" for a condition that is absent.
func (h *history) states() []string {
	return h.reported(func(mr *resourcesv1alpha1.ManagedResource) string {
		var found []string
		for _, kind := range []string{"ResourcesHealthy", "ResourcesProgressing", "ResourcesApplied"} {
			status, _, present := strings.Cut(Condition(mr, kind), "/")
			if !present {
				status = "–"
			}
			found = append(found, status)
		}
		return strings.Join(found, "/")
	})
}

// of describes one condition as "status/reason".
func (h *history) of(kind string) []string {
	return h.reported(func(mr *resourcesv1alpha1.ManagedResource) string { return Condition(mr, kind) })
}

// account makes sure that the ServiceAccount "default", which Pods need, exists. If two is true, no controller creates it in the target,
// so account creates it. Otherwise account waits until it exists.
func account(e *Env, two bool) {
	e.T.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "default"}}
	if two {
		e.Expect(e.Target.Create(e.Ctx, account)).To(Succeed())
		return
	}
	soon(e, func() error { return e.Target.Get(e.Ctx, client.ObjectKeyFromObject(account), account) }).Should(Succeed())
}

// podManifest returns a Pod with metadata such as "labels: {app: web}".
func podManifest(e *Env, name string, metadata ...string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\n  namespace: %s\n%sspec:\n  automountServiceAccountToken: false\n"+
		"  containers: [{name: c, image: example.com/c}]\n",
		name, e.Namespace, lines(metadata))
}

// deploymentManifest returns a Deployment with Pods labelled app=<name>.
func deploymentManifest(e *Env, name string, replicas int, image string, metadata ...string) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata:
  name: %[1]s
  namespace: %[2]s
%[5]sspec:
  replicas: %[3]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec: {containers: [{name: c, image: %[4]s}]}
`, name, e.Namespace, replicas, image, lines(metadata))
}

func lines(metadata []string) string {
	var b strings.Builder
	for _, each := range metadata {
		b.WriteString("  " + each + "\n")
	}
	return b.String()
}

// complete writes the status of a Deployment with a complete rollout.
func complete(e *Env, name string, generation, replicas int) {
	e.T.Helper()
	e.PatchStatus(deployment, name, fmt.Sprintf(`{"status":{"observedGeneration":%d,"replicas":%[2]d,"updatedReplicas":%[2]d,
		"readyReplicas":%[2]d,"availableReplicas":%[2]d,
		"conditions":[
		{"type":"Available","status":"True","reason":"MinimumReplicasAvailable","message":"available"},
		{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable","message":"done"}]}}`, generation, replicas))
}

// rolledOutDeployment creates a set with a Deployment, and its Pods, and waits until all are healthy. It needs apart.
func rolledOutDeployment(e *Env, name string, replicas int, metadata ...string) {
	e.T.Helper()
	e.Set(name, deploymentManifest(e, name, replicas, "example.com/one", metadata...))
	for i := range replicas {
		e.Create(podManifest(e, fmt.Sprintf("%s-%d", name, i), "labels: {app: "+name+"}"))
	}
	e.AwaitApplied(name, "True/ApplySucceeded")
	complete(e, name, 1, replicas)
	await(e, name, healthy, rolledOut)
}

// running makes a Pod healthy.
func running(e *Env, name string) {
	e.T.Helper()
	e.PatchStatus(pod, name, `{"status":{"phase":"Running"}}`)
}

// annotateSet sets an annotation of a set, or removes it if the value is "null".
func annotateSet(e *Env, name, key, value string) {
	e.T.Helper()
	if value != "null" {
		value = fmt.Sprintf("%q", value)
	}
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, key, value))
	e.Expect(e.Source.Patch(e.Ctx, e.ManagedResource(name), patch)).To(Succeed())
}

// gadgets is the group of a kind that only this test has.
func gadgets(e *Env) string { return e.Namespace + ".example.com" }

func gadget(e *Env, name string) string {
	return fmt.Sprintf("apiVersion: %s/v1\nkind: Gadget\nmetadata: {name: %s, namespace: %s}\nspec: {size: 1}\n", gadgets(e), name,
		e.Namespace)
}

// watched counts the watches on managed objects.
func watched(e *Env) float64 {
	e.T.Helper()
	families, err := e.Registry.Gather()
	e.Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() == "espalier_managedresource_watches" {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return -1
}

// releaseAtEnd removes the finalizers of objects at the end of the test, so that its namespace can be deleted.
func releaseAtEnd(e *Env, kind string, names ...string) {
	e.T.Helper()
	apiVersion, short, _ := strings.Cut(kind, "/")
	e.T.Cleanup(func() {
		for _, name := range names {
			object := Unstructured(resourcesv1alpha1.ObjectReference{ObjectReference: corev1.ObjectReference{APIVersion: apiVersion, Kind: short}})
			object.SetNamespace(e.Namespace)
			object.SetName(name)
			patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
			_ = e.Target.Patch(context.WithoutCancel(e.Ctx), object, patch) // it may already be deleted
		}
	})
}
