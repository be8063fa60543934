package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

const (
	// maxName and maxLabel are the longest name and label value that API servers accept.
	maxName  = 253
	maxLabel = 63
	// These limits keep the published plan below 512 KiB. A ConfigMap may be twice as large.
	maxText = 192 << 10
	maxJSON = 288 << 10
)

// The keys of the ConfigMap.
const (
	keySummary = "summary"
	keyText    = "plan.txt"
	keyJSON    = "plan.json"
)

// ConfigMapName returns the name of the ConfigMap with the plan of a set: the set's name, followed by "-plan", shortened if it is too long.
func ConfigMapName(set string) string { return shorten(set, maxName-len("-plan")) + "-plan" }

// label returns the value of the label of the ConfigMap that names the set.
func label(set string) string { return shorten(set, maxLabel) }

// shorten cuts a name and appends a digest of the whole name.
func shorten(name string, limit int) string {
	if len(name) <= limit {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	digest := hex.EncodeToString(sum[:4])
	return strings.TrimRight(name[:limit-len(digest)-1], "-.") + "-" + digest
}

// ConfigMap returns the plan as it is published. The set is its owner, so that it is deleted with the set.
func (p *Plan) ConfigMap(mr *resourcesv1alpha1.ManagedResource) (*corev1.ConfigMap, error) {
	machine, err := p.JSON(maxJSON)
	if err != nil {
		return nil, err
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: mr.Namespace, Name: ConfigMapName(mr.Name),
			Labels: map[string]string{resourcesv1alpha1.PlanOf: label(mr.Name)},
			// No blockOwnerDeletion: setting it may require additional permissions.
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: resourcesv1alpha1.SchemeGroupVersion.String(), Kind: "ManagedResource", Name: mr.Name, UID: mr.UID, Controller: new(true),
			}},
		},
		Data: map[string]string{keySummary: p.Summary(), keyText: p.Text(maxText), keyJSON: machine},
	}, nil
}

// Ours reports whether a ConfigMap is the published plan of a set, or of an earlier set of the same name.
func Ours(found *corev1.ConfigMap, mr *resourcesv1alpha1.ManagedResource) bool {
	if found.Labels[resourcesv1alpha1.PlanOf] != label(mr.Name) {
		return false
	}
	return slices.ContainsFunc(found.OwnerReferences, func(owner metav1.OwnerReference) bool {
		version, err := schema.ParseGroupVersion(owner.APIVersion)
		return err == nil && version.Group == resourcesv1alpha1.GroupName && owner.Kind == "ManagedResource" && owner.Name == mr.Name
	})
}

// Published reports whether the ConfigMap found already has the content and the owner of want.
func Published(found, want *corev1.ConfigMap) bool {
	return maps.Equal(found.Data, want.Data) && len(found.BinaryData) == 0 &&
		slices.ContainsFunc(found.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID == want.OwnerReferences[0].UID })
}

// Generation returns the generation of the set that a published plan is for, 0 if it is unknown.
func Generation(found *corev1.ConfigMap) int64 {
	var content struct {
		ManagedResource set `json:"managedResource"`
	}
	if json.Unmarshal([]byte(found.Data[keyJSON]), &content) != nil {
		return 0
	}
	return content.ManagedResource.Generation
}

// ValuesAsked reports whether the published plan of a set shows values of objects other than Secrets. An invalid value does not request
// them.
func ValuesAsked(mr *resourcesv1alpha1.ManagedResource) bool {
	asked, err := strconv.ParseBool(mr.Annotations[resourcesv1alpha1.PlanValues])
	return asked && err == nil
}

// Announcement returns the text that says where to read the plan.
func Announcement(p *Plan, configMap string) string {
	return fmt.Sprintf("%s (see plan.txt in ConfigMap %q)", p.Summary(), configMap)
}
