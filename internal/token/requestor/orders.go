package requestor

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/excerpt"
)

// defaultLifetime is the requested lifetime if a Secret asks for none.
const defaultLifetime = 12 * time.Hour

// instance contains the configuration of this process, which applies to all Secrets.
type instance struct {
	Limits
	own config.EspalierToken
	// same is true if source and target are one cluster. If this is not known, unknown is the reason.
	same    bool
	unknown error
}

func (i instance) areTwoClusters() bool { return !i.same && i.unknown == nil }

// Kinds of objects in the target, for messages.
const (
	kindAccount      = "ServiceAccount"
	kindTargetSecret = "target Secret"
)

// account is the ServiceAccount that a Secret asks for.
type account struct {
	types.NamespacedName
	labels map[string]string // nil: none
}

// accountOf reads the annotations about the ServiceAccount from a Secret of the namespace from.
func (i instance) accountOf(annotations map[string]string, from string) (account, error) {
	wanted := account{
		NamespacedName: types.NamespacedName{Namespace: i.TargetNamespace, Name: annotations[resourcesv1alpha1.ServiceAccountName]},
	}
	if wanted.Name == "" {
		return account{}, missing(resourcesv1alpha1.ServiceAccountName, "the name of a ServiceAccount")
	}
	if wanted.Namespace == "" {
		wanted.Namespace = annotations[resourcesv1alpha1.ServiceAccountNamespace]
	}
	if wanted.Namespace == "" {
		return account{}, missing(resourcesv1alpha1.ServiceAccountNamespace, "the namespace of the ServiceAccount in the target cluster")
	}
	if err := i.allowed(kindAccount, wanted.NamespacedName); err != nil {
		return account{}, err
	}
	if err := i.allowsAccount(wanted.NamespacedName, from); err != nil {
		return account{}, err
	}
	text := annotations[resourcesv1alpha1.ServiceAccountLabels]
	if text == "" {
		return wanted, nil
	}
	if err := json.Unmarshal([]byte(text), &wanted.labels); err != nil {
		return account{}, &mistake{fmt.Errorf("failed unmarshaling service account labels from secret annotation %q (%s): %w; it must be a "+
			"JSON object of strings, such as {\"app\":\"x\"}",
			resourcesv1alpha1.ServiceAccountLabels, shortened(text), err)}
	}
	return wanted, nil
}

// allowed returns an error for an object outside of the namespaces to which the connection to the target is restricted.
func (i instance) allowed(kind string, object types.NamespacedName) error {
	if len(i.TargetNamespaces) == 0 || slices.Contains(i.TargetNamespaces, object.Namespace) {
		return nil
	}
	return &mistake{fmt.Errorf("%s %s is not in a namespace that this process works in (%s): choose one of these, or add it to "+
		"targetClientConnection.namespaces",
		kind, object, strings.Join(i.TargetNamespaces, ", "))}
}

// lifetimeOf reads the annotation about the lifetime. The API server validates the value.
func lifetimeOf(annotations map[string]string) (time.Duration, error) {
	text := annotations[resourcesv1alpha1.ServiceAccountTokenExpirationDuration]
	if text == "" {
		return defaultLifetime, nil
	}
	lifetime, err := time.ParseDuration(text)
	if err != nil {
		return 0, &mistake{
			fmt.Errorf("annotation %q: %s; write a duration such as 12h", resourcesv1alpha1.ServiceAccountTokenExpirationDuration,
				shortened(err.Error())),
		}
	}
	return lifetime, nil
}

// audiencesOf reads the annotation about the audiences.
func (i instance) audiencesOf(annotations map[string]string) ([]string, error) {
	text, found := annotations[resourcesv1alpha1.TokenAudiences]
	if !found {
		return ptr.Deref(i.own.Audiences, nil), nil
	}
	audiences := strings.Split(text, ",")
	for n := range audiences {
		if audiences[n] = strings.TrimSpace(audiences[n]); audiences[n] == "" {
			return nil, &mistake{
				fmt.Errorf("annotation %q has an empty audience: write audiences separated by commas, or remove it", resourcesv1alpha1.TokenAudiences),
			}
		}
	}
	return audiences, nil
}

// injectsCA reads the annotation about the certificate authority.
func injectsCA(annotations map[string]string) (bool, error) {
	text, found := annotations[resourcesv1alpha1.ServiceAccountInjectCABundle]
	if !found {
		return false, nil
	}
	inject, err := strconv.ParseBool(text)
	if err != nil {
		return false, &mistake{
			fmt.Errorf("annotation %q is %q: write true or false", resourcesv1alpha1.ServiceAccountInjectCABundle, shortened(text)),
		}
	}
	return inject, nil
}

// targetOf returns the Secret of the target that receives the token; nil if the token is written into the given Secret.
func (i instance) targetOf(secret *corev1.Secret) (*types.NamespacedName, error) {
	target := types.NamespacedName{
		Namespace: secret.Annotations[resourcesv1alpha1.TokenRequestorTargetSecretNamespace],
		Name:      secret.Annotations[resourcesv1alpha1.TokenRequestorTargetSecretName],
	}
	if target.Namespace == "" || target.Name == "" {
		return nil, nil
	}
	if i.same && i.unknown == nil && target.Namespace == secret.Namespace && target.Name == secret.Name {
		return nil, ownTarget()
	}
	if err := i.allowed(kindTargetSecret, target); err != nil {
		return nil, err
	}
	return &target, i.allowsTarget(target, secret.Namespace)
}

// ownTarget returns the error for a Secret that names itself as its target.
func ownTarget() error {
	return &mistake{fmt.Errorf("annotations %q and %q name this very Secret, from which the token would be removed again: name another "+
		"one, or remove them",
		resourcesv1alpha1.TokenRequestorTargetSecretNamespace, resourcesv1alpha1.TokenRequestorTargetSecretName)}
}

// forced reports whether the user asks for a new token now. A value of the annotation that cannot be parsed counts as true, because an
// additional token does no harm.
func forced(annotations map[string]string) bool {
	text, found := annotations[resourcesv1alpha1.RenewToken]
	if !found {
		return false
	}
	wanted, err := strconv.ParseBool(text)
	return wanted || err != nil
}

// mistake is an error that only an edit of the Secret of the source or of the configuration can fix.
type mistake struct{ error }

// Unwrap returns the error.
func (m *mistake) Unwrap() error { return m.error }

func isMistake(err error) bool {
	_, is := errors.AsType[*mistake](err)
	return is
}

func missing(annotation, meaning string) error {
	return &mistake{fmt.Errorf("annotation %q is missing: set it to %s", annotation, meaning)}
}

// shortened limits the length of text that other clients write, for messages.
func shortened(text string) string { return excerpt.Of(text, 128) }
