package managedresource

import (
	"context"
	_ "embed" // for the manifests
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/api/managedresources"
	"github.com/espalier-dev/espalier/test/local"
)

const (
	// passingKinds is the number of kinds that are created and deleted, half of them at a time. Each is new to the controller only the first
	// time.
	passingKinds = 8
	// goneLimit is how long the deletion of a set or a kind may take.
	goneLimit = 2 * time.Minute
)

// churn changes the cluster. The number of objects stays the same on average, so that only the controller can cause growth of its memory.
// Sets are numbered: first the sets that are created and deleted, then the sets that stay, then the sets with rollouts.
type churn struct {
	*bench
	soak
}

// actor makes one kind of change repeatedly.
type actor struct {
	name string
	// every is the pause between two changes.
	every time.Duration
	act   func(n int)
}

func (c *churn) actors() []actor {
	return []actor{
		{"objects edited or deleted", time.Second, c.interfere},
		{"portions of foreign Secrets", time.Second, c.replaceSecrets},
		{"rollouts and losses of Pods", 4 * time.Second, c.roll},
		{"sets created, changed or deleted", 500 * time.Millisecond, c.changeSet},
		{"times that kinds came and went", time.Second, c.passKinds},
	}
}

// repeat makes the changes of an actor until length has passed, and returns their number.
func (b *bench) repeat(length time.Duration, a actor) (n int) {
	for begin := time.Now(); time.Since(begin) < length; n++ {
		a.act(n)
		b.Pause(a.every)
	}
	return n
}

// begin creates the sets that stay during the whole measurement.
func (c *churn) begin() {
	c.Parallel(c.steady+rolling, workers, func(i int) {
		items := itemsOf(oursRun, c.churned+i, objectsPerTemplate, dataBefore)
		if i >= c.steady {
			items = []*unstructured.Unstructured{rolledDeployment(c.churned+i, 2, "0")}
		}
		c.createSet(c.churned+i, items...)
	})
	c.createForeignSecrets(c.soak.secrets)
	c.awaitAllApplied()
}

// removeSet deletes a set and waits until it no longer exists.
func (c *churn) removeSet(set int) {
	secret, managedResource := setOf(sourceNamespace, set, nil)
	for _, each := range []client.Object{managedResource, secret} {
		c.Check(client.IgnoreNotFound(c.source.Client.Delete(c.Ctx, each)))
		c.Await(goneLimit, setName(set)+" to be gone", func(ctx context.Context) error {
			err := c.source.Client.Get(ctx, client.ObjectKeyFromObject(each), each)
			if apierrors.IsNotFound(err) {
				return nil
			}
			return errors.Join(errors.New("it is still there"), err)
		})
	}
}

// life is a step in the lifetime of a set that is created and deleted. A value less than created means that the set does not exist yet.
type life int

const (
	created life = iota
	changed
	changedBack
	deleted
)

// lifeOf returns, for the n-th change, the set to change and its next step. The sets begin their lives one after the other, so that the
// number of existing sets stays about the same.
func lifeOf(n, sets int) (set int, next life) {
	set = n % sets
	return set, life((n/sets - set%4) % 4)
}

func (c *churn) changeSet(n int) {
	set, next := lifeOf(n, c.churned)
	items := func(says string) []*unstructured.Unstructured { return itemsOf(oursRun, set, objectsPerTemplate, says) }
	switch next {
	case created:
		c.createSet(set, items(dataBefore)...)
	case changed: // the set also loses some objects
		c.setSecret(set, items(dataAfter)[3:]...)
	case changedBack:
		c.setSecret(set, items(dataBefore)...)
	case deleted:
		c.removeSet(set)
	}
}

func (c *churn) setSecret(set int, items ...*unstructured.Unstructured) {
	c.patchSecret(sourceNamespace, set, secretData(items))
}

// interfere changes or deletes an object of a steady set.
func (c *churn) interfere(n int) {
	o := itemOf(oursRun, c.churned+n%c.steady, n/c.steady%objectsPerTemplate, dataBefore)
	if n%3 == 0 {
		c.Check(client.IgnoreNotFound(c.target.Client.Delete(c.Ctx, o)))
		return
	}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:null,"changed":"%d"}}}`, runLabel, n%7)
	err := c.target.Client.Patch(c.Ctx, o, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(otherManager))
	c.Check(client.IgnoreNotFound(err))
}

// roll changes a Pod template, or deletes all Pods of a Deployment.
func (c *churn) roll(n int) {
	set := c.churned + c.steady + n%rolling
	if n%3 != 2 {
		c.setSecret(set, rolledDeployment(set, 2, strconv.Itoa(n)))
		return
	}
	c.Check(c.target.Client.DeleteAllOf(c.Ctx, &corev1.Pod{}, client.InNamespace(namespaceOf(oursRun, set))))
}

// passKinds creates a set with CustomResourceDefinitions and objects of their kinds, and deletes it. Two times out of four, the objects are
// removed from the set first.
func (c *churn) passKinds(n int) {
	const some = passingKinds / 2
	kinds, objects := make([]*unstructured.Unstructured, 0, some), make([]*unstructured.Unstructured, 0, 3*some)
	for i := range some {
		all := passingKind(n%2*some + i)
		kinds, objects = append(kinds, all[0]), append(objects, all[1:]...)
	}
	set := c.churned + c.steady + rolling // an additional set
	c.createSet(set, slices.Concat(kinds, objects)...)
	checksum := c.awaitApplied(set, "")
	if n/2%2 == 1 {
		c.setSecret(set, kinds...)
		c.awaitApplied(set, checksum)
	}
	c.removeSet(set)
}

// awaitApplied waits until a set is applied with another checksum than before, and returns the new one.
func (c *churn) awaitApplied(set int, before string) (checksum string) {
	_, managedResource := setOf(sourceNamespace, set, nil)
	c.Await(goneLimit, setName(set)+" to be applied", func(ctx context.Context) error {
		if err := c.source.Client.Get(ctx, client.ObjectKeyFromObject(managedResource), managedResource); err != nil {
			return err
		}
		if checksum = applied(managedResource); checksum == "" || checksum == before {
			return errors.Join(errors.New("it is not, or not with other data"), managedresources.CheckApplied(managedResource))
		}
		return nil
	})
	return checksum
}

// replaceSecrets deletes the oldest portion of foreign Secrets and creates a new one.
func (c *churn) replaceSecrets(n int) {
	portion := max(1, c.soak.secrets/100)
	c.Parallel(portion, workers, func(i int) {
		c.Check(client.IgnoreNotFound(c.source.Client.Delete(c.Ctx, foreignSecret(n*portion+i))))
		c.createForeignSecret(c.soak.secrets + n*portion + i)
	})
}

//go:embed passing.yaml
var passingManifests string

// passingKind returns the definition of a kind that is created and deleted, and then its objects. The manifests are valid, as a test shows.
func passingKind(number int) []*unstructured.Unstructured {
	variables := strings.NewReplacer("$NUMBER", strconv.Itoa(number), "$NAMESPACE", namespaceOf(oursRun, 0))
	all, _ := local.ParseManifests([]byte(variables.Replace(passingManifests)))
	return all
}
