package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The example's Shoot is only an object: there is no controller that creates a cluster for it.
const shootName = "barrel"

// showStaleness makes the project appear unused for two days, and then uses it again.
func showStaleness(ctx context.Context, r *report, w world, _ string) error {
	r.step("projects: nothing in its namespace uses it, so it becomes stale")
	project := object(coreVersion, "Project", "", projectName, nil)
	err := awaitProject(ctx, w.client, project, "to be stale", func() error {
		if staleTime(project, "staleSinceTimestamp") == "" {
			return errors.New("it is not yet")
		}
		return nil
	})
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(r, "it is stale since %s", staleTime(project, "staleSinceTimestamp"))
	before := r.clock.Now().Add(-48 * time.Hour).UTC().Format(time.RFC3339)
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"staleSinceTimestamp":"`+before+`"}}`))
	err = w.client.Status().Patch(ctx, project, patch)
	if err != nil {
		return fmt.Errorf("backdate %s: %w", describe(project), err)
	}
	err = awaitProject(ctx, w.client, project, "to get a date", func() error {
		if staleTime(project, "staleAutoDeleteTimestamp") == "" {
			return errors.New("it has none yet")
		}
		return nil
	})
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(r, "had that been at %s, it would be deleted at %s", before, staleTime(project, "staleAutoDeleteTimestamp"))
	return showForecast(ctx, r, w.client, staleTime(project, "staleAutoDeleteTimestamp"))
}

// showForecast shows the Events about a date.
func showForecast(ctx context.Context, r *report, c client.Client, date string) error {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("v1")
	list.SetKind("EventList")
	return await(ctx, 30*time.Second, "an Event about the deletion", func(ctx context.Context) error {
		if err := c.List(ctx, list, client.InNamespace("default"), client.MatchingFields{
			"involvedObject.name": projectName, "reason": "DeletionForecast",
		}); err != nil {
			return err
		}
		for _, event := range list.Items {
			if message, _, _ := unstructured.NestedString(event.Object, "message"); strings.Contains(message, date) {
				_, _ = fmt.Fprintf(r, "Event DeletionForecast: %s", message)
				return nil
			}
		}
		return errors.New("there is none")
	})
}

// showFallow shows the deletion of a project whose deletion date has passed; the status is backdated.
func showFallow(ctx context.Context, r *report, w world, _ string) error {
	r.step("projects: one that nobody uses, of which the date of deletion has come, as it was announced")
	fallow := object(coreVersion, "Project", "", "fallow", map[string]any{"spec": map[string]any{}})
	err := apply(ctx, w.client, fallow.DeepCopy())
	if err != nil {
		return err
	}
	err = awaitProject(ctx, w.client, fallow, "to be stale", func() error {
		if staleTime(fallow, "staleSinceTimestamp") == "" {
			return errors.New("it is not yet")
		}
		return nil
	})
	if err != nil {
		return err
	}
	at := func(ago time.Duration) string { return r.clock.Now().Add(-ago).UTC().Format(time.RFC3339) }
	dates := `{"status":{"staleSinceTimestamp":"` + at(96*time.Hour) + `","staleAutoDeleteTimestamp":"` + at(24*time.Hour) + `"}}`
	err = w.client.Status().Patch(ctx, fallow, client.RawPatch("application/merge-patch+json", []byte(dates)))
	if err != nil {
		return fmt.Errorf("backdate %s: %w", describe(fallow), err)
	}
	begin := r.clock.Now()
	if err := gone(ctx, w.client, fallow); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(r, "the controller has deleted it, with its namespace, after %s", r.clock.Since(begin).Round(10*time.Millisecond))
	return nil
}

func staleTime(project *unstructured.Unstructured, field string) string {
	at, _, _ := unstructured.NestedString(project.Object, "status", field)
	return at
}

// showDeletion uses the project, and deletes it.
func showDeletion(ctx context.Context, r *report, w world, namespace string) error {
	project := object(coreVersion, "Project", "", projectName, nil)
	shoot := object(coreVersion, "Shoot", namespace, shootName, map[string]any{"spec": map[string]any{}})
	owner, err := w.as(projectOwner)
	if err != nil {
		return err
	}
	err = await(ctx, time.Minute, describe(shoot)+" to be taken", func(ctx context.Context) error {
		return apply(ctx, owner, shoot.DeepCopy())
	})
	if err != nil {
		return err
	}
	err = awaitProject(ctx, w.client, project, "to be in use", func() error {
		if at := staleTime(project, "staleSinceTimestamp"); at != "" {
			return fmt.Errorf("it is stale since %s", at)
		}
		return nil
	})
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(r, "%s creates a Shoot: it is in use, and will not be deleted", projectOwner)

	r.step("projects: deleting it")
	answer, err := verdict(owner.Delete(ctx, project.DeepCopy()), noConfirmation)
	if err != nil {
		return fmt.Errorf("%s deletes it unconfirmed: %w", projectOwner, err)
	}
	_, _ = fmt.Fprintf(r, "%s deletes it: %s", projectOwner, answer)
	confirm := client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"confirmation.gardener.cloud/deletion":"true"}}}`))
	err = owner.Patch(ctx, project.DeepCopy(), confirm)
	if err != nil {
		return fmt.Errorf("confirm deletion of %s: %w", describe(project), err)
	}
	err = owner.Delete(ctx, project.DeepCopy())
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(r, "%s confirms and deletes it: allowed", projectOwner)
	return showEnd(ctx, r, owner, w.client, project, shoot)
}

// showEnd waits for the deletion, which the Shoot delays.
func showEnd(ctx context.Context, r *report, owner, admin client.Client, project, shoot *unstructured.Unstructured) error {
	err := awaitProject(ctx, admin, project, "to be terminating", func() error {
		if phase, _, _ := unstructured.NestedString(project.Object, "status", "phase"); phase != "Terminating" {
			return fmt.Errorf("it is %s", phase)
		}
		return nil
	})
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(r, "it is Terminating as long as it has a Shoot")
	err = owner.Delete(ctx, shoot)
	if err != nil {
		return err
	}
	begin := r.clock.Now()
	for _, o := range []*unstructured.Unstructured{object("v1", "Namespace", "", shoot.GetNamespace(), nil), project} {
		if err := gone(ctx, admin, o); err != nil {
			return err
		}
	}
	_, _ = fmt.Fprintf(r, "%s deletes the Shoot: namespace and project are gone after %s", projectOwner,
		r.clock.Since(begin).Round(10*time.Millisecond))
	return nil
}

func gone(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
	return await(ctx, 60*time.Second, describe(o)+" to be gone", func(ctx context.Context) error {
		err := c.Get(ctx, client.ObjectKeyFromObject(o), o)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return errors.New("it is there")
	})
}
