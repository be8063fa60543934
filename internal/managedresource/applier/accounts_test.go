package applier_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/config"
	. "github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

// locked runs a test with a controller that applies sets only as ServiceAccounts, with one cluster and with two. ServiceAccount deployer
// may write ConfigMaps.
func locked(t *testing.T, test func(e *Env)) {
	t.Helper()
	t.Parallel()
	for name, two := range map[string]bool{"one cluster": false, "two clusters": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := NewImpersonating(t, Options{TwoClusters: two, Configure: longSyncPeriod})
			e.Account("deployer")
			test(e)
		})
	}
}

// setOf creates a set that is applied as a ServiceAccount.
func setOf(e *Env, name, account string, documents ...string) {
	e.T.Helper()
	e.Secret(name, documents...)
	mr := e.ManagedResource(name, name)
	mr.Annotations = map[string]string{"espalier.dev/service-account": account}
	e.Expect(e.Source.Create(e.Ctx, mr)).To(Succeed())
}

func assign(account string) func(*resourcesv1alpha1.ManagedResource) {
	return func(mr *resourcesv1alpha1.ManagedResource) {
		metav1.SetMetaDataAnnotation(&mr.ObjectMeta, "espalier.dev/service-account", account)
	}
}

func deleteAccount(e *Env, name string) {
	e.T.Helper()
	e.Expect(e.Source.Delete(e.Ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name}})).To(Succeed())
}

func TestASetIsAppliedChangedRepairedAndDeletedAsItsServiceAccount(t *testing.T) {
	locked(t, func(e *Env) {
		setOf(e, "mr", "deployer", e.ConfigMap("a", "1"), e.ConfigMap("b", "1"))
		e.AwaitApplied("mr", "True/ApplySucceeded")
		e.Expect(e.LiveConfigMap("a").Data).To(HaveKeyWithValue("key", "1"))
		e.Edit("a", `{"data":{"key":"drift"}}`)
		e.AwaitData("a", "1")
		e.Secret("mr", e.ConfigMap("a", "2"))
		e.AwaitData("a", "2")
		e.AwaitData("b", "(absent)")
		e.AwaitApplied("mr", "True/ApplySucceeded")
		e.Expect(e.Source.Delete(e.Ctx, e.Get("mr"))).To(Succeed())
		e.AwaitGone("mr")
		e.AwaitData("a", "(absent)")
	})
}

// Only requests for ManagedResources, Events and leases are the controller's own, and lists and watches of Secrets in the source. A restart
// and a set at rest need no requests for objects.
func TestRequestsForASetHaveTheRightsOfItsServiceAccount(t *testing.T) {
	locked(t, func(e *Env) {
		own := make(chan string, 100)
		e.Requests.SetHook(func(request *http.Request) error {
			isObject := strings.Contains(request.URL.Path, "/configmaps") || strings.Contains(request.URL.Path, "/secrets/")
			user := request.Header.Get("Impersonate-User")
			if isObject && user != "system:serviceaccount:"+e.Namespace+":deployer" {
				own <- request.Method + " " + request.URL.Path
			}
			return nil
		})
		setOf(e, "mr", "deployer", e.ConfigMap("a", "1"), e.ConfigMap("b", "1"))
		e.AwaitApplied("mr", "True/ApplySucceeded")
		e.Secret("mr", e.ConfigMap("a", "2"))
		e.AwaitData("b", "(absent)")
		e.AwaitApplied("mr", "True/ApplySucceeded")
		e.AwaitRest()
		e.Stop()
		e.Start()
		e.Edit("a", `{"data":{"key":"drift"}}`)
		e.AwaitData("a", "2")
		e.AwaitRest()
		e.Expect(e.Source.Delete(e.Ctx, e.Get("mr"))).To(Succeed())
		e.AwaitGone("mr")
		e.Expect(own).To(BeEmpty())
	})
}

// A ServiceAccount that may not list objects needs no watch: its objects are read at the latest after SyncPeriod.
func TestDriftIsFoundWithoutTheRightToWatch(t *testing.T) {
	locked(t, func(e *Env) {
		e.Config.Controllers.ManagedResource.SyncPeriod = &metav1.Duration{Duration: 2 * time.Second}
		e.Stop()
		e.Start()
		e.BareAccount("reader")
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "test-without-watch"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "create", "update", "delete"}},
			{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}},
		}}
		for _, c := range []client.Client{e.Source, e.Target} {
			e.Expect(client.IgnoreAlreadyExists(c.Create(e.Ctx, role.DeepCopy()))).To(Succeed())
			e.GrantTo(c, "reader", role.Name, authorizationv1.ResourceAttributes{Resource: "configmaps", Verb: "delete"})
		}
		setOf(e, "mr", "reader", e.ConfigMap("a", "1"))
		e.AwaitApplied("mr", "True/ApplySucceeded")
		e.Edit("a", `{"data":{"key":"drift"}}`)
		e.AwaitData("a", "1")
	})
}

// A set sees only what watches with the rights of its present ServiceAccount show. Drift is found by these watches, because the sync period
// is long.
func TestWatchesFollowTheServiceAccountOfASet(t *testing.T) {
	locked(t, func(e *Env) {
		e.Config.Controllers.ManagedResource.SyncPeriod = &metav1.Duration{Duration: time.Hour}
		e.Stop()
		e.Start()
		e.Account("successor")
		drifts := func() {
			e.T.Helper()
			e.AwaitApplied("mr", "True/ApplySucceeded")
			e.AwaitRest()
			e.Edit("a", `{"data":{"key":"drift"}}`)
			e.AwaitData("a", "1")
		}
		setOf(e, "mr", "deployer", e.ConfigMap("a", "1"))
		drifts()
		e.Change("mr", assign("successor"))
		drifts()
		deleteAccount(e, "successor")
		e.AwaitApplied("mr", "False/ApplyFailed")
		e.Eventually(func() float64 { return e.Counter("espalier_managedresource_watches") }).WithTimeout(Patience).Should(BeZero())
		e.BareAccount("successor")
		drifts()
	})
}

// A set that is only planned is watched, too, while it is not refused.
func TestWatchesOfAPlannedSetFollowItsServiceAccount(t *testing.T) {
	locked(t, func(e *Env) {
		watches := func(want int) {
			e.T.Helper()
			e.Eventually(func() float64 { return e.Counter("espalier_managedresource_watches") }).WithTimeout(Patience).
				Should(BeNumerically("==", want))
		}
		setOf(e, "mr", "deployer", e.ConfigMap("a", "1"))
		e.AwaitApplied("mr", "True/ApplySucceeded")
		e.Change("mr", func(mr *resourcesv1alpha1.ManagedResource) { mr.Annotations["espalier.dev/plan"] = "true" })
		watches(1)
		deleteAccount(e, "deployer")
		watches(0)
		e.BareAccount("deployer")
		watches(1)
	})
}

// Before the condition tells of unhealthy objects, one list shows that the ServiceAccount may read all of them.
func TestOneRequestIsEnoughToTellOfManyObjects(t *testing.T) {
	t.Parallel()
	// No controller changes the status of one Deployment before the other ones.
	e := NewImpersonating(t, Options{TwoClusters: true, Configure: longSyncPeriod})
	e.Account("deployer")
	var single, lists atomic.Int32
	e.Requests.SetHook(func(request *http.Request) error {
		switch path := request.URL.Path; {
		case request.Method != http.MethodGet || !strings.Contains(path, "/deployments") || request.URL.Query().Has("watch"):
		case strings.HasSuffix(path, "/deployments"):
			lists.Add(1)
		default:
			single.Add(1)
		}
		return nil
	})
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "test-deployments"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"*"}},
	}}
	e.Expect(client.IgnoreAlreadyExists(e.Target.Create(e.Ctx, role))).To(Succeed())
	e.GrantTo(e.Target, "deployer", role.Name, authorizationv1.ResourceAttributes{Group: "apps", Resource: "deployments", Verb: "get"})
	var deployments []string
	for _, name := range []string{"a", "b", "c"} {
		deployments = append(deployments, deploymentCalled(e, name, "", "paused: true, ", ""))
	}
	setOf(e, "mr", "deployer", deployments...)
	e.AwaitApplied("mr", "True/ApplySucceeded")
	e.Eventually(func() string { return Message(e.Get("mr"), "ResourcesHealthy") }).WithTimeout(Patience).
		Should(ContainSubstring(`/c" is unhealthy`))
	e.Expect(single.Load()).To(BeZero())
	e.Expect(lists.Load()).To(BeNumerically(">", 0))
}

// Requests for sets, which depend on the speed of watches, are not compared.
func TestAServiceAccountCausesNoFurtherRequests(t *testing.T) {
	t.Parallel()
	e := New(t, Options{TwoClusters: true, Configure: func(cfg *config.ResourceManagerConfiguration) {
		longSyncPeriod(cfg)
		cfg.Espalier.ManagedResource.Accounts = &config.EspalierAccounts{}
	}})
	e.AllowOwnAccounts()
	e.Account("deployer")
	// life creates, changes and deletes a set, and returns the requests for its objects and Secrets.
	life := func(set, account string) []string {
		e.AwaitRest()
		e.Secret(set, e.ConfigMap(set+"-a", "1"), e.ConfigMap(set+"-b", "1"), e.ConfigMap(set+"-c", "1"))
		mr := e.ManagedResource(set, set)
		if account != "" {
			assign(account)(mr)
		}
		e.Expect(e.Source.Create(e.Ctx, mr)).To(Succeed())
		e.AwaitApplied(set, "True/ApplySucceeded")
		e.Secret(set, e.ConfigMap(set+"-a", "2"), e.ConfigMap(set+"-b", "1"))
		e.AwaitData(set+"-a", "2")
		e.AwaitData(set+"-c", "(absent)")
		e.AwaitApplied(set, "True/ApplySucceeded")
		e.Expect(e.Source.Delete(e.Ctx, e.Get(set))).To(Succeed())
		e.AwaitGone(set)
		var sent []string
		for _, each := range e.Requests.Seen() {
			if strings.Contains(each, "/configmaps") || strings.HasPrefix(each, "GET ") && strings.Contains(each, "/secrets") {
				sent = append(sent, strings.ReplaceAll(each, "/"+set, "/SET"))
			}
		}
		return sent
	}
	life("first", "") // the first set of a kind starts watches
	own := life("own", "")
	t.Logf("%d requests: %v", len(own), own)
	e.Expect(own).NotTo(BeEmpty())
	e.Expect(life("team", "deployer")).To(ConsistOf(own))
}

func TestLockdownRefusesASetWithoutServiceAccount(t *testing.T) {
	locked(t, func(e *Env) {
		e.Set("mr", e.ConfigMap("a", "1"))
		mr := e.AwaitApplied("mr", "False/ApplyFailed")
		e.Expect(Message(mr, "ResourcesApplied")).To(And(ContainSubstring("the set has no ServiceAccount"),
			ContainSubstring("espalier.dev/service-account")))
		e.Expect(e.LiveConfigMap("a")).To(BeNil())
		e.Change("mr", assign("deployer"))
		e.AwaitData("a", "1")
	})
}

func TestASetWhoseServiceAccountLosesARightKeepsItsObjects(t *testing.T) {
	locked(t, func(e *Env) {
		setOf(e, "mr", "deployer", e.ConfigMap("a", "1"), e.ConfigMap("b", "1"))
		e.AwaitApplied("mr", "True/ApplySucceeded")
		e.Revoke("deployer")
		e.Change("mr", func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.ForceOverwriteLabels = ptr.To(true) })
		if e.Source == e.Target { // its Secret cannot be read either
			e.AwaitCondition("mr", "ResourcesApplied", "False/CannotReadSecret")
		} else {
			e.AwaitCondition("mr", "ResourcesApplied", "False/ApplyFailed")
		}
		e.Expect(Message(e.Get("mr"), "ResourcesApplied")).To(MatchRegexp(`deployer" cannot get resource "(configmaps|secrets)"`))
		e.Expect(e.LiveConfigMap("a")).NotTo(BeNil())

		e.Expect(e.Source.Delete(e.Ctx, e.Get("mr"))).To(Succeed())
		e.Eventually(func() string { return Message(e.Get("mr"), "ResourcesApplied") }).WithTimeout(Patience).
			Should(ContainSubstring(`deployer" cannot delete resource "configmaps"`))
		// An administrator finishes the deletion with another ServiceAccount.
		e.Account("admin")
		e.Change("mr", assign("admin"))
		e.AwaitGone("mr")
		e.AwaitData("a", "(absent)")
		e.AwaitData("b", "(absent)")
	})
}

func TestASetWithoutItsServiceAccountWaitsAndCanBeDeletedWithoutItsObjects(t *testing.T) {
	locked(t, func(e *Env) {
		setOf(e, "mr", "deployer", e.ConfigMap("a", "1"))
		e.AwaitApplied("mr", "True/ApplySucceeded")
		deleteAccount(e, "deployer")
		mr := e.AwaitApplied("mr", "False/ApplyFailed")
		e.Expect(Message(mr, "ResourcesApplied")).To(ContainSubstring(`ServiceAccount "deployer" does not exist`))
		e.Secret("mr", e.ConfigMap("a", "2"))
		e.Expect(e.Source.Delete(e.Ctx, e.Get("mr"))).To(Succeed())
		e.Eventually(func() string { return Message(e.Get("mr"), "ResourcesApplied") }).WithTimeout(Patience).
			Should(ContainSubstring(`ServiceAccount "deployer" does not exist`))
		e.AwaitCondition("mr", "ResourcesApplied", "Progressing/DeletionPending")
		e.Change("mr", func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.KeepObjects = ptr.To(true) })
		e.AwaitGone("mr")
		e.Expect(e.LiveConfigMap("a").Data).To(HaveKeyWithValue("key", "1"))
	})
}

func TestAnotherServiceAccountPrunesTheObjectsOfTheFormer(t *testing.T) {
	locked(t, func(e *Env) {
		setOf(e, "mr", "deployer", e.ConfigMap("a", "1"), e.ConfigMap("b", "1"))
		e.AwaitApplied("mr", "True/ApplySucceeded")
		origin := e.LiveConfigMap("a").Annotations["resources.gardener.cloud/origin"]
		e.Account("second")
		e.Change("mr", assign("second"))
		deleteAccount(e, "deployer")
		e.Secret("mr", e.ConfigMap("a", "2"))
		e.AwaitData("b", "(absent)")
		e.Expect(e.AwaitData("a", "2").Annotations).To(HaveKeyWithValue("resources.gardener.cloud/origin", origin))
		e.AwaitApplied("mr", "True/ApplySucceeded")
	})
}

func TestAnotherServiceAccountWithoutRightsIsReportedWithoutAChange(t *testing.T) {
	locked(t, func(e *Env) {
		setOf(e, "mr", "deployer", e.ConfigMap("a", "1"))
		e.AwaitApplied("mr", "True/ApplySucceeded")
		e.BareAccount("powerless")
		e.Change("mr", assign("powerless"))
		e.AwaitCondition("mr", "ResourcesApplied", "False/CannotReadSecret")
		e.Expect(Message(e.Get("mr"), "ResourcesApplied")).To(ContainSubstring(`powerless" cannot get resource "secrets"`))
		reader := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "test-reader"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}},
		}}
		e.Expect(client.IgnoreAlreadyExists(e.Source.Create(e.Ctx, reader))).To(Succeed())
		e.GrantTo(e.Source, "powerless", reader.Name, authorizationv1.ResourceAttributes{Resource: "secrets", Verb: "get"})
		e.Reconciled("mr")
		e.AwaitCondition("mr", "ResourcesApplied", "False/ApplyFailed")
		e.Expect(Message(e.Get("mr"), "ResourcesApplied")).To(ContainSubstring(`powerless" cannot get resource "configmaps"`))
		e.Expect(e.LiveConfigMap("a")).NotTo(BeNil())
	})
}

func TestTheConfigurationNamesServiceAccounts(t *testing.T) {
	t.Parallel()
	e := NewImpersonating(t, Options{Stopped: true, Configure: longSyncPeriod})
	e.Config.Espalier.ManagedResource.Accounts.Default = "missing"
	e.Config.Espalier.ManagedResource.Accounts.ByNamespace = map[string]string{e.Namespace: "deployer"}
	e.Account("deployer")
	e.Start()
	e.Set("mr", e.ConfigMap("a", "1"))
	e.AwaitApplied("mr", "True/ApplySucceeded")
}

func TestASetWithAServiceAccountIsNotAppliedWithTheRightsOfTheController(t *testing.T) {
	t.Parallel()
	e := New(t, Options{Configure: longSyncPeriod})
	e.Account("deployer")
	setOf(e, "mr", "deployer", e.ConfigMap("a", "1"))
	mr := e.AwaitApplied("mr", "False/ApplyFailed")
	e.Expect(Message(mr, "ResourcesApplied")).To(ContainSubstring("espalier.managedResource.serviceAccounts"))
	e.Expect(e.LiveConfigMap("a")).To(BeNil())
	e.Change("mr", func(mr *resourcesv1alpha1.ManagedResource) { delete(mr.Annotations, "espalier.dev/service-account") })
	e.AwaitApplied("mr", "True/ApplySucceeded")
}
