package webhook_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/project/projecttest"
	"github.com/espalier-dev/espalier/test/binary"
)

// expectGone waits until an object is no longer there.
func expectGone(e *projecttest.Env, object client.Object) {
	e.T.Helper()
	e.Eventually(func() bool {
		return apierrors.IsNotFound(e.Admin.Get(e.Ctx, client.ObjectKeyFromObject(object), object))
	}, binary.Patience).Should(BeTrue())
}

// sees reports whether a user may read a Project.
func sees(e *projecttest.Env, user string, p *corev1beta1.Project) func() bool {
	return func() bool {
		return e.As(user).Get(e.Ctx, client.ObjectKeyFromObject(p), &corev1beta1.Project{}) == nil
	}
}

// TestLifeCycleOfAProjectWithWebhooks requires that the webhooks accept everything that the controller writes.
func TestLifeCycleOfAProjectWithWebhooks(t *testing.T) {
	e := start(t, projecttest.Options{})
	p := created(e, "alice", "life", `{}`)
	own := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ready(e, p)}}
	alice := e.As("alice") // with the rights that the controller has given her
	const aliceOwns = `{kind: User, name: alice, role: admin, roles: [owner]}`
	e.Eventually(func() error {
		return change(e, alice, p, `{spec: {members: [`+aliceOwns+`, {kind: User, name: bob, role: viewer}]}}`)
	}, binary.Patience).Should(Succeed())
	e.Eventually(sees(e, "bob", p), binary.Patience).Should(BeTrue())
	e.Expect(change(e, alice, p, `{spec: {members: [`+aliceOwns+`]}}`)).To(Succeed())
	e.Eventually(sees(e, "bob", p), binary.Patience).Should(BeFalse())
	confirm(e, alice, p, "true")
	e.Expect(alice.Delete(e.Ctx, e.Project("life"))).To(Succeed())
	expectGone(e, p)
	expectGone(e, own)
}

func TestKeptNamespaceOutlivesItsProjectWithWebhooks(t *testing.T) {
	e := start(t, projecttest.Options{})
	kept := namespace(e, "garden-kept", map[string]string{"gardener.cloud/role": "project", "project.gardener.cloud/name": "kept"})
	p := created(e, "alice", "kept", `{namespace: garden-kept}`)
	ready(e, p)
	alice := e.As("alice")
	e.Eventually(func() error {
		return change(e, alice, p, `{metadata: {annotations: {confirmation.gardener.cloud/deletion: "true"}}}`)
	}, binary.Patience).Should(Succeed())
	e.Expect(alice.Delete(e.Ctx, e.Project("kept"))).To(Succeed())
	expectGone(e, p)
	e.Expect(e.Admin.Get(e.Ctx, client.ObjectKeyFromObject(kept), kept)).To(Succeed())
	e.Expect(kept.DeletionTimestamp).To(BeNil())
	e.Expect(kept.OwnerReferences).To(BeEmpty())
	e.Expect(kept.Labels).To(Equal(map[string]string{"kubernetes.io/metadata.name": "garden-kept"}))
}

// TestProjectStoredWithoutWebhooksBecomesStaleAndIsDeleted uses a Project that every webhook would refuse.
func TestProjectStoredWithoutWebhooksBecomesStaleAndIsDeleted(t *testing.T) {
	e := start(t, projecttest.Options{Stopped: true, Configure: func(c *config.ControllerManagerConfiguration) {
		loop := &c.Controllers.Project
		loop.MinimumLifetimeDays, loop.StaleGracePeriodDays, loop.StaleExpirationTimeDays = ptr.To(0), ptr.To(0), ptr.To(0)
		loop.StaleSyncPeriod = &metav1.Duration{Duration: 10 * time.Second} // it bounds each look too
	}})
	p := project(e, "stored", `{owner: {kind: User, name: carol}, members: [
		{kind: User, name: "system:serviceaccount:foo:bar", role: viewer}, {kind: ServiceAccount, namespace: foo, name: bar, role: viewer}]}`)
	e.Expect(e.Admin.Create(e.Ctx, p)).To(Succeed())
	e.Start()
	expectGone(e, p)
}

func TestProjectStoredWithoutWebhooksCanBeChanged(t *testing.T) {
	e := start(t, projecttest.Options{Stopped: true})
	p := project(e, "stored", `{owner: {kind: User, name: "system:serviceaccount:foo:bar"}, members: [
		{kind: ServiceAccount, namespace: foo, name: bar, role: viewer}, {kind: User, name: "system:serviceaccount:abcd", role: viewer}]}`)
	e.Expect(e.Admin.Create(e.Ctx, p)).To(Succeed())
	e.Start()
	ready(e, p)
	e.Expect(change(e, e.As("eve", "editors"), p, `{spec: {description: changed}}`)).To(Succeed())
	e.Expect(e.Get(p).Spec.Description).To(Equal(ptr.To("changed")))
}
