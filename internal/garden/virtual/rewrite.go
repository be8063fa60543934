package virtual

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/flow"
	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenerapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/install"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/rollout"
	"github.com/espalier-dev/espalier/internal/secrets"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

const (
	// rewritesPerSecond limits how many objects are written again.
	rewritesPerSecond = 100
	// rewriteWorkers is how many objects are written at the same time.
	rewriteWorkers = 10
	// rewritePage is how many objects a list returns at once.
	rewritePage = 500
	// rewriteTimeout is how long the virtual cluster may take for a list or a write.
	rewriteTimeout = time.Minute
	// rewritePasses limits how often all objects are listed until every object has the label.
	rewritePasses = 20
)

const (
	noRewrite  = "Encrypted objects do not have to be written again."
	noUnlabel  = "Encrypted objects keep their label."
	noSnapshot = "The main etcd has no backup."
)

// Rewrite returns how encrypted objects of both API servers are written again.
func Rewrite(v values.Values) apiserver.Rewrite {
	return apiserver.PlanRewrite(v, alwaysEncrypted())
}

// alwaysEncrypted returns the resources of both API servers that are encrypted in every Garden.
func alwaysEncrypted() []string {
	return slices.Concat(kubeapiserver.AlwaysEncrypted(), gardenerapiserver.AlwaysEncrypted())
}

// rewriter writes encrypted objects again.
type rewriter struct {
	work
	connection *Connection
	// confirmedLosses are the resources, each with its group, whose objects the user allows to be lost.
	confirmedLosses []string
	// dial connects to the main etcd for a snapshot, and to gardener-apiserver for its version. Nil: like net.Dialer.
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// steps returns the work that writes encrypted objects again, and then takes a snapshot of the main etcd.
func (r rewriter) steps() map[string]install.Steps {
	plan := Rewrite(r.values)
	skipLabel, skipSnapshot, skipUnlabel := "", "", ""
	if !plan.Label {
		skipLabel, skipSnapshot = noRewrite, noRewrite
	} else if r.values.ETCDMain.Backup == nil {
		skipSnapshot = noSnapshot
	}
	if !plan.Unlabel {
		skipUnlabel = noUnlabel
		if !plan.Label {
			skipUnlabel = noRewrite
		}
	}
	return map[string]install.Steps{
		components.Rewrite: {SkipsDeploy: skipLabel, Deploy: func(ctx context.Context) error {
			return r.once(ctx, plan, apiserver.ResourcesLabeled, func() error { return r.label(ctx, plan.Resources) })
		}},
		components.Snapshot: {SkipsDeploy: skipSnapshot, Deploy: func(ctx context.Context) error {
			return r.once(ctx, plan, apiserver.Snapshotted, func() error { return r.takeSnapshot(ctx) })
		}},
		components.RewriteEnd: {SkipsDeploy: skipUnlabel, Deploy: func(ctx context.Context) error { return r.unlabel(ctx, plan.Resources) }},
	}
}

// once does work that a rotation needs only once, and then sets an annotation. If the annotation is set, once does nothing. There is one
// exception: if one reconciliation both begins and ends a rewrite, once always does the work and ignores the annotation, because an
// earlier attempt may have set it for other resources.
func (r rewriter) once(ctx context.Context, plan apiserver.Rewrite, annotation string, work func() error) error {
	if plan.Unlabel {
		return work()
	}
	if marked, err := r.isMarked(ctx, annotation); marked || err != nil {
		return err
	}
	if err := work(); err != nil {
		return err
	}
	return r.mark(ctx, map[string]any{annotation: "true"})
}

// label waits until no Pod writes with an old key any more. Then it adds the label of the key to objects that do not have it yet. A retry
// continues where the last attempt ended.
func (r rewriter) label(ctx context.Context, resources []string) error {
	if err := r.untilNoOldPods(ctx, kubernetesServer(r.timing), gardenerServer(r.timing)); err != nil {
		return err
	}
	_, err := r.labelOnce(ctx, resources)
	return err
}

// labelOnce lists the objects once, adds the label of the key to those objects that do not have it, and returns their number.
func (r rewriter) labelOnce(ctx context.Context, resources []string) (int, error) {
	key, known := r.secrets.Get(kubeapiserver.EncryptionKeyName, secrets.Current)
	if !known {
		return 0, fmt.Errorf("secret %q not found", kubeapiserver.EncryptionKeyName)
	}
	return r.rewrite(ctx, resources, selection.NotEquals, apiserver.KeyLabel(key))
}

// labelUntilNoneIsLeft repeats labelOnce until labelOnce finds no object without the label of the key. After rewritePasses passes, it
// fails. It returns the number of objects that got the label.
func (r rewriter) labelUntilNoneIsLeft(ctx context.Context, resources []string) (int, error) {
	sum := 0
	for range rewritePasses {
		number, err := r.labelOnce(ctx, resources)
		if err != nil || number == 0 {
			return sum, err
		}
		sum += number
	}
	return sum, fmt.Errorf("after %d passes, there still are objects of %s without the label %s; find them with kubectl get --selector '!%s'",
		rewritePasses, strings.Join(resources, ", "), apiserver.KeyName, apiserver.KeyName)
}

// untilOldKeyUnneeded returns an error in phase Completing as long as the encryption configuration of an API server needs the old key. Nil
// means: all Pods write with the new key, the server has written every object since, and a snapshot of etcd contains the objects, if the
// Garden has a backup. To reach this, untilOldKeyUnneeded labels objects and takes a snapshot itself. If the configuration of the live
// Deployment contains only the new key, or in a plan, it does not wait and writes nothing. Live is nil if there is no Deployment.
func (r rewriter) untilOldKeyUnneeded(ctx context.Context, of server, live *appsv1.Deployment, key *corev1.Secret) (needed error) {
	if r.values.Phases[rotation.ETCDEncryptionKey] != operatorv1alpha1.RotationCompleting {
		return nil
	}
	defer func() {
		if needed != nil {
			needed = fmt.Errorf("the old encryption key of %s is not dropped: %w", of.name, needed)
		}
	}()
	if live != nil {
		configured, err := r.configuredKeys(ctx, of.keyName, live)
		if err != nil || apiserver.OnlyCurrent(key, configured) {
			return err
		}
		if err := apiserver.CheckNewKeyUsed(live, key, configured); err != nil {
			return err
		}
	}
	if r.Foresees {
		return nil
	}
	if err := r.untilNoOldPods(ctx, of); err != nil {
		return err
	}
	number, err := r.labelUntilNoneIsLeft(ctx, of.served(Rewrite(r.values).Resources))
	if err != nil || r.values.ETCDMain.Backup == nil {
		return err
	}
	if marked, err := r.isMarked(ctx, apiserver.Snapshotted); err != nil || marked && number == 0 {
		return err
	}
	return r.takeSnapshot(ctx)
}

// keepingOldKey returns a rewriter whose API servers keep the old encryption key, to deploy everything else of them.
func (r rewriter) keepingOldKey() rewriter {
	r.values = r.values.WithPhase(rotation.ETCDEncryptionKey, operatorv1alpha1.RotationPrepared)
	r.changing = r.values.Phases.Changing()
	return r
}

// unlabel removes the label from objects that have it, and then the annotations of the Deployment.
func (r rewriter) unlabel(ctx context.Context, resources []string) error {
	if _, err := r.rewrite(ctx, resources, selection.Exists, ""); err != nil {
		return err
	}
	return r.unmark(ctx, apiserver.ResourcesLabeled, apiserver.Snapshotted)
}

// rewrite selects all objects whose label KeyName satisfies the selection operator matches. It sets the label of these objects to value,
// or removes the label if value is empty. It returns the number of objects. It fails at the end if the virtual cluster refuses to write
// some objects, or if unserved returns an error for a resource that the virtual cluster does not serve.
func (r rewriter) rewrite(ctx context.Context, resources []string, matches selection.Operator, value string) (number int, err error) {
	defer func() {
		if err != nil {
			err = &Error{err}
		}
	}()
	virtual, err := r.connection.Clients(ctx)
	if err != nil {
		return 0, err
	}
	var values []string
	var label any
	if value != "" {
		values, label = []string{value}, value
	}
	requirement, err := labels.NewRequirement(apiserver.KeyName, matches, values)
	if err != nil {
		return 0, fmt.Errorf("select encrypted objects: %w", err)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{apiserver.KeyName: label}}})
	if err != nil {
		return 0, fmt.Errorf("encode label: %w", err)
	}
	selected := client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*requirement)}
	limiter, writer := rate.NewLimiter(rewritesPerSecond, rewritesPerSecond), client.WithFieldOwner(virtual.Client, r.FieldManager)
	var unserved []error
	refused := &refusals{}
	for _, resource := range resources {
		kind, err := kindOf(virtual.Client.RESTMapper(), resource)
		if err != nil {
			return 0, fmt.Errorf("find kind of encrypted resource %s: %w", resource, err)
		}
		if kind.Empty() {
			if problem := r.unserved(resource); problem != nil {
				unserved = append(unserved, problem)
				continue
			}
			log.FromContext(ctx).Info("Wrote no objects of a resource that the virtual cluster does not serve", "resource", resource)
			continue
		}
		err = forPages(ctx, virtual.Client, kind, selected, func(objects []metav1.PartialObjectMetadata, before int) error {
			flow.ReportWait(ctx, fmt.Sprintf("writing objects of %s again, after %d", resource, before))
			number += len(objects)
			return patchAll(ctx, writer, limiter, objects, kind, patch, refused)
		})
		if err != nil {
			return 0, errors.Join(err, refused.err())
		}
	}
	flow.ReportWait(ctx, "")
	return number, errors.Join(append(unserved, refused.err())...)
}

// unserved returns an error if a rewrite must fail because the virtual cluster does not serve a resource. Objects of this resource may be
// in etcd, and without the former key they could not be read any more. unserved returns nil if the user confirms the loss. It also returns
// nil for a resource of kube-apiserver that was not encrypted so far.
func (r rewriter) unserved(resource string) error {
	const remedy = "serve it again, or confirm the loss of its objects with the annotation " +
		operatorv1alpha1.AnnotationConfirmLostResources + "="
	encrypted := r.values.EncryptedProvider == "" || slices.Contains(slices.Concat(r.values.EncryptedResources, alwaysEncrypted()), resource)
	switch {
	case slices.Contains(r.confirmedLosses, resource):
		return nil
	case len(apiserver.OfGardener([]string{resource})) > 0:
		return fmt.Errorf("gardener-apiserver does not serve the encrypted resource %s (see kubectl get apiservices); %s%s",
			resource, remedy, resource)
	case encrypted:
		return fmt.Errorf("the virtual cluster does not serve the encrypted resource %s; %s%s", resource, remedy, resource)
	}
	return nil
}

// kindOf returns the kind of a resource. It returns an empty kind if the virtual cluster does not serve the resource. It compares the
// groups, because a mapper also finds groups that only begin with the requested group.
func kindOf(mapper meta.RESTMapper, resource string) (schema.GroupVersionKind, error) {
	wanted := schema.ParseGroupResource(resource)
	kinds, err := mapper.KindsFor(wanted.WithVersion(""))
	if err != nil && !meta.IsNoMatchError(err) {
		return schema.GroupVersionKind{}, err
	}
	for _, each := range kinds {
		if each.Group == wanted.Group {
			return each, nil
		}
	}
	return schema.GroupVersionKind{}, nil
}

// forPages calls the function use with each page of the selected objects, and with the number of objects on the pages before. The function
// use must change the objects so that they are no longer selected.
func forPages(
	ctx context.Context, c client.Reader, kind schema.GroupVersionKind, selected client.ListOption,
	use func(objects []metav1.PartialObjectMetadata, before int) error,
) error {
	before, next := 0, ""
	for first := true; first || next != ""; first = false {
		page, err := listPage(ctx, c, kind, selected, next)
		if apierrors.IsResourceExpired(err) && next != "" {
			page, err = listPage(ctx, c, kind, selected, "")
		}
		if err != nil {
			return fmt.Errorf("list objects of %s: %w", kind.Kind, err)
		}
		if err := use(page.Items, before); err != nil {
			return err
		}
		before, next = before+len(page.Items), page.Continue
	}
	return nil
}

func listPage(
	ctx context.Context, c client.Reader, kind schema.GroupVersionKind, selected client.ListOption, next string,
) (*metav1.PartialObjectMetadataList, error) {
	return listMetadata(ctx, rewriteTimeout, c, kind, selected, client.Limit(rewritePage), client.Continue(next))
}

// patchAll writes objects. If the API server refuses an object, patchAll adds the object to refused and continues. It ignores objects that
// do not exist any more. At any other error, it ends.
func patchAll(
	ctx context.Context, c client.Client, limiter *rate.Limiter, objects []metav1.PartialObjectMetadata, kind schema.GroupVersionKind,
	patch []byte, refused *refusals,
) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(rewriteWorkers)
	for i := range objects {
		group.Go(func() error {
			if err := limiter.Wait(ctx); err != nil {
				return fmt.Errorf("wait for the limit of requests: %w", err)
			}
			o := &objects[i]
			o.SetGroupVersionKind(kind)
			bounded, cancel := context.WithTimeout(ctx, rewriteTimeout)
			defer cancel()
			err := c.Patch(bounded, o, client.RawPatch(types.MergePatchType, patch))
			if isRefusal(err) {
				refused.add(kind.Kind+" "+client.ObjectKeyFromObject(o).String(), err)
				return nil
			}
			if client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("write %s %s again: %w", kind.Kind, client.ObjectKeyFromObject(o), err)
			}
			return nil
		})
	}
	return group.Wait()
}

// takeSnapshot makes etcd-backup-restore take a full snapshot, so that no later restore needs the former key.
func (r rewriter) takeSnapshot(ctx context.Context) error {
	flow.ReportWait(ctx, "the main etcd takes a full snapshot")
	defer flow.ReportWait(ctx, "")
	bundle, err := r.secrets.Bundle(etcd.Authority)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, r.timing.Snapshot)
	defer cancel()
	response, err := r.request(ctx, etcd.SnapshotURL(r.values), bundle.Data[secretconfig.DataKeyCertificateBundle])
	if err != nil {
		return fmt.Errorf("request snapshot of etcd: %w", err)
	}
	_ = response.Body.Close()
	if err := etcd.JudgeSnapshot(response.StatusCode); err != nil {
		return fmt.Errorf("request snapshot of etcd: %w (see the log of container backup-restore of Pod %s-0)", err, etcd.Main.Name())
	}
	return nil
}

// request requests a URL of a Service of the runtime cluster. Bundle is the bundle of the certificate authority of the server.
func (r rewriter) request(ctx context.Context, url string, bundle []byte) (*http.Response, error) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, DialContext: r.dial, DisableKeepAlives: true,
	}
	return transport.RoundTrip(request)
}

// isMarked reports whether the Deployment of kube-apiserver has an annotation with the value "true".
func (r rewriter) isMarked(ctx context.Context, annotation string) (bool, error) {
	live, err := r.deployment(ctx, kubeapiserver.Name)
	return live != nil && live.Annotations[annotation] == "true", err
}

// unmark removes annotations of the Deployment of kube-apiserver.
func (r rewriter) unmark(ctx context.Context, annotations ...string) error {
	if len(annotations) == 0 {
		return nil
	}
	removed := map[string]any{}
	for _, each := range annotations {
		removed[each] = nil
	}
	return r.mark(ctx, removed)
}

// mark sets annotations of the Deployment of kube-apiserver, and removes annotations whose value is nil.
func (r rewriter) mark(ctx context.Context, annotations map[string]any) error {
	return r.Annotate(ctx, rollout.Identity(deploymentKind, r.values.Namespace, kubeapiserver.Name), annotations)
}
