package requestor

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/token/kubeconfig"
)

// newAccount returns the ServiceAccount to create if there is none.
func newAccount(wanted account) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{
		ObjectMeta:                   metav1.ObjectMeta{Namespace: wanted.Namespace, Name: wanted.Name, Labels: wanted.labels},
		AutomountServiceAccountToken: ptr.To(false),
	}
}

// desiredAccount returns the ServiceAccount as it must be, and whether it differs from the existing one.
func desiredAccount(have *corev1.ServiceAccount, wanted account) (desired *corev1.ServiceAccount, changed bool) {
	if have.AutomountServiceAccountToken != nil && !*have.AutomountServiceAccountToken && maps.Equal(have.Labels, wanted.labels) {
		return have, false
	}
	desired = have.DeepCopy()
	desired.AutomountServiceAccountToken = ptr.To(false)
	desired.Labels = wanted.labels
	return desired, true
}

// issued is a token that the API server has issued, and that may not be written yet.
type issued struct {
	token  string
	expiry time.Time
	// renewAt is the time at which to renew the token, in whole seconds.
	renewAt time.Time
	// at is the time at which the token was issued.
	at time.Time
	// ca is the certificate authority to write beside the token; nil if the Secret asks for none.
	ca []byte
}

// changes are the keys of a Secret's data to set, or to remove if the value is nil. Encoded as JSON, they are a merge patch of the data.
type changes map[string][]byte

// prepared decodes the kubeconfig in content, and sets its certificate authority if ca is not nil. It does not set the token. It returns
// nil if the Secret contains no kubeconfig (content is nil).
func prepared(content, ca []byte) (*kubeconfig.Config, error) {
	if content == nil {
		return nil, nil
	}
	config, err := kubeconfig.Decode(content)
	if err != nil {
		return nil, err
	}
	if ca == nil {
		return config, nil
	}
	err = config.SetCA(ca)
	return config, err
}

// changesFor returns the changes that write a token into a Secret. Config is the kubeconfig of the Secret; nil if it contains none.
func changesFor(config *kubeconfig.Config, i issued) (changes, error) {
	if config == nil {
		return changes{resourcesv1alpha1.DataKeyToken: []byte(i.token), resourcesv1alpha1.DataKeyCABundle: i.ca}, nil
	}
	config.SetToken(i.token)
	encoded, err := config.Encode()
	if err != nil {
		return nil, err
	}
	return changes{resourcesv1alpha1.DataKeyKubeconfig: encoded, resourcesv1alpha1.DataKeyCABundle: nil}, nil
}

// emptied returns the changes that remove the token, the kubeconfig and the certificate authority from a Secret whose token is written to
// a target Secret.
func emptied() changes {
	return changes{resourcesv1alpha1.DataKeyToken: nil, resourcesv1alpha1.DataKeyKubeconfig: nil, resourcesv1alpha1.DataKeyCABundle: nil}
}

// applyTo changes the data of a Secret.
func (c changes) applyTo(secret *corev1.Secret) {
	for key, value := range c {
		if value == nil {
			delete(secret.Data, key)
			continue
		}
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		secret.Data[key] = value
	}
}

// patchFor returns the merge patch for the Secret of the source. The patch writes the renewal time into the annotation of the requestor,
// and the changes c into the data. It also removes the annotation by which a user asks for a new token. The API server refuses the patch
// if the Secret has another version: another client may have changed the kubeconfig. The argument c must not be nil, because null in the
// patch would remove all data of the Secret.
func patchFor(version string, renewAt time.Time, c changes) ([]byte, error) {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{
			"resourceVersion": version,
			"annotations": map[string]any{
				resourcesv1alpha1.ServiceAccountTokenRenewTimestamp: renewAt.UTC().Format(time.RFC3339),
				resourcesv1alpha1.RenewToken:                        nil,
			},
		},
		"data": c,
	})
	if err != nil {
		return nil, fmt.Errorf("encode patch: %w", err)
	}
	return patch, nil
}
