package plutono_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/plutono"
	"github.com/espalier-dev/espalier/internal/garden/goldentest"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

func objects(t *testing.T, password string, changes ...func(*values.Values)) []client.Object {
	t.Helper()
	v := goldentest.Values(t, func(*values.Values) any { return &struct{}{} }, "{}", changes...)
	admin := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "plutono-admin-1"}, Data: map[string][]byte{
		"username": []byte("admin"), "password": []byte(password),
	}}
	all, err := plutono.Objects(v, admin)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return all
}

func TestObjectsAreAsInTheGoldenFiles(t *testing.T) {
	skip := func(names ...string) func(*values.Values) {
		return func(v *values.Values) { v.SkipComponents = names }
	}
	goldentest.Compare(t, "plain", map[string][]client.Object{
		"plain":              objects(t, "secret"),
		"without-longterm":   objects(t, "secret", skip("prometheus-longterm")),
		"without-prometheus": objects(t, "secret", skip("prometheus-garden")),
		"without-vali":       objects(t, "secret", skip("vali")),
		"not-exposed":        objects(t, "secret", skip("virtual-garden-istio-basic-auth-server")),
		"victoria-logs-only": objects(t, "secret", func(v *values.Values) {
			v.OpenTelemetryCollector, v.VictoriaLogs, v.RemoveVali = true, true, true
		}),
	})
}

// The program reads the configuration only when it starts.
func TestNewPasswordsReplaceThePods(t *testing.T) {
	names := map[string]bool{}
	for _, password := range []string{"first", "second"} {
		for _, each := range objects(t, password) {
			if _, isSecret := each.(*corev1.Secret); isSecret {
				names[each.GetName()] = true
			}
		}
	}
	NewWithT(t).Expect(names).To(HaveLen(2))
}
