package binaries

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/bench/harness"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

// token measures token-controllers. Secrets without the label, and Secrets that request a token, exist before the process starts, as after
// an installation. The time of first issuing, by the audit log, is the time from the first request about a token to the last written
// Secret; in this time the controller creates the ServiceAccounts, requests the tokens and writes the Secrets. Before and after, a bare
// client requests the same number of tokens for existing ServiceAccounts, one after the other, like a script.
type token struct {
	bench
	secrets, foreign int
	rest             time.Duration

	bare client.Client
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
	t := &token{}
	return harness.Benchmark{
		Name: "token", Summary: "first tokens of many Secrets beside foreign ones, by token-controllers",
		Sizes: []harness.Size{
			harness.Sized(&t.secrets, "secrets", 2000, 100, "`number` of Secrets that want a token"),
			harness.Sized(&t.foreign, "foreign", 20000, 200, "`number` of Secrets that the controller ignores"),
			harness.Sized(&t.rest, "", time.Minute, 3*time.Second, ""),
		},
		Jobs: harness.One(t.measure),
	}
}

func (t *token) measure(r *harness.Run) {
	t.bench = open(r, tokenBinary, local.Options{}, tokenBinary)
	t.bare = r.NewClient(r.ClientConfig(t.cluster.Identity(tokenBinary, "bare-system", binary.Source, binary.Target)))
	before := t.floor("before")
	t.createSecrets("foreign", t.foreign, func(secret *corev1.Secret) { secret.Data = map[string][]byte{"some": make([]byte, 2048)} })
	t.createSecrets("own", t.secrets, func(secret *corev1.Secret) {
		secret.Labels = map[string]string{"resources.gardener.cloud/purpose": "token-requestor", "resources.gardener.cloud/class": "shoot"}
		secret.Annotations = map[string]string{
			"serviceaccount.resources.gardener.cloud/name": secret.Name, "serviceaccount.resources.gardener.cloud/namespace": "own",
		}
	})
	took := t.issue()
	rows := []harness.Row{
		atRest(r, t.cluster, tokenBinary, t.rest, harness.Request.Counts),
		memory(fmt.Sprintf("resident memory beside %d foreign Secrets", t.foreign), t.program, 60),
	}
	t.program.Stop()
	ratio := harness.Ratio("first issue ÷ token requests alone, one after the other", 1.3, took, before, t.floor("after"))
	t.Add(harness.On(fmt.Sprintf("%d Secrets", t.secrets), slices.Insert(rows, 0, ratio)...))
}

// floor measures the bare client.
func (t *token) floor(round string) time.Duration {
	namespace := "floor-" + round
	t.cluster.CreateNamespace(namespace)
	accounts := make([]*corev1.ServiceAccount, t.secrets)
	t.Parallel(t.secrets, tokenWorkers, func(i int) {
		accounts[i] = &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: secretName(i)}}
		t.cluster.Create(accounts[i])
	})
	took := t.Timed(t.secrets, 1, func(i int) {
		t.Check(t.bare.SubResource("token").Create(t.Ctx, accounts[i], &authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"gardener"}, ExpirationSeconds: ptr.To[int64](43200)},
		}))
	})
	t.Step("bare client %s: %d tokens in %s", round, t.secrets, harness.Seconds(took))
	return took
}

func secretName(i int) string { return fmt.Sprintf("s-%05d", i) }

func (t *token) createSecrets(namespace string, n int, modify func(*corev1.Secret)) {
	t.cluster.CreateNamespace(namespace)
	t.Parallel(n, tokenWorkers, func(i int) {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: secretName(i)}}
		modify(secret)
		t.cluster.Create(secret)
	})
}

// issue starts the controller, waits until it has written all tokens, and returns how long the controller took.
func (t *token) issue() time.Duration {
	t.program.Configure(tokenConfig)
	t.program.StartReady()
	t.program.AwaitMetrics("all tokens to be issued", func(metrics harness.Metrics) error {
		if issued := int(metrics.Sum("espalier_token_requests_total", "result", "issued")); issued < t.secrets {
			t.Pause(500 * time.Millisecond) // each read makes the process count all Secrets, which slows down the measured work
			return fmt.Errorf("%d of %d are", issued, t.secrets)
		}
		return nil
	})
	isPatch := func(r harness.Request) bool { return r.ObjectRef.Resource == "secrets" && r.Verb == "patch" }
	var counted harness.Requests
	t.program.Await("all tokens to be written", func(context.Context) error {
		counted = t.cluster.Requests(0, tokenBinary).Only(func(r harness.Request) bool {
			return isPatch(r) || r.ObjectRef.Resource == "serviceaccounts"
		})
		written := len(counted.Only(func(r harness.Request) bool { return isPatch(r) && r.ResponseStatus.Code == http.StatusOK }))
		if written < t.secrets {
			return fmt.Errorf("%d of %d are", written, t.secrets)
		}
		return nil
	})
	return counted.Period()
}
