package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// bareSets is the namespace of the sets in which the bare client changes an object. No controller serves their class.
const bareSets = "bench-bare-sets"

// bareSetClass excludes those sets from the controller.
const bareSetClass = "bench-floor"

// changeFloor measures the minimum cost, for any controller, of a change of one object in every set: the Secret is changed in the same way,
// and then the bare client reads it, reads and replaces the ConfigMap, and writes the status of the set.
func (b *bench) changeFloor(ctx context.Context, f *figures) error {
	data, err := b.secretsData(dataBefore)
	if err != nil {
		return err
	}
	if err = b.createBareSets(ctx, data); err != nil {
		return fmt.Errorf("prepare change of bare client: %w", err)
	}
	if data, err = b.secretsData(dataAfter); err != nil {
		return err
	}
	if err := b.settle(ctx); err != nil {
		return err
	}
	begin := b.report.clock.Now()
	if err := parallel(ctx, b.size.sets, func(ctx context.Context, set int) error { return b.changeBareSet(ctx, set, data[set]) }); err != nil {
		return fmt.Errorf("measure change of bare client: %w", err)
	}
	took := b.report.clock.Since(begin)
	f.updateFloors = append(f.updateFloors, took)
	b.report.step("floor: a bare client changed one object in every set in %s", seconds(took))
	return b.removeBareSets(ctx)
}

// createBareSets creates only the objects that are changed.
func (b *bench) createBareSets(ctx context.Context, data [][]byte) error {
	return parallel(ctx, b.size.sets, func(ctx context.Context, set int) error {
		secret, managedResource := setOf(set, data[set])
		if err := unstructured.SetNestedField(managedResource.Object, bareSetClass, "spec", "class"); err != nil {
			return err
		}
		for _, each := range []item{{secrets, secret}, {managedResources, managedResource}} {
			each.object.SetNamespace(bareSets)
			if err := create(ctx, b.source.bare, each); err != nil {
				return err
			}
		}
		return create(ctx, b.target.bare, itemOf(floorRun, set, changingConfigMap, dataBefore))
	})
}

func (b *bench) removeBareSets(ctx context.Context) error {
	return parallel(ctx, b.size.sets, func(ctx context.Context, set int) error {
		object := itemOf(floorRun, set, changingConfigMap, "")
		err := b.target.bare.Resource(configMaps).Namespace(object.object.GetNamespace()).Delete(ctx, object.object.GetName(), metav1.DeleteOptions{})
		if err != nil {
			return err
		}
		if err := b.source.bare.Resource(managedResources).Namespace(bareSets).Delete(ctx, setName(set), metav1.DeleteOptions{}); err != nil {
			return err
		}
		return b.source.bare.Resource(secrets).Namespace(bareSets).Delete(ctx, setName(set), metav1.DeleteOptions{})
	})
}

func (b *bench) changeBareSet(ctx context.Context, set int, data []byte) error {
	if err := b.patchSecret(ctx, bareSets, set, data); err != nil {
		return err
	}
	if _, err := b.source.bare.Resource(secrets).Namespace(bareSets).Get(ctx, setName(set), metav1.GetOptions{}); err != nil {
		return err
	}
	wanted := itemOf(floorRun, set, changingConfigMap, dataAfter).object
	c := b.target.bare.Resource(configMaps).Namespace(wanted.GetNamespace())
	live, err := c.Get(ctx, wanted.GetName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	live.Object["data"] = wanted.Object["data"]
	if _, err = c.Update(ctx, live, metav1.UpdateOptions{}); err != nil {
		return err
	}
	status := fmt.Sprintf(`{"status":{"secretsDataChecksum":%q}}`, b.report.clock.Now().Format(time.RFC3339Nano))
	_, err = b.source.bare.Resource(managedResources).Namespace(bareSets).
		Patch(ctx, setName(set), types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status")
	return err
}
