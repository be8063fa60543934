package load

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	renewNow    = "espalier.dev/renew-token"
	tokenPrefix = "serviceaccount.resources.gardener.cloud/"
)

// tokens are Secrets that request tokens. With each revision the label of their ServiceAccount changes, and the token is renewed.
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

func (t *tokens) arrived(ctx context.Context) (map[string]int, error) {
	found := &corev1.ServiceAccountList{}
	if err := t.cluster.Client.List(ctx, found, client.InNamespace(t.namespace), client.HasLabels{revision}); err != nil {
		return nil, err
	}
	arrived := map[string]int{}
	for _, account := range found.Items {
		value, err := strconv.Atoi(account.Labels[revision])
		if err != nil {
			value = -1
		}
		arrived[account.Name] = value
	}
	return arrived, nil
}

func (t *tokens) unsettled(ctx context.Context) ([]string, error) {
	found := &corev1.SecretList{}
	if err := t.cluster.Client.List(ctx, found, client.InNamespace(t.namespace),
		client.MatchingLabels{"resources.gardener.cloud/purpose": "token-requestor"}); err != nil {
		return nil, err
	}
	var unsettled []string
	for _, secret := range found.Items {
		if _, waits := secret.Annotations[renewNow]; waits || len(secret.Data["token"]) == 0 {
			unsettled = append(unsettled, fmt.Sprintf("Secret %s waits for its token", secret.Name))
		}
	}
	return unsettled, nil
}
