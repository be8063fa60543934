package virtual

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenerapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/garden/flow"
	"github.com/espalier-dev/espalier/internal/garden/rollout"
	"github.com/espalier-dev/espalier/internal/garden/values"
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
)

const (
	noRewrite  = "Encrypted objects do not have to be written again."
	noUnlabel  = "Encrypted objects keep their label."
	noSnapshot = "The main etcd has no backup."
)

// Rewrite returns how encrypted objects of both API servers are written again.
func Rewrite(v values.Values) apiserver.Rewrite {
	return apiserver.PlanRewrite(v, slices.Concat(kubeapiserver.AlwaysEncrypted(), gardenerapiserver.AlwaysEncrypted()))
}

// rewriteTasks returns the tasks that write encrypted objects again, and take a snapshot of what etcd has then. They start after others.
func (c *ControlPlane) rewriteTasks(after ...string) []flow.Task {
	plan := Rewrite(c.Values)
	skipLabel, skipSnapshot, skipUnlabel := "", "", ""
	if !plan.Label {
		skipLabel, skipSnapshot = noRewrite, noRewrite
	} else if c.Values.ETCDMain.Backup == nil {
		skipSnapshot = noSnapshot
	}
	if !plan.Unlabel {
		skipUnlabel = noUnlabel
		if !plan.Label {
			skipUnlabel = noRewrite
		}
	}
	return []flow.Task{
		{
			Name: taskLabel, DependsOn: after, SkipReason: skipLabel,
			Run: func(ctx context.Context, waitingFor flow.WaitingFor) error {
				return c.once(ctx, plan, apiserver.ResourcesLabeled, func() error { return c.label(ctx, waitingFor, plan.Resources) })
			},
		},
		{
			Name: taskSnapshot, DependsOn: []string{taskLabel}, SkipReason: skipSnapshot,
			Run: flow.Work(func(ctx context.Context) error {
				return c.once(ctx, plan, apiserver.Snapshotted, func() error { return c.takeSnapshot(ctx) })
			}),
		},
		{
			Name: taskUnlabel, DependsOn: []string{taskSnapshot}, SkipReason: skipUnlabel,
			Run: func(ctx context.Context, waitingFor flow.WaitingFor) error {
				return c.unlabel(ctx, waitingFor, plan.Resources)
			},
		},
	}
}

// once does work that a rotation needs only once, and then sets an annotation. A rewrite that one reconciliation begins and ends does not
// trust annotations: the attempt before may have been for other resources.
func (c *ControlPlane) once(ctx context.Context, plan apiserver.Rewrite, annotation string, work func() error) error {
	if plan.Unlabel {
		return work()
	}
	if marked, err := c.isMarked(ctx, annotation); marked || err != nil {
		return err
	}
	if err := work(); err != nil {
		return err
	}
	return c.mark(ctx, map[string]any{annotation: "true"})
}

// label adds the label with the name of the key to objects that do not have it yet. A retry continues where the last attempt ended.
func (c *ControlPlane) label(ctx context.Context, waitingFor flow.WaitingFor, resources []string) error {
	key, known := c.Secrets.Get(kubeapiserver.EncryptionKeyName, secrets.Current)
	if !known {
		return fmt.Errorf("secret %q not found", kubeapiserver.EncryptionKeyName)
	}
	return c.rewrite(ctx, waitingFor, resources, selection.NotEquals, key.Name)
}

// unlabel removes the label from objects that have it, and then the annotations of the Deployment.
func (c *ControlPlane) unlabel(ctx context.Context, waitingFor flow.WaitingFor, resources []string) error {
	if err := c.rewrite(ctx, waitingFor, resources, selection.Exists, ""); err != nil {
		return err
	}
	return c.mark(ctx, map[string]any{apiserver.ResourcesLabeled: nil, apiserver.Snapshotted: nil})
}

// rewrite sets the label of objects whose label matches, or removes it if the value is empty.
func (c *ControlPlane) rewrite(
	ctx context.Context, waitingFor flow.WaitingFor, resources []string, matches selection.Operator, value string,
) (err error) {
	defer func() {
		if err != nil {
			err = &Error{err}
		}
	}()
	virtual, err := c.Connection.Clients(ctx)
	if err != nil {
		return err
	}
	var values []string
	var label any
	if value != "" {
		values, label = []string{value}, value
	}
	requirement, err := labels.NewRequirement(apiserver.KeyName, matches, values)
	if err != nil {
		return fmt.Errorf("select encrypted objects: %w", err)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{apiserver.KeyName: label}}})
	if err != nil {
		return fmt.Errorf("encode label: %w", err)
	}
	selected := client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*requirement)}
	limiter := rate.NewLimiter(rewritesPerSecond, rewritesPerSecond)
	for _, resource := range resources {
		kind, err := kindOf(virtual.Client.RESTMapper(), resource)
		if err != nil {
			return fmt.Errorf("find kind of encrypted resource %s: %w", resource, err)
		}
		if kind.Empty() && len(apiserver.OfGardener([]string{resource})) > 0 {
			return fmt.Errorf("gardener-apiserver does not serve the encrypted resource %s (see kubectl get apiservices)", resource)
		}
		if kind.Empty() {
			log.FromContext(ctx).Info("The virtual cluster does not serve an encrypted resource, so it has no objects of it", "resource", resource)
			continue
		}
		err = forPages(ctx, virtual.Client, kind, selected, func(objects []metav1.PartialObjectMetadata, before int) error {
			waitingFor(fmt.Sprintf("writing objects of %s again, after %d", resource, before))
			return patchAll(ctx, virtual.Client, limiter, objects, kind, patch)
		})
		if err != nil {
			return err
		}
	}
	waitingFor("")
	return nil
}

// kindOf returns the kind of a resource, empty if the virtual cluster does not serve the resource. A mapper also finds groups that only
// begin with the one that is asked for.
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

// forPages calls a function with each page of objects, which are no longer selected afterwards, and with their number before it.
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
	ctx, cancel := context.WithTimeout(ctx, rewriteTimeout)
	defer cancel()
	page := &metav1.PartialObjectMetadataList{}
	page.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return page, c.List(ctx, page, selected, client.Limit(rewritePage), client.Continue(next))
}

func patchAll(
	ctx context.Context, c client.Client, limiter *rate.Limiter, objects []metav1.PartialObjectMetadata, kind schema.GroupVersionKind,
	patch []byte,
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
			err := c.Patch(bounded, o, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(rollout.FieldManager))
			if client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("write %s %s again: %w", kind.Kind, client.ObjectKeyFromObject(o), err)
			}
			return nil
		})
	}
	return group.Wait()
}

// takeSnapshot makes etcd-backup-restore take a full snapshot, so that no later restore needs the former key.
func (c *ControlPlane) takeSnapshot(ctx context.Context) error {
	bundle, err := c.Secrets.Bundle(etcd.Authority)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle.Data[secretconfig.DataKeyCertificateBundle])
	ctx, cancel := context.WithTimeout(ctx, c.Timing.defaulted().Snapshot)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, etcd.SnapshotURL(c.Values), http.NoBody)
	if err != nil {
		return fmt.Errorf("request snapshot of etcd: %w", err)
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, DialContext: c.Dial, DisableKeepAlives: true,
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return fmt.Errorf("request snapshot of etcd: %w", err)
	}
	_ = response.Body.Close()
	if err := etcd.JudgeSnapshot(response.StatusCode); err != nil {
		return fmt.Errorf("request snapshot of etcd: %w (see the log of container backup-restore of Pod %s-0)", err, etcd.Main.Name())
	}
	return nil
}

// isMarked reports whether the Deployment of kube-apiserver has an annotation with the value "true".
func (c *ControlPlane) isMarked(ctx context.Context, annotation string) (bool, error) {
	live, err := c.readDeployment(ctx, kubeapiserver.Name)
	return live != nil && live.Annotations[annotation] == "true", err
}

// mark sets annotations of the Deployment of kube-apiserver, and removes those whose value is nil.
func (c *ControlPlane) mark(ctx context.Context, annotations map[string]any) error {
	live := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: c.Values.Namespace, Name: kubeapiserver.Name}}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return fmt.Errorf("encode annotations: %w", err)
	}
	if err := c.Cluster.Client.Patch(
		ctx, live, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(rollout.FieldManager),
	); err != nil {
		return fmt.Errorf("annotate Deployment %s/%s: %w", live.Namespace, live.Name, err)
	}
	return nil
}
