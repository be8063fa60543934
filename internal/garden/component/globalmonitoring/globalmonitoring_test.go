package globalmonitoring_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/garden/component/globalmonitoring"
)

func generated(rotated string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "global-observability-ingress-d701e4a9", Labels: map[string]string{
			"managed-by": "secrets-manager", "last-rotation-initiation-time": rotated,
		}},
		Data: map[string][]byte{"username": []byte("admin"), "password": []byte("p"), "auth": []byte("admin:hash")},
	}
}

func TestReplica(t *testing.T) {
	g := NewWithT(t)
	replica := globalmonitoring.Replica(generated(""))
	g.Expect(replica.ObjectMeta).To(Equal(metav1.ObjectMeta{
		Namespace: "garden", Name: "observability-ingress-d701e4a9", Labels: map[string]string{
			"gardener.cloud/role": "global-monitoring", "gardener.cloud/purpose": "global-monitoring-secret-replica",
		},
	}))
	g.Expect(replica.Data).To(Equal(generated("").Data))
	// Clients accept a missing time, and refuse an empty one.
	g.Expect(globalmonitoring.Replica(generated("1700000000")).Labels).To(HaveKeyWithValue("last-rotation-initiation-time", "1700000000"))
}

func TestSecretOfAUserTakesThePlaceOfTheReplica(t *testing.T) {
	replica := *globalmonitoring.Replica(generated(""))
	user := func(name string) corev1.Secret {
		return corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: globalmonitoring.Labels()}}
	}
	for sentence, tc := range map[string]struct {
		all  []corev1.Secret
		want string
		err  string
	}{
		"none":                 {},
		"only the replica":     {all: []corev1.Secret{replica}},
		"beside the replica":   {all: []corev1.Secret{replica, user("a")}, want: "a"},
		"before there is any":  {all: []corev1.Secret{user("a")}, want: "a"},
		"several of its users": {all: []corev1.Secret{user("a"), replica, user("b")}, err: "but there are a and b"},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			found, err := globalmonitoring.OfUser(tc.all)
			switch {
			case tc.err != "":
				g.Expect(err).To(MatchError(ContainSubstring(tc.err)))
			case tc.want == "":
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(found).To(BeNil())
			default:
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(found.Name).To(Equal(tc.want))
			}
		})
	}
}

func TestOutdated(t *testing.T) {
	secret := func(namespace, password string, labels map[string]string) corev1.Secret {
		return corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: password, Labels: labels},
			Data:       map[string][]byte{"password": []byte(password)},
		}
	}
	replica := map[string]string{"gardener.cloud/purpose": "global-monitoring-secret-replica"}
	generated, deleted := secret("garden", "new", nil), secret("seed-d", "new", nil)
	deleted.DeletionTimestamp = &metav1.Time{}
	all := []corev1.Secret{
		secret("seed-a", "new", nil), secret("seed-b", "old", nil), secret("seed-e", "old", nil), secret("seed-e", "new", nil),
		secret("seed-f", "user", nil), deleted, secret("garden", "old", replica),
	}
	g := NewWithT(t)
	seeds := []string{"f", "e", "d", "c", "b", "a"}
	g.Expect(globalmonitoring.Outdated(all, &generated, seeds)).To(Equal([]string{"b", "c", "d", "f"}))
	g.Expect(globalmonitoring.Outdated(append(all, secret("garden", "user", nil)), &generated, seeds)).
		To(Equal([]string{"a", "b", "c", "d", "e"}))
}
