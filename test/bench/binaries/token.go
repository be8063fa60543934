package binaries

import (
	"context"
	"encoding/base64"
	"flag"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/test/bench/harness"
	"github.com/espalier-dev/espalier/test/local"
)

// token measures token-controllers. Secrets without the label and Secrets that want a token exist before the process starts, as at an
// installation. The time of first issuing is that from the first request about a token to the last written Secret, by the audit log; in it
// the controller creates the ServiceAccounts, requests the tokens and writes the Secrets. Before and after, a bare client requests the same
// number of tokens for existing ServiceAccounts: once one after the other, like a script, and once with as many concurrent requests as the
// controller has workers. A second bare client does all three requests for each Secret, with the same concurrency as the controller.
type token struct {
	secrets, foreign int
	rest             time.Duration

	*harness.Run
	cluster *harness.Cluster
	bare    kubernetes.Interface
	program *harness.Program
	// The times of the bare clients, before and after.
	sequential, parallel, everything []time.Duration
}

const (
	tokenBinary = "token-controllers"
	// tokenWorkers is how many Secrets the controller reconciles concurrently by default.
	tokenWorkers = 32
	tokenConfig  = harness.Config + `controllers: {tokenRequestor: {enabled: true}}
espalier: {token: {sameCluster: {scope: SecretNamespace}}}
`
)

func tokenBenchmark() harness.Benchmark {
	t := &token{rest: time.Minute}
	return harness.Benchmark{
		Name: "token", Summary: "first tokens of many Secrets beside foreign ones, by token-controllers",
		Flags: func(flags *flag.FlagSet) {
			flags.IntVar(&t.secrets, "secrets", 2000, "`number` of Secrets that want a token")
			flags.IntVar(&t.foreign, "foreign", 20000, "`number` of Secrets that the controller ignores")
		},
		Smoke: func() { t.secrets, t.foreign, t.rest = 100, 200, 3*time.Second },
		Jobs:  job(t.measure, &t.secrets, &t.foreign),
	}
}

func (t *token) measure(ctx context.Context, r *harness.Run) ([]harness.Row, error) {
	t.Run = r
	var issued, resting harness.Requests
	var memory int64
	err := harness.InOrder(ctx,
		t.prepare, t.floor("before"), t.createForeign,
		func(ctx context.Context) error { return t.createWanting(ctx, "own") },
		func(ctx context.Context) (err error) {
			issued, err = t.issue(ctx)
			return err
		},
		func(ctx context.Context) (err error) {
			err = local.Pause(ctx, 2*time.Second) // the last Events arrive in this time
			if err != nil {
				return err
			}
			if resting, err = restRequests(ctx, r, t.cluster, harness.User(tokenBinary), t.rest); err != nil {
				return err
			}
			memory, _, err = harness.Memory(t.program.PID())
			return err
		},
		func(context.Context) error { return t.program.Stop() },
		t.floor("after"),
	)
	if err != nil {
		return nil, err
	}
	took := issued.Period()
	return harness.On(fmt.Sprintf("%d Secrets", t.secrets),
		harness.Inform("first issue, from the first request to the last write", "%s, %d requests", harness.Seconds(took), len(issued)),
		harness.Ratio("first issue ÷ token requests alone, one after the other", 1.3, took, t.sequential...),
		harness.Ratio("first issue ÷ token requests alone, 32 in flight", 0, took, t.parallel...),
		harness.Ratio("first issue ÷ ServiceAccounts, tokens and Secrets, 32 in flight", 0, took, t.everything...),
		harness.Exactly(fmt.Sprintf("requests in %s at rest", t.rest), len(resting), 0),
		harness.AtMost(fmt.Sprintf("resident memory beside %d foreign Secrets", t.foreign), "%.0f MiB", mebibytes(memory), 60),
	), nil
}

func (t *token) prepare(ctx context.Context) (err error) {
	setup := harness.Setup{Audited: []string{harness.User(tokenBinary)}}
	if t.cluster, t.program, err = t.StartClusterFor(ctx, tokenBinary, setup); err != nil {
		return err
	}
	_, cfg, err := t.cluster.Identity(ctx, tokenBinary, "bare-system")
	if err != nil {
		return err
	}
	if t.bare, err = kubernetes.NewForConfig(cfg); err != nil {
		return err
	}
	return t.program.Configure(tokenConfig, t.Profiles != "")
}

// floor measures the bare clients.
func (t *token) floor(round string) func(context.Context) error {
	return func(ctx context.Context) error {
		accounts, everything := "floor-"+round, "floor-"+round+"-everything"
		if err := t.cluster.CreateNamespace(ctx, accounts); err != nil {
			return err
		}
		create := func(ctx context.Context, i int) error { return t.createAccount(ctx, accounts, i) }
		if err := harness.Parallel(ctx, t.secrets, tokenWorkers, create); err != nil {
			return err
		}
		if err := t.createWanting(ctx, everything); err != nil {
			return err
		}
		for _, floor := range []struct {
			into     *[]time.Duration
			inFlight int
			do       func(context.Context, int) error
		}{
			{&t.sequential, 1, func(ctx context.Context, i int) error { return t.requestToken(ctx, accounts, i, nil) }},
			{&t.parallel, tokenWorkers, func(ctx context.Context, i int) error { return t.requestToken(ctx, accounts, i, nil) }},
			{&t.everything, tokenWorkers, func(ctx context.Context, i int) error { return t.issueOne(ctx, everything, i) }},
		} {
			took, err := harness.Timed(ctx, t.secrets, floor.inFlight, floor.do)
			if err != nil {
				return err
			}
			*floor.into = append(*floor.into, took)
		}
		t.Step("bare clients %s: %d tokens, one after the other %s, 32 in flight %s, with ServiceAccounts and Secrets %s", round, t.secrets,
			harness.Spread(t.sequential), harness.Spread(t.parallel), harness.Spread(t.everything))
		return t.cluster.Typed.CoreV1().Namespaces().Delete(ctx, everything, metav1.DeleteOptions{})
	}
}

func secretName(i int) string { return fmt.Sprintf("s-%05d", i) }

func (t *token) createAccount(ctx context.Context, namespace string, i int) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: secretName(i)}, AutomountServiceAccountToken: ptr.To(false)}
	_, err := t.bare.CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{})
	return err
}

func (t *token) requestToken(ctx context.Context, namespace string, i int, into *string) error {
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"gardener"}, ExpirationSeconds: ptr.To[int64](43200)},
	}
	answer, err := t.bare.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, secretName(i), request, metav1.CreateOptions{})
	if err == nil && into != nil {
		*into = answer.Status.Token
	}
	return err
}

// issueOne does for one Secret what the controller does.
func (t *token) issueOne(ctx context.Context, namespace string, i int) error {
	if err := t.createAccount(ctx, namespace, i); err != nil {
		return err
	}
	var issued string
	if err := t.requestToken(ctx, namespace, i, &issued); err != nil {
		return err
	}
	const renewal = "serviceaccount.resources.gardener.cloud/token-renew-timestamp"
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"2100-01-01T00:00:00Z"}},"data":{"token":%q}}`,
		renewal, base64.StdEncoding.EncodeToString([]byte(issued)))
	_, err := t.bare.CoreV1().Secrets(namespace).Patch(ctx, secretName(i), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// createWanting creates Secrets that want a token. Those for a bare client have no label, so that the controller ignores them.
func (t *token) createWanting(ctx context.Context, namespace string) error {
	return t.createSecrets(ctx, namespace, t.secrets, func(secret *corev1.Secret) {
		secret.Annotations = map[string]string{
			"serviceaccount.resources.gardener.cloud/name": secret.Name, "serviceaccount.resources.gardener.cloud/namespace": namespace,
		}
		if namespace == "own" {
			secret.Labels = map[string]string{"resources.gardener.cloud/purpose": "token-requestor", "resources.gardener.cloud/class": "shoot"}
		}
	})
}

// createForeign creates Secrets of 2 KiB that the controller ignores.
func (t *token) createForeign(ctx context.Context) error {
	return t.createSecrets(ctx, "foreign", t.foreign, func(secret *corev1.Secret) {
		secret.Data = map[string][]byte{"some": make([]byte, 2048)}
	})
}

func (t *token) createSecrets(ctx context.Context, namespace string, n int, modify func(*corev1.Secret)) error {
	if err := t.cluster.CreateNamespace(ctx, namespace); err != nil {
		return err
	}
	return harness.Parallel(ctx, n, tokenWorkers, func(ctx context.Context, i int) error {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secretName(i)}}
		modify(secret)
		_, err := t.cluster.Typed.CoreV1().Secrets(namespace).Create(ctx, secret, metav1.CreateOptions{})
		return err
	})
}

// issue starts the controller, waits until it has written all tokens, and returns its requests about them.
func (t *token) issue(ctx context.Context) (counted harness.Requests, err error) {
	err = t.program.StartReady(ctx)
	if err != nil {
		return nil, err
	}
	place, written := int64(0), 0
	return counted, t.program.Await(ctx, "all tokens to be written", func(context.Context) error {
		var some harness.Requests
		if some, place, err = t.cluster.Audit.Since(place, harness.User(tokenBinary)); err != nil {
			return local.GiveUp(err)
		}
		for _, each := range some {
			patch := each.Object.Resource == "secrets" && each.Verb == "patch"
			if patch || each.Object.Resource == "serviceaccounts" {
				counted = append(counted, each)
			}
			if patch && each.Status.Code == 200 {
				written++
			}
		}
		if written < t.secrets {
			return fmt.Errorf("%d of %d are", written, t.secrets)
		}
		return nil
	})
}
