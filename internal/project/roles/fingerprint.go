package roles

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A fingerprint consists of a hash of the grants and a hash of the labels. These are their lengths in bytes. An attacker may choose the
// grants of an object, so the hash of the grants must be long enough to prevent collisions.
const (
	contentBytes = 16
	labelBytes   = 8
)

// Owner returns the name of the Project that controls an object from a trimmed cache, or "".
func Owner(cached client.Object) string {
	_, owner := split(cached)
	return owner
}

// split returns fingerprint and owner of an object from a trimmed cache. Both are empty if no Project controls it.
func split(cached client.Object) (mark, owner string) {
	kept := cached.GetGenerateName()
	end := min(len(kept), contentBytes+labelBytes)
	return kept[:end], kept[end:]
}

// Same reports whether an object from a trimmed cache is as desired.
func Same(cached, desired client.Object) (bool, error) {
	want, err := fingerprint(desired)
	have, _ := split(cached)
	return err == nil && have == want, err
}

// GrantsSame reports whether two versions of an object, both from a trimmed cache, have the same owner and grant the same rights. Their
// labels are ignored.
func GrantsSame(before, after client.Object) bool {
	return granted(before) == granted(after)
}

func granted(cached client.Object) string {
	mark, _ := split(cached)
	return mark[:min(len(mark), contentBytes)]
}

// content has the fields that a fingerprint covers, except for labels. Rules that are aggregated from other roles are not included.
type content struct {
	Owners      []metav1.OwnerReference `json:"owners,omitempty"`
	Rules       []rbacv1.PolicyRule     `json:"rules,omitempty"`
	Aggregation *rbacv1.AggregationRule `json:"aggregation,omitempty"`
	Role        *rbacv1.RoleRef         `json:"role,omitempty"`
	Subjects    []rbacv1.Subject        `json:"subjects,omitempty"`
}

func fingerprint(object client.Object) (string, error) {
	c := content{Owners: object.GetOwnerReferences()}
	role, isRole := object.(*rbacv1.ClusterRole)
	switch {
	case !isRole:
		reference, subjects := bindingOf(object)
		c.Role, c.Subjects = reference, *subjects
	case role.AggregationRule != nil:
		c.Aggregation = role.AggregationRule
	default:
		c.Rules = role.Rules
	}
	grants, err := hash(c)
	if err != nil {
		return "", err
	}
	labels, err := hash(object.GetLabels())
	if err != nil {
		return "", err
	}
	return string(grants[:contentBytes]) + string(labels[:labelBytes]), nil
}

func hash(value any) ([sha256.Size]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("hash: %w", err)
	}
	return sha256.Sum256(text), nil
}
