package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	projectExample = "examples/project.yaml"
	projectName    = "cellar"
	coreVersion    = "core.gardener.cloud/v1beta1"
)

// The users of the example: all but the last are members of the project.
const (
	projectOwner  = "cellarer"
	projectMember = "cooper"
	projectViewer = "taster"
	stranger      = "passer-by"
)

// showProject shows the lifetime of a project: created, used by members and other users, stale, in use again, and deleted.
func (s settings) showProject(ctx context.Context, r *report, w world) error {
	r.step("projects: applying %s", projectExample)
	objects, err := readManifests(filepath.Join(s.root, projectExample))
	if err != nil {
		return err
	}
	wanted := objects[0]
	err = admitted(ctx, w.client, wanted)
	if err != nil {
		return err
	}
	err = apply(ctx, w.client, wanted)
	if err != nil {
		return err
	}
	project, err := ready(ctx, w.client)
	if err != nil {
		return err
	}
	namespace, _, _ := unstructured.NestedString(project.Object, "spec", "namespace")
	_, _ = fmt.Fprintf(r, "Project %s is Ready; its namespace is %s, its owner %s, its creator %s", projectName, namespace,
		subjectName(project, "owner"), subjectName(project, "createdBy"))
	for _, show := range []func(context.Context, *report, world, string) error{showMembers, showStaleness, showDeletion, showFallow} {
		if err := show(ctx, r, w, namespace); err != nil {
			return err
		}
	}
	return nil
}

// admitted waits until the API server calls the webhooks for projects. They record who has created a project.
func admitted(ctx context.Context, c client.Client, wanted *unstructured.Unstructured) error {
	return await(ctx, 60*time.Second, "the API server to call the webhooks", func(ctx context.Context) error {
		attempt := wanted.DeepCopy()
		attempt.SetName("try")
		if err := c.Create(ctx, attempt, client.DryRunAll); err != nil {
			return err
		}
		if subjectName(attempt, "createdBy") == "" {
			return errors.New("a project would be stored as it was sent")
		}
		return nil
	})
}

// ready waits until the project of the example is ready.
func ready(ctx context.Context, c client.Client) (*unstructured.Unstructured, error) {
	project := object(coreVersion, "Project", "", projectName, nil)
	return project, awaitProject(ctx, c, project, "to be ready", func() error {
		phase, _, _ := unstructured.NestedString(project.Object, "status", "phase")
		observed, _, _ := unstructured.NestedInt64(project.Object, "status", "observedGeneration")
		if phase != "Ready" || observed != project.GetGeneration() {
			return fmt.Errorf("generation %d is %s", observed, phase)
		}
		return nil
	})
}

// awaitProject reads the project until holds returns no error.
func awaitProject(ctx context.Context, c client.Client, project *unstructured.Unstructured, what string, holds func() error) error {
	return await(ctx, 60*time.Second, describe(project)+" "+what, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(project), project); err != nil {
			return err
		}
		return holds()
	})
}

func subjectName(project *unstructured.Unstructured, field string) string {
	name, _, _ := unstructured.NestedString(project.Object, "spec", field, "name")
	return name
}

// as returns a client that acts as a user of the cluster.
func (w world) as(user string) (client.Client, error) {
	config := rest.CopyConfig(w.admin)
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	return client.New(config, client.Options{})
}

// action is a request of a user.
type action struct {
	who, what string
	do        func(context.Context, client.Client) error
	// refusal is a part of the expected error; empty if the action must be allowed.
	refusal string
}

// Errors of the API server and the webhooks for actions that are not allowed.
const (
	noSecrets      = `cannot list resource "secrets"`
	noMembers      = `is not allowed to manage human users or groups in .spec.members`
	noOwner        = `is not allowed to manage owner in .spec.owner`
	noPatch        = `cannot patch resource "projects"`
	noProject      = `cannot get resource "projects"`
	noNamespace    = `you must delete the corresponding project "` + projectName + `"`
	noConfirmation = `must have a "confirmation.gardener.cloud/deletion" annotation to delete`
)

// showMembers shows which actions the members of the project may do, and which actions they and other users may not do.
func showMembers(ctx context.Context, r *report, w world, namespace string) error {
	note := func() *unstructured.Unstructured { return object("v1", "ConfigMap", namespace, "note", nil) }
	member, err := w.as(projectMember)
	if err != nil {
		return err
	}
	// The API server fills the roles of new members with a short delay.
	err = await(ctx, 30*time.Second, projectMember+" to become a member", func(ctx context.Context) error {
		return apply(ctx, member, note())
	})
	if err != nil {
		return err
	}
	project := func() *unstructured.Unstructured { return object(coreVersion, "Project", "", projectName, nil) }
	enrol := []byte(`[{"op":"add","path":"/spec/members/-","value":{"kind":"User","name":"` + stranger + `","role":"admin"}}]`)
	usurp := func(who string) []byte {
		return []byte(`[{"op":"replace","path":"/spec/owner/name","value":"` + who + `"}]`)
	}
	rows := [][]string{{"WHO", "TRIES TO", "AND IS"}}
	for _, each := range []action{
		{projectMember, "write a ConfigMap", func(ctx context.Context, c client.Client) error { return apply(ctx, c, note()) }, ""},
		{projectMember, "list Secrets", listOf("SecretList", namespace), ""},
		{projectMember, "add a member", patchBy(project(), enrol), noMembers},
		{projectMember, "become owner", patchBy(project(), usurp(projectMember)), noOwner},
		{projectViewer, "list ConfigMaps", listOf("ConfigMapList", namespace), ""},
		{projectViewer, "list Secrets", listOf("SecretList", namespace), noSecrets},
		{projectViewer, "become owner", patchBy(project(), usurp(projectViewer)), noPatch},
		{stranger, "read the project", func(ctx context.Context, c client.Client) error {
			p := project()
			return c.Get(ctx, client.ObjectKeyFromObject(p), p)
		}, noProject},
		{projectOwner, "add a member", patchBy(project(), enrol), ""},
		{stranger, "read the project now", func(ctx context.Context, c client.Client) error {
			p := project()
			return await(ctx, 10*time.Second, "the new member's role", func(ctx context.Context) error {
				return c.Get(ctx, client.ObjectKeyFromObject(p), p)
			})
		}, ""},
	} {
		answer, failure := attempt(ctx, w, each)
		if failure != nil {
			return failure
		}
		rows = append(rows, []string{each.who, each.what, answer})
	}
	r.step("projects: what its members, and others, may do")
	r.table(rows)
	answer, err := verdict(w.client.Delete(ctx, object("v1", "Namespace", "", namespace, nil)), noNamespace)
	if err != nil {
		return fmt.Errorf("an administrator deletes namespace %q: %w", namespace, err)
	}
	_, _ = fmt.Fprintf(r, "an administrator deletes its namespace: %s", answer)
	return nil
}

// attempt does an action and returns the answer of the API server.
func attempt(ctx context.Context, w world, a action) (string, error) {
	c, err := w.as(a.who)
	if err != nil {
		return "", err
	}
	answer, err := verdict(a.do(ctx, c), a.refusal)
	if err != nil {
		return "", fmt.Errorf("%s tries to %s: %w", a.who, a.what, err)
	}
	return answer, nil
}

// verdict describes an API server's answer. It returns an error unless the answer is the expected one: an error that contains refusal, or
// none if refusal is empty.
func verdict(answer error, refusal string) (string, error) {
	switch {
	case answer == nil && refusal == "":
		return "allowed", nil
	case answer == nil:
		return "", fmt.Errorf("it is allowed, and should be refused: %s", refusal)
	case refusal == "" || !errors.As(answer, new(apierrors.APIStatus)):
		return "", answer
	case !strings.Contains(answer.Error(), refusal):
		return "", fmt.Errorf("it is refused, but not as it should be (%s): %w", refusal, answer)
	default:
		return "refused: " + answer.Error(), nil
	}
}

func listOf(kind, namespace string) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion("v1")
		list.SetKind(kind)
		return c.List(ctx, list, client.InNamespace(namespace))
	}
}

func patchBy(o *unstructured.Unstructured, patch []byte) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		return c.Patch(ctx, o, client.RawPatch("application/json-patch+json", patch))
	}
}
