package load

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	renewNow    = "espalier.dev/renew-token"
	tokenPrefix = "serviceaccount.resources.gardener.cloud/"
)

// tokens are Secrets that request tokens. With each revision a label of their ServiceAccount changes, and the token is renewed.
type tokens struct{ base }

func (t *tokens) create(ctx context.Context) error {
	return t.createEach(ctx, func(name string) client.Object {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: t.namespace, Name: name, Labels: map[string]string{"resources.gardener.cloud/purpose": "token-requestor"},
			Annotations: map[string]string{tokenPrefix + "name": name, tokenPrefix + "namespace": t.namespace},
		}}
	})
}

func (t *tokens) change(ctx context.Context, lane string, to int) error {
	labels := fmt.Sprintf(`{%q:"%d"}`, revision, to)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: lane}}
	return t.patch(ctx, secret, map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{tokenPrefix + "labels": labels, renewNow: "true"},
	}})
}

func (t *tokens) results(ctx context.Context) (arrived map[string]int, unsettled []string, err error) {
	accounts, secrets := &corev1.ServiceAccountList{}, &corev1.SecretList{}
	if err := t.cluster.Client.List(ctx, accounts, client.InNamespace(t.namespace), client.HasLabels{revision}); err != nil {
		return nil, nil, err
	}
	if err := t.cluster.Client.List(ctx, secrets, client.InNamespace(t.namespace),
		client.MatchingLabels{"resources.gardener.cloud/purpose": "token-requestor"}); err != nil {
		return nil, nil, err
	}
	for _, secret := range secrets.Items {
		if _, waits := secret.Annotations[renewNow]; waits || len(secret.Data["token"]) == 0 {
			unsettled = append(unsettled, fmt.Sprintf("Secret %s waits for its token", secret.Name))
		}
	}
	return revisions(accounts.Items, func(a corev1.ServiceAccount) (lane, value string) { return a.Name, a.Labels[revision] }), unsettled, nil
}
