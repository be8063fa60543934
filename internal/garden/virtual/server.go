package virtual

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/apiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/exposure"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenerapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/judgement"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/rollout"
	"github.com/espalier-dev/espalier/internal/secrets"
)

// server is an API server whose credentials are rotated.
type server struct {
	// name is the name of the Deployment.
	name string
	// object is the object whose specification names the encryption configuration: the Deployment, or the ManagedResource that contains the
	// Deployment.
	object *unstructured.Unstructured
	// keyName is the logical name of the encryption key.
	keyName string
	// labels are the labels of the Pods.
	labels map[string]string
	// timeout is how long a rollout may take.
	timeout time.Duration
	// served returns the resources that the server encrypts, out of the resources of both servers.
	served func(resources []string) []string
	// key returns the request for the encryption key, and encrypted the resources that the Garden encrypts.
	key       func(values.Values) secrets.Request
	encrypted func(values.Values) []string
}

func kubernetesServer(timing Timing) server {
	return server{
		name: kubeapiserver.Name, object: rollout.Identity(deploymentKind, "", kubeapiserver.Name),
		keyName: kubeapiserver.EncryptionKeyName, labels: exposure.Labels(),
		timeout: timing.APIServer, served: apiserver.OfKubernetes,
		key: kubeapiserver.EncryptionKey, encrypted: kubeapiserver.EncryptedResources,
	}
}

func gardenerServer(timing Timing) server {
	return server{
		name: gardenerapiserver.Name, object: rollout.Identity(rollout.ManagedResource, "", gardenerapiserver.RuntimeManagedResource),
		keyName: gardenerapiserver.EncryptionKeyName, labels: gardenerapiserver.Labels(),
		timeout: timing.Gardener, served: apiserver.OfGardener,
		key: gardenerapiserver.EncryptionKey, encrypted: gardenerapiserver.EncryptedResources,
	}
}

// untilOrphansGone waits, while credentials are rotated, until an API server without a Deployment has no Pods. Such Pods use former
// credentials, and cannot read the objects that new Pods write. If there is a Deployment, untilOrphansGone does not wait.
func (n namespace) untilOrphansGone(ctx context.Context, of server, live *appsv1.Deployment) error {
	if live != nil {
		return nil
	}
	return n.untilNoOldPods(ctx, of)
}

// untilNoOldPods waits, while credentials are rotated, until no Pod of these API servers may use the former credentials. It does not wait
// for new Pods.
func (n namespace) untilNoOldPods(ctx context.Context, servers ...server) error {
	for _, each := range servers {
		check := func(ctx context.Context) error { return n.checkOldPods(ctx, each) }
		if err := n.Until(ctx, each.timeout, check, n.watchedRollout(each.name)...); err != nil {
			return err
		}
	}
	return nil
}

// checkOldPods returns an error with the Pods of an API server that may use former credentials, while credentials are rotated. If there is
// no Deployment, the error contains all Pods of the API server. Such Pods exist after a user or the deletion of a ManagedResource has
// deleted the Deployment, but not the Pods.
func (n namespace) checkOldPods(ctx context.Context, of server) error {
	if !n.changing {
		return nil
	}
	live, err := n.deployment(ctx, of.name)
	if err != nil {
		return err
	}
	pods, err := n.pods(ctx, of.name, of.labels)
	if err != nil {
		return err
	}
	if old := judgement.FormerPods(live, pods); old != "" {
		return fmt.Errorf("%s %s/%s: %s", deploymentKind.Kind, n.name, of.name, old)
	}
	return nil
}

// deployment deploys an API server.
type deployment struct {
	// apply deploys the server once. An annotation of the live Deployment shows whether its Pods know a new encryption key. The parameter
	// plain contains the encrypted resources that these Pods still write as plain text.
	apply func(ctx context.Context, key *corev1.Secret, live *appsv1.Deployment, plain []string) error
	// await waits until all Pods use the applied objects.
	await func(ctx context.Context) error
	// unmark removes annotations of the Deployment. Nil: apply does that.
	unmark func(ctx context.Context, annotations ...string) error
}

var errChanged = errors.New("another process has changed it")

// unlessChanged returns a rewriter that does not update the object of an API server if the specification of this object changes after the
// call. Two processes can prepare the same key. If one process was paused and the other process has written all objects with the new key,
// the paused process would let Pods write with the old key again.
func (r rewriter) unlessChanged(ctx context.Context, of server) (rewriter, error) {
	kind, name, before := of.object.GetKind(), of.object.GetName(), rollout.MetadataOf(of.object)
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: r.name, Name: name}, before)
	if client.IgnoreNotFound(err) != nil {
		return r, fmt.Errorf("read %s %s/%s: %w", kind, r.name, name, err)
	}
	r.Fence = r.Fence.And(func(_ context.Context, live *unstructured.Unstructured) error {
		if live.GetKind() != kind || live.GetName() != name || live.GetGeneration() == before.Generation {
			return nil
		}
		return apierrors.NewConflict(schema.GroupResource{Resource: kind}, name, errChanged)
	})
	r.installer.Cluster = r.Cluster
	return r, nil
}

// deployServer deploys an API server. The function as returns the functions for the deployment by a rewriter. If a rotation completes and
// the old encryption key is still needed, deployServer deploys the server with the old key, and returns the reason as an error. A new
// encryption key takes two deployments, because all Pods must be able to read with the key before one of them writes with it. A resource
// that was not encrypted before also takes two deployments.
func (r rewriter) deployServer(ctx context.Context, of server, as func(rewriter) deployment) error {
	key, err := r.secrets.Generate(ctx, of.key(r.values))
	if err != nil {
		return err
	}
	fenced, err := r.unlessChanged(ctx, of)
	if err != nil {
		return err
	}
	d := as(fenced)
	live, err := r.deployment(ctx, of.name)
	if err != nil {
		return err
	}
	if err = r.untilOldKeyUnneeded(ctx, of, live, key); err != nil {
		return errors.Join(err, r.keepingOldKey().deployServer(ctx, of, as))
	}
	err = r.untilOrphansGone(ctx, of, live)
	if err != nil {
		return err
	}
	outdated := apiserver.OutdatedMarks(r.values, live, key.Name)
	for _, each := range outdated {
		delete(live.Annotations, each)
	}
	plain, err := r.plainResources(ctx, live, of.encrypted(r.values))
	if err != nil {
		return err
	}
	addsKey := apiserver.AddsKey(r.values, live)
	err = d.apply(ctx, key, live, plain)
	if err != nil {
		return err
	}
	// The annotations are only removed now, after the deployment: if it fails, CheckNewKeyUsed must find them in the next attempt.
	if d.unmark != nil {
		err = d.unmark(ctx, outdated...)
		if err != nil {
			return err
		}
	}
	if !addsKey && len(plain) == 0 {
		return nil
	}
	err = d.await(ctx)
	if err != nil {
		return err
	}
	if fenced, err = r.unlessChanged(ctx, of); err != nil {
		return err
	}
	if live, err = r.deployment(ctx, of.name); err != nil {
		return err
	}
	if live == nil {
		return fmt.Errorf("the Deployment %s was deleted in the meantime", of.name)
	}
	if addsKey {
		metav1.SetMetaDataAnnotation(&live.ObjectMeta, apiserver.NewKeyPopulated, "true")
	}
	return as(fenced).apply(ctx, key, live, nil)
}
