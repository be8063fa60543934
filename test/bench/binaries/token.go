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
	"github.com/espalier-dev/espalier/test/binary"
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

func (t *token) measure(r *harness.Run) {
	t.Run = r
	t.prepare()
	t.floor("before")
	t.createForeign()
	t.createWanting("own")
	issued := t.issue()
	t.Pause(2 * time.Second) // the last Events arrive in this time
	resting := restRequests(r, t.cluster, harness.User(tokenBinary), t.rest)
	memory, _ := t.program.Memory()
	t.Check(t.program.Stop())
	t.floor("after")
	took := issued.Period()
	t.Add(harness.On(fmt.Sprintf("%d Secrets", t.secrets),
		harness.Inform("first issue, from the first request to the last write", "%s, %d requests", harness.Seconds(took), len(issued)),
		harness.Ratio("first issue ÷ token requests alone, one after the other", 1.3, took, t.sequential...),
		harness.Ratio("first issue ÷ token requests alone, 32 in flight", 0, took, t.parallel...),
		harness.Ratio("first issue ÷ ServiceAccounts, tokens and Secrets, 32 in flight", 0, took, t.everything...),
		harness.Exactly(fmt.Sprintf("requests in %s at rest", t.rest), len(resting), 0),
		harness.AtMost(fmt.Sprintf("resident memory beside %d foreign Secrets", t.foreign), "%.0f MiB", mebibytes(memory), 60),
	))
}

func (t *token) prepare() {
	t.cluster, t.program = t.StartClusterFor(tokenBinary, harness.Setup{Audited: []string{harness.User(tokenBinary)}})
	kubeconfig := t.cluster.Identity(tokenBinary, "bare-system", binary.Source, binary.Target)
	bare, err := kubernetes.NewForConfig(t.ClientConfig(kubeconfig))
	t.Check(err)
	t.bare = bare
	t.program.Configure(tokenConfig)
}

// floor measures the bare clients.
func (t *token) floor(round string) {
	accounts, everything := "floor-"+round, "floor-"+round+"-everything"
	t.cluster.CreateNamespace(accounts)
	t.Parallel(t.secrets, tokenWorkers, func(i int) { t.createAccount(accounts, i) })
	t.createWanting(everything)
	requestToken := func(i int) { t.requestToken(accounts, i) }
	t.sequential = append(t.sequential, t.Timed(t.secrets, 1, requestToken))
	t.parallel = append(t.parallel, t.Timed(t.secrets, tokenWorkers, requestToken))
	t.everything = append(t.everything, t.Timed(t.secrets, tokenWorkers, func(i int) { t.issueOne(everything, i) }))
	t.Step("bare clients %s: %d tokens, one after the other %s, 32 in flight %s, with ServiceAccounts and Secrets %s", round, t.secrets,
		harness.Spread(t.sequential), harness.Spread(t.parallel), harness.Spread(t.everything))
	t.Check(t.cluster.Typed.CoreV1().Namespaces().Delete(t.Ctx, everything, metav1.DeleteOptions{}))
}

func secretName(i int) string { return fmt.Sprintf("s-%05d", i) }

func (t *token) createAccount(namespace string, i int) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: secretName(i)}, AutomountServiceAccountToken: ptr.To(false)}
	_, err := t.bare.CoreV1().ServiceAccounts(namespace).Create(t.Ctx, account, metav1.CreateOptions{})
	t.Check(err)
}

func (t *token) requestToken(namespace string, i int) (token string) {
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"gardener"}, ExpirationSeconds: ptr.To[int64](43200)},
	}
	answer, err := t.bare.CoreV1().ServiceAccounts(namespace).CreateToken(t.Ctx, secretName(i), request, metav1.CreateOptions{})
	t.Check(err)
	return answer.Status.Token
}

// issueOne does for one Secret what the controller does.
func (t *token) issueOne(namespace string, i int) {
	t.createAccount(namespace, i)
	issued := t.requestToken(namespace, i)
	const renewal = "serviceaccount.resources.gardener.cloud/token-renew-timestamp"
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"2100-01-01T00:00:00Z"}},"data":{"token":%q}}`,
		renewal, base64.StdEncoding.EncodeToString([]byte(issued)))
	_, err := t.bare.CoreV1().Secrets(namespace).Patch(t.Ctx, secretName(i), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	t.Check(err)
}

// createWanting creates Secrets that want a token. Those for a bare client have no label, so that the controller ignores them.
func (t *token) createWanting(namespace string) {
	t.createSecrets(namespace, t.secrets, func(secret *corev1.Secret) {
		secret.Annotations = map[string]string{
			"serviceaccount.resources.gardener.cloud/name": secret.Name, "serviceaccount.resources.gardener.cloud/namespace": namespace,
		}
		if namespace == "own" {
			secret.Labels = map[string]string{"resources.gardener.cloud/purpose": "token-requestor", "resources.gardener.cloud/class": "shoot"}
		}
	})
}

// createForeign creates Secrets of 2 KiB that the controller ignores.
func (t *token) createForeign() {
	t.createSecrets("foreign", t.foreign, func(secret *corev1.Secret) {
		secret.Data = map[string][]byte{"some": make([]byte, 2048)}
	})
}

func (t *token) createSecrets(namespace string, n int, modify func(*corev1.Secret)) {
	t.cluster.CreateNamespace(namespace)
	t.Parallel(n, tokenWorkers, func(i int) {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: secretName(i)}}
		modify(secret)
		t.cluster.Create(secret)
	})
}

// issue starts the controller, waits until it has written all tokens, and returns its requests about them.
func (t *token) issue() (counted harness.Requests) {
	t.program.StartReady()
	place, written := int64(0), 0
	t.program.Await("all tokens to be written", func(context.Context) error {
		some, end, err := t.cluster.Audit.Since(place, harness.User(tokenBinary))
		if err != nil {
			return local.GiveUp(err)
		}
		place = end
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
	return counted
}
