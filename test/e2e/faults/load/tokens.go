package load

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	tokenCount  = 6
	renewNow    = "espalier.dev/renew-token"
	tokenPrefix = "serviceaccount.resources.gardener.cloud/"
)

// tokens are Secrets that request tokens. With each revision the label of their ServiceAccount changes, and the token is renewed.
type tokens struct{ base }

func (t *tokens) title() string        { return "token" }
func (t *tokens) pause() time.Duration { return 500 * time.Millisecond }

func (t *tokens) lanes() []string { return numbered("token-", tokenCount) }

func numbered(prefix string, count int) []string {
	names := make([]string, 0, count)
	for i := range count {
		names = append(names, prefix+strconv.Itoa(i))
	}
	return names
}

func (t *tokens) create(ctx context.Context) error {
	for _, name := range t.lanes() {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: t.namespace, Name: name, Labels: map[string]string{"resources.gardener.cloud/purpose": "token-requestor"},
			Annotations: map[string]string{tokenPrefix + "name": name, tokenPrefix + "namespace": t.namespace},
		}}
		if err := client.IgnoreAlreadyExists(t.cluster.Client.Create(ctx, secret)); err != nil {
			return err
		}
	}
	return nil
}

func (t *tokens) change(ctx context.Context, lane string, to int) error {
	labels, err := json.Marshal(map[string]string{revision: strconv.Itoa(to)})
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{tokenPrefix +
		"labels": string(labels), renewNow: "true"}}})
	if err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: lane}}
	return t.cluster.Client.Patch(ctx, secret, client.RawPatch(types.MergePatchType, patch))
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

// remove does nothing: the objects are deleted with the namespace.
func (t *tokens) remove(context.Context) error { return nil }
