package managedresources

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// Delete requests the deletion of a ManagedResource and its Secrets: first the Secret "<name>" that versions without unique names created
// ("<SecretPrefix><name>" if secretNameWithPrefix is true), then the Secrets that the ManagedResource refers to, then the ManagedResource.
// It skips objects that do not exist. It does not wait; see WaitUntilDeleted.
func Delete(ctx context.Context, c client.Client, namespace, name string, secretNameWithPrefix bool) error {
	key := client.ObjectKey{Namespace: namespace, Name: name}
	mr := &resourcesv1alpha1.ManagedResource{}
	err := c.Get(ctx, key, mr)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get managed resource %s: %w", key, err)
	}
	exists := !apierrors.IsNotFound(err)
	secretNames := append([]string{SecretName(name, secretNameWithPrefix)}, referencedSecrets(mr)...)

	for _, secretName := range secretNames {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: secretName}}
		if err := c.Delete(ctx, secret); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete secret %s: %w", client.ObjectKeyFromObject(secret), err)
		}
	}
	if !exists {
		return nil
	}
	if err := c.Delete(ctx, mr); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete managed resource %s: %w", key, err)
	}
	return nil
}

// DeleteForSeed deletes the objects that CreateForSeed created.
func DeleteForSeed(ctx context.Context, c client.Client, namespace, name string) error {
	return Delete(ctx, c, namespace, name, true)
}

// DeleteForShoot deletes the objects that CreateForShoot created.
func DeleteForShoot(ctx context.Context, c client.Client, namespace, name string) error {
	return Delete(ctx, c, namespace, name, true)
}
