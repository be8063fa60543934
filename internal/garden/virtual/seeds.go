package virtual

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenerapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/globalmonitoring"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/virtualsystem"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/install"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/rollout"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

var (
	configMapKind          = corev1.SchemeGroupVersion.WithKind("ConfigMap")
	seedKind               = corev1beta1.SchemeGroupVersion.WithKind("Seed")
	certificateRequestKind = certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest")
)

const (
	// seedPatches is how many Seeds are changed at a time.
	seedPatches = 5
	// seedsNamed is how many Seeds an error names.
	seedsNamed = 10
	// publishedAuthority is the name of the ConfigMaps in which kube-controller-manager publishes the authorities of kube-apiserver. A
	// gardenlet reads the ConfigMap in namespace virtualsystem.PublicNamespace when it starts. It starts again when it gets a new client
	// certificate.
	publishedAuthority = "kube-root-ca.crt"
	// seedUser is the beginning of the names of the users of gardenlets. The name of the Seed follows.
	seedUser = "gardener.cloud:system:seed:"
)

// renewal is a renewal of credentials in Seeds, which must end before a rotation can change from phase Preparing to Prepared.
type renewal struct {
	// operation requests the renewal in the annotation gardener.cloud/operation of a Seed.
	operation string
	// noun names the credentials in messages.
	noun string
	// credential is the rotated credential, and secret is the logical name of its Secret.
	credential rotation.Credential
	secret     string
	// unawaited is true if it is enough that the renewal was requested.
	unawaited bool
	// proven is true if a renewal counts only when the new authority has signed a client certificate of the Seed. For other renewals, the
	// only sign in the virtual cluster is that the gardenlet of a Seed removes the annotation when it has done its part.
	proven bool
}

// renewals are all renewals, by the names of their rows.
var renewals = map[string]renewal{
	components.SeedTokens: {
		operation: corev1beta1.SeedOperationRenewGardenAccess, noun: "garden access",
		credential: rotation.ServiceAccountKey, secret: kubeapiserver.ServiceAccountKeyName,
	},
	components.SeedIdentities: {
		operation: corev1beta1.SeedOperationRenewWorkloadIdentity, noun: "workload identity",
		credential: rotation.WorkloadIdentityKey, secret: gardenerapiserver.WorkloadIdentityKeyName,
	},
	components.SeedKubeconfigs: {
		operation: corev1beta1.SeedOperationRenewKubeconfig, noun: "gardenlet kubeconfig",
		credential: rotation.CertificateAuthorities, secret: rotation.ClientAuthority, proven: true,
	},
}

// seeds makes the gardenlets of all Seeds renew their credentials.
type seeds struct {
	work
	connection *Connection
	// skips reports whether the user skips a check: CheckSeeds leaves all Seeds out of rotations, and CheckSeeds/<Seed> leaves one out.
	skips func(check string) bool
}

func (s seeds) steps() map[string]install.Steps {
	all := map[string]install.Steps{}
	for row, each := range renewals {
		all[row] = install.Steps{
			SkipsDeploy: s.unneeded(each.credential),
			Deploy: func(ctx context.Context) error {
				_, err := s.advance(ctx, each, true)
				return err
			},
			Await: func(ctx context.Context) error { return s.await(ctx, each) },
		}
	}
	all[components.SeedMonitoring] = s.monitoringSteps()
	return all
}

// unneeded returns why a renewal is not needed, or "".
func (s seeds) unneeded(credential rotation.Credential) string {
	switch {
	case s.values.Phases[credential] != operatorv1alpha1.RotationPreparing:
		return fmt.Sprintf("No rotation of status.credentials.rotation.%s is being prepared.", credential)
	case s.skips(CheckSeeds):
		return fmt.Sprintf("The annotation %s=%s leaves Seeds out of rotations.", operatorv1alpha1.AnnotationSkippedChecks, CheckSeeds)
	}
	return ""
}

// await waits until all Seeds have renewed their credentials. In the meantime, it also requests the renewal from Seeds that have been
// created, or that have finished another operation.
func (s seeds) await(ctx context.Context, r renewal) error {
	virtual, err := s.virtual(ctx)
	if err != nil {
		return err
	}
	watched := []rollout.Watched{{Kind: seedKind}}
	if r.proven {
		watched = append(watched, rollout.Watched{Kind: certificateRequestKind},
			rollout.WatchObject(rollout.Identity(configMapKind, virtualsystem.PublicNamespace, publishedAuthority)))
	}
	return virtual.Until(ctx, s.timing.Seeds, func(ctx context.Context) error {
		problems, err := s.advance(ctx, r, false)
		if err != nil || len(problems) == 0 {
			return err
		}
		if more := len(problems) - seedsNamed; more > 0 {
			problems = append(problems[:seedsNamed], fmt.Sprintf("and %d more", more))
		}
		return fmt.Errorf("%s; to leave a Seed out, whose gardenlet will be cut off when the rotation completes, set the annotation "+
			"%s=%s/<Seed> of the Garden", strings.Join(problems, "; "), operatorv1alpha1.AnnotationSkippedChecks, CheckSeeds)
	}, watched...)
}

// virtual returns the virtual cluster, for writes as the operator.
func (s seeds) virtual(ctx context.Context) (rollout.Cluster, error) {
	clients, err := s.connection.Clients(ctx)
	if err != nil {
		return rollout.Cluster{}, err
	}
	return rollout.Cluster{Client: clients.Client, FieldManager: s.FieldManager}, nil
}

// advance does the next step of a renewal for each Seed. It returns a sentence for each Seed that has not renewed its credentials yet. If
// gardenlets would not get the new authorities, it returns only this problem. If anew is true, advance requests a renewal again if the
// gardenlet has begun the renewal and there is no proof of it: the proof is the request for the client certificate, which may have been
// deleted after an hour.
func (s seeds) advance(ctx context.Context, r renewal, anew bool) (problems []string, err error) {
	defer func() {
		if err != nil {
			err = &Error{err}
		}
	}()
	current, err := s.secrets.Current(r.secret)
	if err != nil {
		return nil, err
	}
	virtual, err := s.virtual(ctx)
	if err != nil {
		return nil, err
	}
	list, err := s.list(ctx, virtual.Client)
	if err != nil {
		return nil, err
	}
	if r.proven && slices.ContainsFunc(list, func(seed metav1.PartialObjectMetadata) bool { return r.isDue(&seed, current.Name) }) {
		problem, failure := s.publicationProblem(ctx, virtual.Client)
		if failure != nil || problem != "" {
			return []string{problem}, failure
		}
	}
	var proofs []string
	if r.proven && slices.ContainsFunc(list, func(seed metav1.PartialObjectMetadata) bool { return r.isOpen(&seed, current.Name) }) {
		if proofs, err = certifiedSeeds(ctx, virtual.Client, current.Data[secretconfig.DataKeyCACertificate]); err != nil {
			return nil, err
		}
	}
	group, patching := errgroup.WithContext(ctx)
	group.SetLimit(seedPatches)
	for i := range list {
		seed := &list[i]
		marks, problem := r.next(seed, current.Name, anew, !r.proven || slices.Contains(proofs, seed.Name))
		if problem != "" {
			problems = append(problems, problem)
		}
		if marks != nil {
			group.Go(func() error { return s.annotate(patching, virtual.Client, seed, marks) })
		}
	}
	return problems, group.Wait()
}

// annotate sets annotations of a Seed unless the Seed has changed since it was read: then the next call of advance decides again.
func (s seeds) annotate(
	ctx context.Context, virtual client.Client, seed *metav1.PartialObjectMetadata, annotations map[string]string,
) error {
	changed := seed.DeepCopy()
	changed.Annotations = object.Union(seed.Annotations, annotations)
	err := virtual.Patch(ctx, changed, conflict.MergeFrom(seed), client.FieldOwner(s.FieldManager))
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("annotate Seed %s: %w", seed.Name, err)
	}
	return nil
}

// annotation is the name of the annotation with the progress of the renewal. Its values contain the name of the Secret with the new
// credential, so that a later rotation begins anew.
func (r renewal) annotation() string { return operatorv1alpha1.AnnotationSeedRenewal + r.operation }

func requested(secret string) string { return secret + " requested" }

func renewed(secret string) string { return secret + " renewed" }

// isDue reports whether the renewal of a Seed was not requested yet.
func (r renewal) isDue(seed *metav1.PartialObjectMetadata, secret string) bool {
	progress := seed.Annotations[r.annotation()]
	return progress != requested(secret) && progress != renewed(secret)
}

// isOpen reports whether the gardenlet of a Seed has removed the annotation that requests the renewal, and the renewal is not proven yet.
func (r renewal) isOpen(seed *metav1.PartialObjectMetadata, secret string) bool {
	return seed.Annotations[r.annotation()] == requested(secret) && seed.Annotations[corev1beta1.SeedOperation] != r.operation
}

// next returns the annotations that a Seed gets now, nil if there are none, and why the Seed has not renewed its credentials yet.
func (r renewal) next(
	seed *metav1.PartialObjectMetadata, secret string, anew, proven bool,
) (annotations map[string]string, problem string) {
	progress, operation := seed.Annotations[r.annotation()], seed.Annotations[corev1beta1.SeedOperation]
	notYet := func(reason string) string {
		return fmt.Sprintf("renewing %q secrets for seed %q is not yet completed: %s", r.noun, seed.Name, reason)
	}
	switch {
	case progress == renewed(secret), r.unawaited && progress == requested(secret):
		return nil, ""
	case r.isOpen(seed, secret) && proven:
		return map[string]string{r.annotation(): renewed(secret)}, ""
	case operation == r.operation && progress == requested(secret):
		return nil, notYet("its gardenlet has not removed the annotation " + corev1beta1.SeedOperation + "=" + operation)
	case seed.DeletionTimestamp != nil:
		return nil, notYet("it is being deleted")
	case operation != "":
		return nil, notYet("it is already annotated with " + corev1beta1.SeedOperation + "=" + operation)
	case r.isOpen(seed, secret) && !anew:
		return nil, notYet("the new certificate authority has signed no client certificate of its gardenlet")
	}
	return map[string]string{corev1beta1.SeedOperation: r.operation, r.annotation(): requested(secret)}, notYet("it was requested")
}

// list returns the metadata of the Seeds that the user does not leave out.
func (s seeds) list(ctx context.Context, virtual client.Reader) ([]metav1.PartialObjectMetadata, error) {
	list, err := listMetadata(ctx, answerTimeout, virtual, seedKind)
	if err != nil {
		return nil, fmt.Errorf("list Seeds: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(seed metav1.PartialObjectMetadata) bool { return s.skips(CheckSeeds + "/" + seed.Name) }), nil
}

// publicationProblem returns why a gardenlet that gets a new client certificate would not get the new authorities of kube-apiserver too,
// or "". A new client certificate alone does not show that the gardenlet trusts the new authorities.
func (s seeds) publicationProblem(ctx context.Context, virtual client.Reader) (string, error) {
	bundle, err := s.secrets.Bundle(kubeapiserver.Authority)
	if err != nil {
		return "", err
	}
	wanted, err := cert.ParseCertsPEM(bundle.Data[secretconfig.DataKeyCertificateBundle])
	if err != nil {
		return "", fmt.Errorf("read Secret %s: %w", bundle.Name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	published := &corev1.ConfigMap{}
	err = virtual.Get(ctx, client.ObjectKey{Namespace: virtualsystem.PublicNamespace, Name: publishedAuthority}, published)
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("read ConfigMap %s: %w", publishedAuthority, err)
	}
	live, _ := cert.ParseCertsPEM([]byte(published.Data["ca.crt"])) // none if it does not exist
	if slices.ContainsFunc(wanted, func(each *x509.Certificate) bool { return !slices.ContainsFunc(live, each.Equal) }) {
		return fmt.Sprintf("kube-controller-manager has not published the new certificate authorities in ConfigMap %s/%s of the virtual cluster "+
			"yet, from which gardenlets read them", virtualsystem.PublicNamespace, publishedAuthority), nil
	}
	return "", nil
}

// certifiedSeeds returns the names of the Seeds whose gardenlets have got their last client certificate from an authority. The virtual
// cluster keeps requests for certificates for an hour. When a rotation is aborted, there may be requests from before this rotation, which
// the same authority has signed. Such a request proves nothing if another authority has signed a later request.
func certifiedSeeds(ctx context.Context, virtual client.Reader, authority []byte) ([]string, error) {
	authorities, err := cert.ParseCertsPEM(authority)
	if err != nil {
		return nil, fmt.Errorf("read certificate authority: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	list := &certificatesv1.CertificateSigningRequestList{}
	if err := virtual.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list CertificateSigningRequests: %w", err)
	}
	return lastCertifiedBy(authorities[0], list.Items), nil
}

// lastCertifiedBy returns the names of the Seeds whose last client certificate was signed by the given authority. The last certificate is
// the certificate of the youngest request with a certificate. If several youngest requests were created in the same second, it is enough
// that the authority has signed the certificate of one of them.
func lastCertifiedBy(authority *x509.Certificate, requests []certificatesv1.CertificateSigningRequest) []string {
	last, certified := map[string]metav1.Time{}, sets.New[string]()
	for i := range requests {
		created := requests[i].CreationTimestamp
		issued, err := cert.ParseCertsPEM(requests[i].Status.Certificate)
		if err != nil { // no certificate yet
			continue
		}
		name, isSeed := strings.CutPrefix(issued[0].Subject.CommonName, seedUser)
		if latest, known := last[name]; !isSeed || known && created.Before(&latest) {
			continue
		}
		if latest := last[name]; latest.Before(&created) {
			certified.Delete(name)
		}
		last[name] = created
		if issued[0].CheckSignatureFrom(authority) == nil {
			certified.Insert(name)
		}
	}
	return sets.List(certified)
}

// monitoringSteps returns the work that gives Seeds the new credentials of global monitoring.
func (s seeds) monitoringSteps() install.Steps {
	return install.Steps{SkipsDeploy: s.unneeded(rotation.Observability), Deploy: s.awaitMonitoring, Await: s.reconcileSeeds}
}

// awaitMonitoring waits until the virtual cluster has the new credentials of global monitoring in the namespace of each Seed.
// gardener-controller-manager copies them from namespace garden.
func (s seeds) awaitMonitoring(ctx context.Context) error {
	virtual, err := s.virtual(ctx)
	if err != nil {
		return err
	}
	return virtual.Until(ctx, s.timing.Seeds, func(ctx context.Context) error {
		if err := s.checkMonitoring(ctx, virtual.Client); err != nil {
			return &Error{err}
		}
		return nil
	}, rollout.Watched{Kind: secretKind, Options: []client.ListOption{globalmonitoring.Labels()}}, rollout.Watched{Kind: seedKind})
}

// checkMonitoring fails if the namespace of a Seed has other credentials of global monitoring than namespace garden.
func (s seeds) checkMonitoring(ctx context.Context, virtual client.Reader) error {
	list, err := s.list(ctx, virtual)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	all := &corev1.SecretList{}
	if err = virtual.List(ctx, all, globalmonitoring.Labels()); err != nil {
		return fmt.Errorf("list credentials of global monitoring: %w", err)
	}
	generated, err := s.secrets.Current(globalmonitoring.SecretName)
	if err != nil {
		return err
	}
	problems := globalmonitoring.Outdated(all.Items, generated, names(list))
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("gardener-controller-manager has not copied the new credentials of global monitoring for the Seeds %s yet; to leave a "+
		"Seed out, set the annotation %s=%s/<Seed> of the Garden",
		strings.Join(problems, ", "), operatorv1alpha1.AnnotationSkippedChecks, CheckSeeds)
}

// reconcileSeeds requests the reconciliation of each Seed, because gardenlets read the credentials of global monitoring in a
// reconciliation. It waits until Seeds with another operation have finished that operation, but not until the reconciliations end.
func (s seeds) reconcileSeeds(ctx context.Context) error {
	return s.await(ctx, renewal{
		operation: corev1beta1.SeedOperationReconcile, noun: "global monitoring", secret: globalmonitoring.SecretName, unawaited: true,
	})
}

func names(seeds []metav1.PartialObjectMetadata) []string {
	all := make([]string, 0, len(seeds))
	for i := range seeds {
		all = append(all, seeds[i].Name)
	}
	return all
}
