package extension_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

func TestARefusalIsShownAfterItsStatusCouldNotBeWritten(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var failed atomic.Bool
	f.Requests.Disturb(func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
		if request.Method == http.MethodPatch && strings.HasSuffix(request.URL.Path, "/"+f.name+"/status") && isRefusal(request) &&
			!failed.Swap(true) {
			return nil, errors.New("the connection is lost")
		}
		return next.RoundTrip(request)
	})
	f.Expect(f.Garden.Create(f.Ctx, f.register(f.deployment(files{
		"a.yaml": `{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: garden}}`,
	}, "", false)))).To(Succeed())
	f.awaitCondition(valid, "False ChartPolicyViolated")
	f.Expect(failed.Load()).To(BeTrue())
}

// isRefusal reports whether a request writes the condition about a chart that the policy forbids.
func isRefusal(request *http.Request) bool {
	body, err := request.GetBody()
	if err != nil {
		return false
	}
	defer body.Close()
	content, err := io.ReadAll(body)
	return err == nil && bytes.Contains(content, []byte("ChartPolicyViolated"))
}

// The program does not watch ServiceAccounts in the garden.
func TestTheDeletionEndsAfterTheServiceAccountInTheGardenIsGone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ci := f.register(f.deployment(files{"web.yaml": workload}, "", true))
	f.Expect(f.Garden.Create(f.Ctx, ci)).To(Succeed())
	f.awaitCondition(installed, "True")
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: "seed-" + f.seed, Name: "extension-" + f.name, Finalizers: []string{"example.org/hold"},
	}}
	f.Expect(f.Garden.Create(f.Ctx, account)).To(Succeed())
	f.Expect(f.Garden.Delete(f.Ctx, ci)).To(Succeed())
	f.awaitCondition(installed, "False DeletionPending: deletion is pending: these objects still exist: ServiceAccount "+
		client.ObjectKeyFromObject(account).String()+" in the garden")
	f.awaitRest()
	f.Expect(f.Garden.Patch(f.Ctx, account, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))).
		To(Succeed())
	f.awaitGone()
}

// The ManagedResource of the last successful installation is applied and healthy.
func TestAFailedChangeIsShownUntilItSucceeds(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(f *fixture) { f.Settings.CareSyncPeriod = 100 * time.Millisecond })
	f.Expect(f.Garden.Create(f.Ctx, f.register(f.deployment(files{"a.yaml": configMap}, "", false)))).To(Succeed())
	f.awaitCondition(installed, "True")
	role := `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: taken-by-a-user}}`
	f.ensure(f.Seed, role)
	f.replace(f.deployment(files{"a.yaml": configMap, "role.yaml": role}, "", false))
	f.awaitCondition(installed, "False InstallationFailed: ")
	f.Consistently(f.condition(installed)).WithTimeout(time.Second).Should(HavePrefix("False InstallationFailed: "))
	f.Expect(f.condition(healthy)()).To(HavePrefix("True "))
	f.Expect(f.Seed.Delete(f.Ctx, f.object(role))).To(Succeed())
	f.replace(f.deployment(files{"a.yaml": configMap}, "", false)) // as before, so that the ManagedResource does not change
	f.awaitCondition(installed, "True InstallationSuccessful")
}

func TestAManagedResourceOfAnotherInstallationIsNotJudged(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Expect(f.Seed.Create(f.Ctx, &resourcesv1alpha1.ManagedResource{
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: f.name, Labels: map[string]string{"controllerinstallation-name": "other"}},
		Spec:       resourcesv1alpha1.ManagedResourceSpec{SecretRefs: []corev1.LocalObjectReference{{Name: "x"}}},
	})).To(Succeed())
	f.Expect(f.Garden.Create(f.Ctx, f.register(f.deployment(files{"a.yaml": configMap}, "", false)))).To(Succeed())
	f.awaitCondition(installed, "False InstallationFailed: ")
	f.awaitRest()
	f.Expect(f.condition(healthy)()).To(BeEmpty())
}

func TestAGardenWithoutIdentityIsNamed(t *testing.T) {
	f := newFixture(t)
	identity := get(f, f.Garden, "kube-system", "cluster-identity", &corev1.ConfigMap{})
	f.Expect(f.Garden.Delete(f.Ctx, identity)).To(Succeed())
	f.Expect(f.Garden.Create(f.Ctx, f.register(f.deployment(files{"a.yaml": configMap}, "", false)))).To(Succeed())
	f.awaitCondition(installed, "False InstallationFailed: ConfigMap kube-system/cluster-identity of the garden does not exist")
	identity.ResourceVersion, identity.UID = "", ""
	f.Expect(f.Garden.Create(f.Ctx, identity)).To(Succeed())
	f.touch()
	f.awaitCondition(installed, "True")
}
