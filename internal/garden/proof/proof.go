// Package proof shows which generation of rotated credentials the Pods of the virtual cluster's servers serve, accept and refuse. The
// phases Preparing and Completing of the certificate authorities and of the key for tokens of ServiceAccounts end only with this proof.
//
// In both phases, kubeconfigs, APIServices and webhooks must have the present authorities, and the APIServices must be available.
//
// In phase Preparing, each Pod must serve a certificate that the authorities of its server have signed, and accept credentials that the
// new generation has signed. In phase Completing, each Pod must serve a certificate that one of the new authorities has signed, and each
// Pod of kube-apiserver must refuse the probes. The probes are a client certificate and a token without rights that the former generation
// has signed. Each probe is in a separate Secret. The Secret is generated before the phase Prepared, while the former key still exists,
// and deleted when the rotation has completed. So the proof can be repeated if the process stops at any point, even after the former keys
// were deleted.
//
// The requests go to each Pod, not to a Service, and only while a phase waits. The user can leave Pods out. Problem decides about each
// answer; it is pure.
package proof

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/flow"
	"github.com/espalier-dev/espalier/internal/garden/component/judgement"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/virtualsystem"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/rollout"
	"github.com/espalier-dev/espalier/internal/secrets"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
	"github.com/espalier-dev/espalier/internal/secrets/manager"
)

// Check is the name of the check that a phase ends by proof. Check/<Pod> leaves a Pod out.
const Check = "rotation-proof"

const (
	// parallel is how many requests are sent at a time.
	parallel = 10
	// shown is how many problems an error names.
	shown = 10
	// The pause between two attempts grows from shortestPause to longestPause.
	shortestPause = time.Second
	longestPause  = 30 * time.Second
	// readTimeout bounds the request for the ServiceAccount of probes.
	readTimeout = 10 * time.Second
)

// Prover makes the probes and the proof. All fields are required unless they say otherwise.
type Prover struct {
	// Cluster is the runtime cluster.
	Cluster rollout.Cluster
	// Secrets is the manager of secrets, which has already generated the credentials of all servers.
	Secrets *manager.Manager
	Values  values.Values
	// Virtual returns a client of the virtual cluster.
	Virtual func(ctx context.Context) (client.Reader, error)
	// Client has the settings of requests to Pods.
	Client Client
	// Source is the source of random numbers for keys and certificates. Its time is ignored.
	Source secretconfig.Source
	Clock  clock.PassiveClock
	// Within is how long the proof may take.
	Within time.Duration
	// TokenUse is the time after which programs use a token that was renewed in a Secret: the kubelet updates the mounted file within about
	// 90 seconds, and client-go reads the file once a minute. Nothing shows which token a program has in memory.
	TokenUse time.Duration
	// Skips reports whether the user skips a check.
	Skips func(check string) bool
}

// Error is the error of a proof that is missing.
type Error struct{ error }

func (e *Error) Unwrap() error { return e.error }

// generation describes the probe of one credential, which shows whether servers refuse the former generation of that credential.
type generation struct {
	credential rotation.Credential
	// probe is the logical name of the Secret with the probe, and secret is the logical name of the Secret with the key that signs the probe.
	probe, secret string
	noun          string
	// generate returns the data of the probe. Former is the Secret with the former key, nil if there was none before the rotation.
	generate func(former *corev1.Secret, scope Scope, source secretconfig.Source) (map[string][]byte, error)
	// scope returns the present scope of tokens. Nil: the probe is no token.
	scope func(p *Prover, ctx context.Context) (Scope, error)
	// read returns two credentials. Former is the former credential in the data of the probe, or the zero value if there was no former key.
	// Current is a credential of the same content, signed with the current key.
	read func(p *Prover, data, key map[string][]byte) (former, current Credential, err error)
}

var generations = []generation{
	{
		rotation.CertificateAuthorities, rotation.ClientProbe, rotation.ClientAuthority, "client certificate",
		generateCertificate, nil, (*Prover).readCertificate,
	},
	{
		rotation.ServiceAccountKey, rotation.TokenProbe, kubeapiserver.ServiceAccountKeyName, "token of a ServiceAccount",
		generateToken, (*Prover).scope, (*Prover).readToken,
	},
}

// Unneeded returns why nothing has to be proven, or "".
func (p *Prover) Unneeded() string {
	switch {
	case !slices.ContainsFunc(generations, func(g generation) bool { return p.hasProbe(g.credential) }):
		return "Neither certificate authorities nor the key for tokens of ServiceAccounts are being rotated."
	case p.Skips(Check):
		return fmt.Sprintf("The annotation %s=%s skips the proof.", operatorv1alpha1.AnnotationSkippedChecks, Check)
	}
	return ""
}

// hasProbe reports whether the rotation of a credential is going on.
func (p *Prover) hasProbe(credential rotation.Credential) bool {
	return p.changes(credential) || p.Values.Phases[credential] == operatorv1alpha1.RotationPrepared
}

// changes reports whether the end of the phase of a credential depends on a proof.
func (p *Prover) changes(credential rotation.Credential) bool {
	phase := p.Values.Phases[credential]
	return phase == operatorv1alpha1.RotationPreparing || phase == operatorv1alpha1.RotationCompleting
}

func (p *Prover) completes(credential rotation.Credential) bool {
	return p.Values.Phases[credential] == operatorv1alpha1.RotationCompleting
}

// Prove generates the probes of the rotations that are going on, and waits until each Pod answers as the phases demand.
func (p *Prover) Prove(ctx context.Context) error {
	var changes flow.Changes
	ctx, stop := context.WithCancel(ctx)
	var repeating sync.WaitGroup
	repeating.Go(func() {
		pause := wait.Backoff{Duration: shortestPause, Factor: 2, Steps: 10, Cap: longestPause}
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause.Step()):
				changes.Notify()
			}
		}
	})
	defer func() { stop(); repeating.Wait() }()
	// All tokens, also the tokens of Seeds, have been renewed before the proof begins.
	unread, cancel := context.WithTimeout(ctx, p.TokenUse)
	defer cancel()
	var demands []Demand
	return changes.Until(ctx, p.Within, func(ctx context.Context) (err error) {
		if demands == nil {
			if demands, err = p.demands(ctx); err != nil {
				return &Error{err}
			}
		}
		problems, err := p.problems(ctx, demands)
		if err != nil {
			return err
		}
		ofConsumers, err := p.consumerProblems(ctx)
		if err != nil {
			return &Error{err}
		}
		problems = append(problems, ofConsumers...)
		problems = append(problems, p.tokenProblems(unread)...)
		if len(problems) == 0 {
			return nil
		}
		if more := len(problems) - shown; more > 0 {
			problems = append(problems[:shown], fmt.Sprintf("and %d more", more))
		}
		return &Error{fmt.Errorf("%s; if that is right, leave a Pod out with the annotation %s=%s/<Pod> of the Garden, or skip the proof with %s",
			strings.Join(problems, "; "), operatorv1alpha1.AnnotationSkippedChecks, Check, Check)}
	})
}

// tokenProblems returns the problem that programs may not have read their renewed tokens yet, until the context ends.
func (p *Prover) tokenProblems(unread context.Context) []string {
	if p.Values.Phases[rotation.ServiceAccountKey] != operatorv1alpha1.RotationPreparing || unread.Err() != nil {
		return nil
	}
	return []string{fmt.Sprintf(
		"programs may still use tokens of the former key, because they read renewed ones only within %s", p.TokenUse)}
}

// demands generates the probes, and returns the demands of all phases.
func (p *Prover) demands(ctx context.Context) ([]Demand, error) {
	demands := []Demand{}
	for i := range generations {
		g := &generations[i]
		if !p.hasProbe(g.credential) {
			continue
		}
		more, err := p.demandsOf(ctx, g)
		if err != nil {
			return nil, err
		}
		demands = append(demands, more...)
	}
	if !p.changes(rotation.CertificateAuthorities) {
		return demands, nil
	}
	more, err := p.demandsOfServers()
	return append(demands, more...), err
}

// remedy is the end of errors about a proof that is not possible any more.
const remedy = "; test yourself that servers refuse the former credentials, and then skip the proof with the annotation " +
	operatorv1alpha1.AnnotationSkippedChecks + ": " + Check + " of the Garden, which ends the phase without showing that"

// errLost is why there is no proof.
var errLost = errors.New("neither the probe nor the former key exists any more, so that nothing shows whether servers refuse the former " +
	"generation" + remedy)

// demandsOf generates the probe of a generation, and returns the demands on kube-apiserver. It returns no demands outside the phases
// Preparing and Completing. kube-apiserver must also accept the current credential in phase Completing. Otherwise it would prove nothing
// that kube-apiserver refuses the former credential: kube-apiserver may refuse all credentials, or the ServiceAccount may not exist any
// more.
func (p *Prover) demandsOf(ctx context.Context, g *generation) ([]Demand, error) {
	former, err := p.Secrets.Former(g.secret)
	if err != nil {
		return nil, err
	}
	current, err := p.Secrets.Current(g.secret)
	if err != nil {
		return nil, err
	}
	stored := p.Secrets.Newest(g.probe)
	if stored != nil && stored.Labels[secrets.LabelLastRotation] != current.Labels[secrets.LabelLastRotation] {
		stored = nil // it is left over from an earlier rotation
	}
	config, err := p.probeOf(ctx, g, former, stored)
	if err != nil {
		return nil, err
	}
	made, err := p.Secrets.Generate(ctx, secrets.Request{Config: config})
	if err != nil || !p.changes(g.credential) {
		return nil, err
	}
	old, fresh, err := g.read(p, made.Data, current.Data)
	if err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", made.Name, err)
	}
	server := kubernetesServer(p.Values)
	demands := []Demand{
		{Server: server, Sends: "a " + g.noun + " of the new key", Credential: fresh, Wants: Accepted, TrustsFormer: true},
	}
	if p.completes(g.credential) && old != (Credential{}) {
		demands = append(demands, Demand{
			Server: server, Sends: "a " + g.noun + " of the former key", Credential: old, Wants: Refused, TrustsFormer: true,
		})
	}
	return demands, nil
}

// probeOf returns the description of the probe of a generation. Stored is the probe that was generated earlier in the rotation, or nil if
// there is none. If the scope of a stored token is not the present scope, servers refuse the token whatever its key is. So the token is
// replaced as long as the former key exists. After the former key was deleted, probeOf fails if the ServiceAccount was created again.
func (p *Prover) probeOf(ctx context.Context, g *generation, former, stored *corev1.Secret) (probe, error) {
	config := probe{name: g.probe}
	if g.scope != nil && (stored == nil || p.changes(g.credential)) {
		scope, err := g.scope(p, ctx)
		if err != nil {
			return config, err
		}
		config.scope = scope
		if stored != nil && former == nil {
			if problem := scope.Problem(stored.Data[dataKeyClaims]); problem != "" {
				return config, errors.New(problem)
			}
		}
	}
	if stored != nil && (former == nil || !p.changes(g.credential)) {
		config.checksum = stored.Labels[secrets.LabelConfigChecksum]
	}
	config.generate = func(source secretconfig.Source) (map[string][]byte, error) {
		existed := p.Values.RotatedBefore.Has(g.credential) && !p.Values.Aborting.Has(g.credential) // an aborted key may not exist yet
		if former == nil && (p.completes(g.credential) || existed) {
			return nil, errLost
		}
		return g.generate(former, config.scope, source)
	}
	return config, nil
}

func generateCertificate(former *corev1.Secret, _ Scope, source secretconfig.Source) (map[string][]byte, error) {
	if former == nil {
		return map[string][]byte{}, nil
	}
	return certify(former.Data, source)
}

func (p *Prover) readCertificate(data, key map[string][]byte) (former, current Credential, err error) {
	if len(data) > 0 {
		if former, err = Certificate(data); err != nil {
			return former, current, err
		}
	}
	source := p.Source
	source.Now = p.Clock.Now()
	issued, err := certify(key, source)
	if err == nil {
		current, err = Certificate(issued)
	}
	return former, current, err
}

// scope returns the present scope of tokens of the ServiceAccount of probes. It reads the UID of the ServiceAccount in the virtual cluster.
func (p *Prover) scope(ctx context.Context) (Scope, error) {
	virtual, err := p.Virtual(ctx)
	if err != nil {
		return Scope{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	account := &corev1.ServiceAccount{}
	err = virtual.Get(ctx, client.ObjectKey{Namespace: virtualsystem.ProbeNamespace, Name: virtualsystem.ProbeAccount}, account)
	if err != nil {
		return Scope{}, fmt.Errorf("read ServiceAccount of the virtual cluster: %w", err)
	}
	issuer, audience := kubeapiserver.TokenScope(p.Values)
	return Scope{Issuer: issuer, Audience: audience, UID: string(account.UID)}, nil
}

func generateToken(former *corev1.Secret, scope Scope, source secretconfig.Source) (map[string][]byte, error) {
	claims, err := scope.Claims(source.Now)
	if err != nil {
		return nil, err
	}
	data := map[string][]byte{dataKeyClaims: claims}
	if former != nil {
		token, err := Token(claims, former.Data[secretconfig.DataKeyRSAPrivateKey])
		if err != nil {
			return nil, err
		}
		data[dataKeyToken] = []byte(token)
	}
	return data, nil
}

func (p *Prover) readToken(data, key map[string][]byte) (former, current Credential, err error) {
	token, err := Token(data[dataKeyClaims], key[secretconfig.DataKeyRSAPrivateKey])
	return Credential{Token: string(data[dataKeyToken])}, Credential{Token: token}, err
}

// problems asks all Pods, and returns a sentence for each answer that is not the demanded one.
func (p *Prover) problems(ctx context.Context, demands []Demand) ([]string, error) {
	var all []string
	var lock sync.Mutex
	add := func(problem string) {
		lock.Lock()
		defer lock.Unlock()
		if problem != "" && !slices.Contains(all, problem) {
			all = append(all, problem)
		}
	}
	group, asking := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i := range demands {
		demand := &demands[i]
		bundle, err := p.bundle(demand)
		if err != nil {
			return nil, err
		}
		pods, problem, err := p.pods(ctx, &demand.Server)
		if err != nil {
			return nil, err
		}
		add(problem)
		for _, pod := range pods {
			group.Go(func() error {
				if pod.Status.PodIP == "" {
					add(fmt.Sprintf("Pod %s has no address yet", pod.Name))
					return nil
				}
				status, err := demand.Server.Ask(asking, p.Client, pod.Status.PodIP, bundle, demand.Credential)
				add(demand.Problem(pod.Name, status, err))
				return nil
			})
		}
	}
	_ = group.Wait() // no function returns an error
	slices.Sort(all)
	return all, nil
}

// bundle returns the certificates that verify the certificate of a server.
func (p *Prover) bundle(d *Demand) ([]byte, error) {
	current, err := p.Secrets.Bundle(d.Server.Authority)
	if err != nil {
		return nil, err
	}
	bundle := current.Data[secretconfig.DataKeyCertificateBundle]
	if !d.TrustsFormer {
		return bundle, nil
	}
	former, err := p.Secrets.Former(d.Server.Authority)
	if err != nil || former == nil {
		return bundle, err
	}
	return slices.Concat(bundle, former.Data[secretconfig.DataKeyCACertificate]), nil
}

// Pods of etcds are counted.
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get,namespace=garden,roleName=espalier-garden-operator-garden

// pods returns the Pods of a server that the user does not leave out. If the Deployment or StatefulSet of the server exists without Pods,
// pods returns a problem. If neither exists, pods returns no problem: another task deploys the server and waits for it.
func (p *Prover) pods(ctx context.Context, s *Server) (pods []corev1.Pod, problem string, err error) {
	list := &corev1.PodList{}
	err = p.Cluster.Client.List(ctx, list, client.InNamespace(p.Values.Namespace), client.MatchingLabels(s.Labels))
	if err != nil {
		return nil, "", fmt.Errorf("list Pods of %s: %w", s.Name, err)
	}
	running := judgement.Unfinished(list.Items)
	if len(running) == 0 {
		exists, err := p.exists(ctx, s)
		if exists {
			problem = "there is no Pod of " + s.Name
		}
		return nil, problem, err
	}
	return slices.DeleteFunc(running, func(pod corev1.Pod) bool { return p.Skips(Check + "/" + pod.Name) }), "", nil
}

// exists reports whether the Deployment or StatefulSet of a server exists.
func (p *Prover) exists(ctx context.Context, s *Server) (bool, error) {
	deployment, err := rollout.Find(ctx, p.Cluster.Client, p.Values.Namespace, s.Name, &appsv1.Deployment{})
	if err != nil || deployment != nil {
		return deployment != nil, err
	}
	set, err := rollout.Find(ctx, p.Cluster.Client, p.Values.Namespace, s.Name, &appsv1.StatefulSet{})
	return set != nil, err
}
