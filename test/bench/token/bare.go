package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// workers is how many Secrets the controller reconciles concurrently by default, and the parallel bare clients too.
const workers = 32

const inFlight = "32 in flight"

// floors are the times of the bare clients.
type floors struct{ sequential, parallel, everything time.Duration }

func (b *bench) floors(ctx context.Context, name string, n int) (floors, error) {
	bare, err := kubernetes.NewForConfig(b.bareConfig)
	if err != nil {
		return floors{}, err
	}
	accounts, everything := "floor-"+name, "floor-"+name+"-everything"
	err = b.namespace(ctx, accounts)
	if err != nil {
		return floors{}, err
	}
	err = parallel(ctx, n, workers, func(ctx context.Context, i int) error { return createAccount(ctx, bare, accounts, i) })
	if err != nil {
		return floors{}, err
	}
	err = b.createWanting(ctx, everything, n)
	if err != nil {
		return floors{}, err
	}
	var f floors
	request := func(ctx context.Context, i int) error {
		_, failure := requestToken(ctx, bare, accounts, i)
		return failure
	}
	if f.sequential, err = timed(ctx, n, 1, request); err != nil {
		return f, err
	}
	if f.parallel, err = timed(ctx, n, workers, request); err != nil {
		return f, err
	}
	f.everything, err = timed(ctx, n, workers, func(ctx context.Context, i int) error { return issueOne(ctx, bare, everything, i) })
	if err != nil {
		return f, err
	}
	fmt.Printf("bare clients, %d tokens: %s one after the other, %s with %s, %s with ServiceAccounts and Secrets\n",
		n, seconds(f.sequential), seconds(f.parallel), inFlight, seconds(f.everything))
	return f, b.admin.CoreV1().Namespaces().Delete(ctx, everything, metav1.DeleteOptions{})
}

func timed(ctx context.Context, n, inFlight int, do func(context.Context, int) error) (time.Duration, error) {
	begin := clock.RealClock{}.Now()
	err := parallel(ctx, n, inFlight, do)
	return clock.RealClock{}.Since(begin), err
}

func parallel(ctx context.Context, n, inFlight int, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(inFlight)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

func nameOf(i int) string { return fmt.Sprintf("s-%05d", i) }

func createAccount(ctx context.Context, c kubernetes.Interface, namespace string, i int) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: nameOf(i)}, AutomountServiceAccountToken: ptr.To(false)}
	_, err := c.CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{})
	return err
}

func requestToken(ctx context.Context, c kubernetes.Interface, namespace string, i int) (string, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"gardener"}, ExpirationSeconds: ptr.To[int64](43200)}}
	answer, err := c.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, nameOf(i), request, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return answer.Status.Token, nil
}

// issueOne does for one Secret what the controller does.
func issueOne(ctx context.Context, c kubernetes.Interface, namespace string, i int) error {
	if err := createAccount(ctx, c, namespace, i); err != nil {
		return err
	}
	token, err := requestToken(ctx, c, namespace, i)
	if err != nil {
		return err
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"serviceaccount.resources.gardener.cloud/token-renew-timestamp":"2100-01-01T00:00:00Z"}},"data":{"token":%q}}`,
		base64.StdEncoding.EncodeToString([]byte(token)))
	_, err = c.CoreV1().Secrets(namespace).Patch(ctx, nameOf(i), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// createWanting creates Secrets that want a token. Those for a bare client have no label, so that the controller ignores them.
func (b *bench) createWanting(ctx context.Context, namespace string, n int) error {
	if err := b.namespace(ctx, namespace); err != nil {
		return err
	}
	return parallel(ctx, n, workers, func(ctx context.Context, i int) error {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: nameOf(i), Annotations: map[string]string{
			"serviceaccount.resources.gardener.cloud/name": nameOf(i), "serviceaccount.resources.gardener.cloud/namespace": namespace,
		}}}
		if namespace == "own" {
			secret.Labels = map[string]string{"resources.gardener.cloud/purpose": "token-requestor", "resources.gardener.cloud/class": "shoot"}
		}
		_, err := b.admin.CoreV1().Secrets(namespace).Create(ctx, secret, metav1.CreateOptions{})
		return err
	})
}

// createForeign creates Secrets of 2 KiB that the controller ignores.
func (b *bench) createForeign(ctx context.Context, n int) error {
	if err := b.namespace(ctx, "foreign"); err != nil {
		return err
	}
	return parallel(ctx, n, workers, func(ctx context.Context, i int) error {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: nameOf(i)}, Data: map[string][]byte{"some": make([]byte, 2048)}}
		_, err := b.admin.CoreV1().Secrets("foreign").Create(ctx, secret, metav1.CreateOptions{})
		return err
	})
}
