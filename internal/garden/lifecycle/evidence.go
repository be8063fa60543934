package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/manifest"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/takeover"
	"github.com/espalier-dev/espalier/internal/garden/validation"
	"github.com/espalier-dev/espalier/internal/rollout"
	"github.com/espalier-dev/espalier/internal/secrets"
	"github.com/espalier-dev/espalier/internal/secrets/manager"
)

// Volumes of etcds are looked for before a key is generated.
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=list,namespace=garden,roleName=espalier-garden-operator-garden

// users are the objects of a namespace that may need keys, as they were before a reconciliation generated any.
type users struct {
	secrets []metav1.ObjectMeta
	objects []user
	// volumes are claims of etcds that are older than the Garden.
	volumes []string
}

// user is an object that may need keys.
type user struct {
	// name is its kind, namespace and name, for messages.
	name string
	// secrets are the names in the manifest of the object that may be names of Secrets of the secrets manager. For a ManagedResource, secrets
	// also include the names in the manifests of the objects that the ManagedResource deploys.
	secrets []string
	// isOwn is true if a reconciliation deploys the object, with names of current keys.
	isOwn bool
}

// guard restricts the manager of secrets for keys and authorities that only a rotation replaces. The manager generates such a Secret only
// if no object shows that an older Secret existed. It uses an existing Secret only if no object uses an older Secret that is lost. The
// user can confirm a loss. The users of keys and the names of the Secrets in the namespace are read once, before the first key is
// generated. All objects are read only if a key is missing, and also once, because the namespace may contain many Secrets of other
// programs.
func (r *Reconciler) guard(m *manager.Manager, garden *operatorv1alpha1.Garden) {
	known := components.RotatedSecrets().Irreplaceable(rotationOf(garden))
	observe := func(read func(context.Context) (*users, error)) manager.Observe {
		var found *users
		return func(ctx context.Context, logicalName, current string) (secrets.Evidence, error) {
			if found == nil {
				observed, err := read(ctx)
				if err != nil {
					return secrets.Evidence{}, err
				}
				found = observed
			}
			return found.evidence(known[logicalName], logicalName, current, confirmedLostKeys(garden)), nil
		}
	}
	all := func(ctx context.Context) (*users, error) { return r.users(ctx, garden) }
	m.Guard(slices.Collect(maps.Keys(known)), observe(all), observe(r.ownUsers))
}

// confirmedLostKeys returns the names of the Secrets that the user has confirmed to be lost.
func confirmedLostKeys(garden *operatorv1alpha1.Garden) []string {
	return validation.ListOf(garden, operatorv1alpha1.AnnotationConfirmLostKeys)
}

// forgetConfirmations removes the annotations with which the user has confirmed losses and leftovers, because the Secrets exist now, and
// the leftovers do not. A later loss stops a reconciliation again. forgetConfirmations reads the Garden again, because tasks annotate the
// Garden too. If the user has changed the Garden since the start, the next reconciliation removes the annotations.
func (r *Reconciler) forgetConfirmations(ctx context.Context, s *status) error {
	confirmations := []string{operatorv1alpha1.AnnotationConfirmLostKeys, operatorv1alpha1.AnnotationConfirmLeftovers}
	if !slices.ContainsFunc(confirmations, func(each string) bool { return metav1.HasAnnotation(s.garden.ObjectMeta, each) }) {
		return nil
	}
	live := &operatorv1alpha1.Garden{}
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(s.garden), live); err != nil {
		return fmt.Errorf("read Garden again: %w", err)
	}
	if live.UID != s.garden.UID || live.Generation != s.garden.Generation {
		return nil
	}
	changed := live.DeepCopy()
	maps.DeleteFunc(changed.Annotations, func(key, value string) bool {
		return slices.Contains(confirmations, key) && value == s.garden.Annotations[key]
	})
	if len(changed.Annotations) == len(live.Annotations) {
		return nil
	}
	// A patch that removes the last annotation removes all annotations, also one that a user adds at the same time.
	if err := r.Client.Patch(ctx, changed, conflict.MergeFrom(live)); err != nil {
		return fmt.Errorf("remove annotations of confirmations: %w", err)
	}
	s.garden = changed
	return nil
}

func (r *Reconciler) users(ctx context.Context, garden *operatorv1alpha1.Garden) (*users, error) {
	in := client.InNamespace(r.Operator.Namespace)
	all, claims := &corev1.SecretList{}, &corev1.PersistentVolumeClaimList{}
	deployments, etcds, sets := &appsv1.DeploymentList{}, &druidcorev1alpha1.EtcdList{}, &resourcesv1alpha1.ManagedResourceList{}
	for _, each := range []client.ObjectList{all, claims, deployments, etcds, sets} {
		if err := r.Client.List(ctx, each, in); err != nil && !rollout.IsGone(err) { // a definition may be missing
			return nil, fmt.Errorf("list objects that may need a key: %w", err)
		}
	}
	found := &users{}
	content := map[string]map[string][]byte{}
	for i := range all.Items {
		secret := &all.Items[i]
		found.secrets = append(found.secrets, secret.ObjectMeta)
		content[secret.Name] = secret.Data
	}
	for kind, list := range map[string]client.ObjectList{"Deployment": deployments, "Etcd": etcds, "ManagedResource": sets} {
		err := meta.EachListItem(list, func(o runtime.Object) error {
			each, err := userOf(kind, o, content)
			found.objects = append(found.objects, each)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(found.objects, func(a, b user) int { return strings.Compare(a.name, b.name) })
	for i := range claims.Items {
		claim := &claims.Items[i]
		if etcd.HasVolume(claim.Name) && claim.CreationTimestamp.Before(&garden.CreationTimestamp) {
			found.volumes = append(found.volumes, "PersistentVolumeClaim "+claim.Namespace+"/"+claim.Name)
		}
	}
	return found, nil
}

// ownUsers returns the objects of the Garden that use keys, and the names of all Secrets.
func (r *Reconciler) ownUsers(ctx context.Context) (*users, error) {
	all := &metav1.PartialObjectMetadataList{}
	all.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := r.Client.List(ctx, all, client.InNamespace(r.Operator.Namespace)); err != nil {
		return nil, fmt.Errorf("list secrets: %w", err)
	}
	found := &users{}
	for i := range all.Items {
		found.secrets = append(found.secrets, all.Items[i].ObjectMeta)
	}
	for _, known := range components.KeyUsers() {
		each, err := r.ownUser(ctx, known)
		if rollout.IsGone(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read object that may need a key: %w", err)
		}
		found.objects = append(found.objects, each)
	}
	slices.SortFunc(found.objects, func(a, b user) int { return strings.Compare(a.name, b.name) })
	return found, nil
}

// ownUser reads an object of the Garden.
func (r *Reconciler) ownUser(ctx context.Context, known component.Object) (user, error) {
	var o client.Object = &appsv1.Deployment{}
	if known.GroupVersionKind == rollout.ManagedResource {
		o = &resourcesv1alpha1.ManagedResource{}
	}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: r.Operator.Namespace, Name: known.Name}, o); err != nil {
		return user{}, err
	}
	content := map[string]map[string][]byte{}
	if set, isSet := o.(*resourcesv1alpha1.ManagedResource); isSet {
		for _, each := range set.Spec.SecretRefs {
			secret := &corev1.Secret{}
			err := r.Client.Get(ctx, client.ObjectKey{Namespace: r.Operator.Namespace, Name: each.Name}, secret)
			if client.IgnoreNotFound(err) != nil {
				return user{}, err
			}
			content[each.Name] = secret.Data
		}
	}
	return userOf(known.Kind, o, content)
}

// userOf returns an object of a kind as a user of keys. Content has the data of Secrets by name.
func userOf(kind string, o runtime.Object, content map[string]map[string][]byte) (user, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return user{}, fmt.Errorf("encode %s: %w", kind, err)
	}
	if set, isSet := o.(*resourcesv1alpha1.ManagedResource); isSet {
		for _, each := range set.Spec.SecretRefs {
			text = appendManifests(text, content[each.Name])
		}
	}
	named, err := meta.Accessor(o)
	if err != nil {
		return user{}, fmt.Errorf("read name of %s: %w", kind, err)
	}
	return user{
		name: kind + " " + named.GetNamespace() + "/" + named.GetName(), secrets: secrets.NamesIn(text),
		isOwn: slices.ContainsFunc(components.KeyUsers(), func(known component.Object) bool {
			return known.Kind == kind && known.Name == named.GetName()
		}),
	}, nil
}

// volumesThatNeed returns the volumes whose data may need a credential. If a user gives the encryption key of a former garden, the result
// is empty for every credential that not all former gardens had: the data of the former garden cannot need it.
func (u *users) volumesThatNeed(logicalName string) []string {
	isTakenOver := slices.ContainsFunc(u.secrets, func(secret metav1.ObjectMeta) bool {
		return secret.Labels[secrets.LabelUseDataFor] == kubeapiserver.EncryptionKeyName
	})
	if isTakenOver && !slices.Contains(takeover.Credentials(), logicalName) {
		return nil
	}
	return u.volumes
}

// appendManifests appends the data of the Secret of a ManagedResource, and also the manifests in this data, because the manifests of
// Gardener's operator are compressed. If manifests cannot be read, only the data itself is appended.
func appendManifests(text []byte, data map[string][]byte) []byte {
	for key, value := range data {
		text = append(append(text, '\n'), value...)
		documents, _ := manifest.Split(key, value, 0)
		for i := range documents {
			text = append(append(text, '\n'), documents[i].Raw...)
		}
	}
	return text
}

// evidence returns the evidence that there are or were keys of a logical name besides the one in the Secret with the name current.
func (u *users) evidence(known rotation.KeyStatus, logicalName, current string, confirmed []string) secrets.Evidence {
	e := secrets.Evidence{
		Preparing: known.Preparing, Generation: known.Generation,
		Volumes: u.volumesThatNeed(logicalName), Confirmed: slices.Contains(confirmed, current),
	}
	role := apiserver.ConfigurationRole(logicalName)
	exist := []string{current}
	for i := range u.secrets {
		secret := &u.secrets[i]
		owner, managed := secret.Labels[secrets.LabelManagerIdentity]
		is, isBundle := secrets.IsNameOf(logicalName, secret.Name)
		is = is && (!managed || owner == SecretsIdentity)
		switch {
		case is && !isBundle:
			e.Secrets, exist = append(e.Secrets, *secret), append(exist, secret.Name)
		case is, role != "" && secret.Labels[apiserver.RoleLabel] == role:
			e.Uses = append(e.Uses, "Secret "+secret.Namespace+"/"+secret.Name)
		}
	}
	for _, each := range u.objects {
		lost, isUser := each.lost(logicalName, exist)
		if isUser {
			e.Uses = append(e.Uses, each.name)
		}
		if slices.Contains(each.secrets, current) {
			e.Marked = append(e.Marked, each.name)
		}
		for _, key := range lost {
			e.Lost = append(e.Lost, each.name+" uses Secret "+key)
			if each.isOwn {
				e.InUse = append(e.InUse, secrets.LostKey{Name: key, User: each.name, Confirmed: slices.Contains(confirmed, key)})
			}
		}
	}
	return e
}

// lost returns the keys of a logical name that the object names and that do not exist, and whether it names any key or bundle.
func (u user) lost(logicalName string, exist []string) (lost []string, isUser bool) {
	for _, key := range u.secrets {
		is, isBundle := secrets.IsNameOf(logicalName, key)
		isUser = isUser || is
		if is && !isBundle && !slices.Contains(exist, key) {
			lost = append(lost, key)
		}
	}
	return lost, isUser
}
