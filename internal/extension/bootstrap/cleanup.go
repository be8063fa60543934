package bootstrap

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var bootstrapToken = regexp.MustCompile(`^([a-z0-9]{6})\.[a-z0-9]{16}$`)

// cleanUp deletes the credentials of the bootstrap. The parameter used contains these credentials if this run has requested the
// certificate with them. Then cleanUp first deletes them in the garden cluster. If used is nil, the credentials may belong to another
// program, and stay in the garden cluster. In both cases, cleanUp deletes the Secret with the bootstrap kubeconfig.
func (m *Manager) cleanUp(ctx context.Context, credentials, used *rest.Config) error {
	if m.Settings.Bootstrap == nil {
		return nil
	}
	secret, err := m.secret(ctx, *m.Settings.Bootstrap)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read Secret %s: %w", m.Settings.Bootstrap, err)
	}
	if used != nil {
		garden, err := m.Connect(credentials)
		if err != nil {
			return fmt.Errorf("connect to garden cluster: %w", err)
		}
		if err := deleteToken(ctx, garden, used.BearerToken); err != nil {
			return err
		}
	}
	key := metav1.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion}
	if err := m.Seed.Delete(ctx, secret, client.Preconditions(key)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete Secret %s: %w", m.Settings.Bootstrap, err)
	}
	m.Log.Info("Deleted the credentials of the bootstrap", "secret", m.Settings.Bootstrap.String(), "inGarden", used != nil)
	return nil
}

// deleteToken deletes a bootstrap token. If the token is of a ServiceAccount, deleteToken deletes the ServiceAccount and its binding to
// the role of bootstrappers. It keeps a ServiceAccount without such a binding, because the ServiceAccount may have other purposes.
func deleteToken(ctx context.Context, garden client.Client, token string) error {
	if found := bootstrapToken.FindStringSubmatch(token); found != nil {
		object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + found[1]}}
		if err := garden.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete bootstrap token in garden cluster: %w", err)
		}
		return nil
	}
	account, ok := accountOf(token)
	if !ok {
		return nil
	}
	binding := &rbacv1.ClusterRoleBinding{}
	name := fmt.Sprintf("%s:%s:%s", bootstrapperRole, account.Namespace, account.Name)
	err := garden.Get(ctx, client.ObjectKey{Name: name}, binding)
	if apierrors.IsNotFound(err) || err == nil && binding.RoleRef.Name != bootstrapperRole {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read ClusterRoleBinding %s in garden cluster: %w", name, err)
	}
	// The binding is deleted last, so that the next attempt finds it.
	object := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: account.Namespace, Name: account.Name}}
	if err := garden.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete ServiceAccount %s in garden cluster: %w", account, err)
	}
	if err := garden.Delete(ctx, binding); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete ClusterRoleBinding %s in garden cluster: %w", name, err)
	}
	return nil
}

// accountOf returns the ServiceAccount that a token names. It does not verify the token, which the API server has accepted before.
func accountOf(token string) (client.ObjectKey, bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return client.ObjectKey{}, false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return client.ObjectKey{}, false
	}
	claims := struct {
		Subject string `json:"sub"`
	}{}
	if json.Unmarshal(payload, &claims) != nil {
		return client.ObjectKey{}, false
	}
	rest, ok := strings.CutPrefix(claims.Subject, "system:serviceaccount:")
	namespace, name, complete := strings.Cut(rest, ":")
	return client.ObjectKey{Namespace: namespace, Name: name}, ok && complete
}
