package managedresource

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/local"
)

const (
	// passingKinds is the number of kinds that are created and deleted, half of them at a time: each is new to the controller only once.
	passingKinds = 8
	passingGroup = "soak.example.com"
	// goneLimit is how long the deletion of a set or a kind may take.
	goneLimit = 2 * time.Minute
)

var customResourceDefinitions = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// churn changes the cluster. The number of objects stays the same on average, so that growth is caused by the controller. Sets are
// numbered: first those that are created and deleted, then the steady ones, then those with rollouts.
type churn struct {
	*bench
	soak
}

// actor makes one kind of change repeatedly.
type actor struct {
	name string
	// every is the pause between two changes.
	every time.Duration
	act   func(ctx context.Context, n int) error
	count int // written by run
}

func (c *churn) actors() []*actor {
	return []*actor{
		{name: "objects edited or deleted", every: time.Second, act: c.interfere},
		{name: "portions of foreign Secrets", every: time.Second, act: c.replaceSecrets},
		{name: "rollouts and losses of Pods", every: 4 * time.Second, act: c.roll},
		{name: "sets created, changed or deleted", every: 500 * time.Millisecond, act: c.changeSet},
		{name: "times that kinds came and went", every: time.Second, act: c.passKinds},
	}
}

// run repeats until the context ends, which is not an error.
func (a *actor) run(ctx context.Context) error {
	for n := 0; ctx.Err() == nil; n++ {
		err := a.act(ctx, n)
		switch {
		case err == nil:
			a.count++
			_ = local.Pause(ctx, a.every) // the loop checks the context
		case ctx.Err() == nil:
			return fmt.Errorf("%s: %w", a.name, err)
		}
	}
	return nil
}

// tally returns how many times each actor has acted.
func tally(actors []*actor) string {
	parts := make([]string, 0, len(actors))
	for _, a := range actors {
		parts = append(parts, fmt.Sprintf("%d %s", a.count, a.name))
	}
	return strings.Join(parts, ", ")
}

// begin creates the objects that stay.
func (c *churn) begin() {
	c.Parallel(c.steady+rolling, workers, func(i int) {
		items := itemsOf(oursRun, c.churned+i, objectsPerTemplate, dataBefore)
		if i >= c.steady {
			items = []item{rolledDeployment(c.churned+i, 2, "0")}
		}
		c.Check(c.createSetOf(c.Ctx, c.churned+i, items))
	})
	c.createForeignSecrets(c.soak.secrets)
	c.awaitAllApplied()
}

func (c *churn) createSetOf(ctx context.Context, set int, items []item) error {
	data, err := secretData(items)
	if err != nil {
		return err
	}
	return c.createSet(ctx, set, data)
}

// removeSet waits until it is gone.
func (c *churn) removeSet(ctx context.Context, set int) error {
	if err := c.removeObject(ctx, managedResources, sourceNamespace, setName(set)); err != nil {
		return err
	}
	return c.removeObject(ctx, secrets, sourceNamespace, setName(set))
}

// removeObject deletes an object, if it exists, and waits until it is gone.
func (c *churn) removeObject(ctx context.Context, resource schema.GroupVersionResource, namespace, name string) error {
	objects := c.source.objects.Resource(resource).Namespace(namespace)
	err := objects.Delete(ctx, name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete %s %s: %w", resource.Resource, name, err)
	}
	return local.Await(ctx, goneLimit, fmt.Sprintf("%s %s to be gone", resource.Resource, name), func(ctx context.Context) error {
		_, err := objects.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is still there"), err)
	})
}

// life is a step in the lifetime of a set that is created and deleted.
type life int

const (
	notYet life = iota
	created
	changed
	changedBack
	deleted
)

// lifeOf returns the next set and its step. Sets start one after the other, so that their number stays about the same.
func lifeOf(n, sets int) (set int, next life) {
	set = n % sets
	round := n/sets - set%4
	if round < 0 {
		return set, notYet
	}
	return set, []life{created, changed, changedBack, deleted}[round%4]
}

func (c *churn) changeSet(ctx context.Context, n int) error {
	set, next := lifeOf(n, c.churned)
	items := func(says string) []item { return itemsOf(oursRun, set, objectsPerTemplate, says) }
	switch next {
	case created:
		return c.createSetOf(ctx, set, items(dataBefore))
	case changed: // it loses some objects, too
		return c.setSecret(ctx, set, items(dataAfter)[3:])
	case changedBack:
		return c.setSecret(ctx, set, items(dataBefore))
	case deleted:
		return c.removeSet(ctx, set)
	default:
		return nil
	}
}

func (c *churn) setSecret(ctx context.Context, set int, items []item) error {
	data, err := secretData(items)
	if err != nil {
		return err
	}
	return c.patchSecret(ctx, sourceNamespace, set, data)
}

// interfere changes or deletes an object of a steady set.
func (c *churn) interfere(ctx context.Context, n int) error {
	i := itemOf(oursRun, c.churned+n%c.steady, n/c.steady%objectsPerTemplate, dataBefore)
	objects := c.target.objects.Resource(i.resource).Namespace(i.object.GetNamespace())
	var err error
	if n%3 != 0 {
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:null,"changed":"%d"}}}`, runLabel, n%7)
		_, err = objects.Patch(ctx, i.object.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: otherManager})
	} else {
		err = objects.Delete(ctx, i.object.GetName(), metav1.DeleteOptions{})
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("change %s: %w", describe(i.object), err)
	}
	return nil
}

// roll changes a Pod template, or deletes all Pods of a Deployment.
func (c *churn) roll(ctx context.Context, n int) error {
	set := c.churned + c.steady + n%rolling
	if n%3 != 2 {
		return c.setSecret(ctx, set, []item{rolledDeployment(set, 2, strconv.Itoa(n))})
	}
	all := c.target.objects.Resource(pods).Namespace(namespaceOf(oursRun, set))
	err := all.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("delete Pods: %w", err)
	}
	return nil
}

// passKinds lets a set create kinds with objects, and deletes it. Every second time the objects are removed first.
func (c *churn) passKinds(ctx context.Context, n int) error {
	const some = passingKinds / 2
	kinds, objects := make([]item, 0, some), make([]item, 0, 3*some)
	for i := range some {
		kind := passingKind(n%2*some + i)
		kinds, objects = append(kinds, item{customResourceDefinitions, kind.definition()}), append(objects, kind.items()...)
	}
	set := c.churned + c.steady + rolling // an additional one
	if err := c.createSetOf(ctx, set, slices.Concat(kinds, objects)); err != nil {
		return err
	}
	checksum, err := c.awaitApplied(ctx, set, "")
	if err != nil {
		return err
	}
	if n/2%2 == 1 {
		if err := c.setSecret(ctx, set, kinds); err != nil {
			return err
		}
		if _, err := c.awaitApplied(ctx, set, checksum); err != nil {
			return err
		}
	}
	return c.removeSet(ctx, set)
}

// awaitApplied waits until a set is applied with another checksum than before, and returns the new one.
func (c *churn) awaitApplied(ctx context.Context, set int, before string) (checksum string, err error) {
	sets := c.source.objects.Resource(managedResources).Namespace(sourceNamespace)
	err = local.Await(ctx, goneLimit, setName(set)+" to be applied", func(ctx context.Context) error {
		managedResource, failure := sets.Get(ctx, setName(set), metav1.GetOptions{})
		if failure != nil {
			return failure
		}
		if checksum = applied(managedResource.Object); checksum == "" || checksum == before {
			return fmt.Errorf("it is not: %v", managedResource.Object["status"])
		}
		return nil
	})
	return checksum, err
}

// replaceSecrets deletes the oldest portion of foreign Secrets and creates a new one.
func (c *churn) replaceSecrets(ctx context.Context, n int) error {
	portion := max(1, c.soak.secrets/100)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for i := range portion {
		group.Go(func() error {
			oldest := foreignSecret(n*portion + i)
			if err := client.IgnoreNotFound(c.source.Client.Delete(ctx, oldest)); err != nil {
				return fmt.Errorf("delete Secret %s/%s: %w", oldest.Namespace, oldest.Name, err)
			}
			return c.createForeignSecret(ctx, c.soak.secrets+n*portion+i)
		})
	}
	return group.Wait()
}

// passingKind is the number of a kind that is created and deleted.
type passingKind int

func (k passingKind) plural() string { return fmt.Sprintf("things%d", k) }
func (k passingKind) kind() string   { return fmt.Sprintf("Thing%d", k) }

func (k passingKind) resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: passingGroup, Version: "v1", Resource: k.plural()}
}

func (k passingKind) definition() *unstructured.Unstructured {
	name := k.plural() + "." + passingGroup
	return local.NewObject("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", name, map[string]any{"spec": map[string]any{
		"group": passingGroup, "scope": "Namespaced",
		"names": map[string]any{"plural": k.plural(), "singular": strings.ToLower(k.kind()), "kind": k.kind(), "listKind": k.kind() + "List"},
		"versions": []any{map[string]any{
			"name": "v1", "served": true, "storage": true,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
		}},
	}})
}

func (k passingKind) items() []item {
	items := make([]item, 0, 3)
	for i := range cap(items) {
		content := map[string]any{"spec": map[string]any{"text": base64.StdEncoding.EncodeToString([]byte(strings.Repeat("soak ", 20)))}}
		thing := local.NewObject(passingGroup+"/v1", k.kind(), namespaceOf(oursRun, 0), fmt.Sprintf("thing-%d", i), content)
		items = append(items, item{k.resource(), thing})
	}
	return items
}
