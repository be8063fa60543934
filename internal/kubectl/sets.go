package kubectl

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/health"
	"github.com/espalier-dev/espalier/internal/kubectl/view"
)

// parallelReads limits how many objects are read at once.
const parallelReads = 8

func (p *program) status() *cobra.Command {
	command := &cobra.Command{
		Use: "status [SET]", Short: "List sets with their state, age and problem", Args: cobra.MaximumNArgs(1), ValidArgsFunction: p.completeSet,
		RunE: func(c *cobra.Command, args []string) error {
			source, err := p.source()
			if err != nil {
				return err
			}
			if len(args) == 1 {
				mr, err := source.set(c.Context(), args[0])
				if err != nil {
					return err
				}
				return p.print(view.Sets{Sets: []view.Set{view.SetOf(mr)}})
			}
			list := &resourcesv1alpha1.ManagedResourceList{}
			if err := source.List(c.Context(), list, client.InNamespace(p.scope(source))); err != nil {
				return explain("list ManagedResources", err)
			}
			answer := view.Sets{Sets: make([]view.Set, 0, len(list.Items))}
			for i := range list.Items {
				answer.Sets = append(answer.Sets, view.SetOf(&list.Items[i]))
			}
			return p.print(answer)
		},
	}
	p.addAllNamespaces(command)
	return command
}

func (p *program) addAllNamespaces(command *cobra.Command) {
	command.Flags().BoolVarP(&p.allNamespaces, "all-namespaces", "A", false, "list the sets of all namespaces")
}

// scope returns the namespace to list; empty for all.
func (p *program) scope(source *cluster) string {
	if p.allNamespaces {
		return ""
	}
	return source.namespace
}

// completeSet completes the name of a set.
func (p *program) completeSet(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	source, err := p.source()
	list := &resourcesv1alpha1.ManagedResourceList{}
	if len(args) > 0 || err != nil || source.List(c.Context(), list, client.InNamespace(source.namespace)) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// aboutSet returns a command with the name of a set as argument.
func (p *program) aboutSet(
	use, short string, answer func(context.Context, *cluster, *resourcesv1alpha1.ManagedResource) (view.Answer, error),
) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1), ValidArgsFunction: p.completeSet,
		RunE: func(c *cobra.Command, args []string) error {
			source, mr, err := p.find(c.Context(), args[0])
			if err != nil {
				return err
			}
			said, err := answer(c.Context(), source, mr)
			if err != nil {
				return err
			}
			return p.print(said)
		},
	}
}

// find connects to the cluster, and reads a set.
func (p *program) find(ctx context.Context, name string) (*cluster, *resourcesv1alpha1.ManagedResource, error) {
	source, err := p.source()
	if err != nil {
		return nil, nil, err
	}
	mr, err := source.set(ctx, name)
	return source, mr, err
}

func (p *program) tree() *cobra.Command {
	return p.aboutSet("tree SET", "List the objects of a set with their health and progress, and the effect of its deletion",
		func(ctx context.Context, source *cluster, mr *resourcesv1alpha1.ManagedResource) (view.Answer, error) {
			target, err := p.target(source)
			if err != nil {
				return nil, err
			}
			facts := &view.Facts{}
			if err := source.readSets(ctx, facts); err != nil {
				return nil, err
			}
			return view.TreeOf(mr, target.observe(ctx, mr.Status.Resources), facts.Sets, facts.Remarks), nil
		})
}

// observe reads objects. An object that cannot be read does not prevent the others.
func (c *cluster) observe(ctx context.Context, refs []resourcesv1alpha1.ObjectReference) []view.Observed {
	observed := make([]view.Observed, len(refs))
	group := errgroup.Group{}
	group.SetLimit(parallelReads)
	for i := range refs {
		group.Go(func() error {
			observed[i] = c.observeOne(ctx, refs[i])
			return nil
		})
	}
	_ = group.Wait() // no function returns an error
	return observed
}

// The kinds of Kubernetes with a health rule, and other usual kinds of sets.
//
// +kubebuilder:rbac:groups="",resources=configmaps;namespaces;pods;replicationcontrollers;serviceaccounts;services,verbs=get
// +kubebuilder:rbac:groups=apps,resources=daemonsets;deployments;replicasets;statefulsets,verbs=get
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get

// observeOne reads an object: as a whole if its kind has a health rule, otherwise only its metadata.
func (c *cluster) observeOne(ctx context.Context, ref resourcesv1alpha1.ObjectReference) view.Observed {
	key := client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
	if !health.HasRule(ref.GroupVersionKind().GroupKind()) {
		live, unreadable := c.metadata(ctx, ref.GroupVersionKind(), key)
		if live == nil {
			return view.Observed{Missing: unreadable == "", Unreadable: unreadable}
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
		if err != nil {
			return view.Observed{Unreadable: err.Error()}
		}
		return view.Observed{Object: &unstructured.Unstructured{Object: content}}
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(ref.GroupVersionKind())
	if err := c.Get(ctx, key, live); err != nil {
		reason := unreadable(err)
		return view.Observed{Missing: reason == "", Unreadable: reason}
	}
	return view.Observed{Object: live}
}

// metadata reads the metadata of an object. It returns nil if the object does not exist, or cannot be read for the returned reason.
func (c *cluster) metadata(
	ctx context.Context, kind schema.GroupVersionKind, key client.ObjectKey,
) (live *metav1.PartialObjectMetadata, reason string) {
	live = &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(kind)
	if err := c.Get(ctx, key, live); err != nil {
		return nil, unreadable(err)
	}
	return live, ""
}

// unreadable says why an object cannot be read; empty if it does not exist.
func unreadable(err error) string {
	switch {
	case apierrors.IsNotFound(err):
		return ""
	case apierrors.IsForbidden(err):
		return "you may not read it"
	case meta.IsNoMatchError(err):
		return "the target cluster does not serve its kind"
	}
	return err.Error()
}

func (p *program) plan() *cobra.Command {
	return p.aboutSet("plan SET", "Print the published plan of a set that is only planned",
		func(ctx context.Context, source *cluster, mr *resourcesv1alpha1.ManagedResource) (view.Answer, error) {
			return source.requiredPlan(ctx, mr)
		})
}

// requiredPlan reads the plan of a set. It fails if the set has none.
func (c *cluster) requiredPlan(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) (*view.Plan, error) {
	plan, err := c.published(ctx, mr)
	if err == nil && plan == nil {
		err = fmt.Errorf("ManagedResource %s/%s has no annotation %s, so it has no plan: the annotation %s=true requests one, and the "+
			"set is not applied while it has the annotation; for a file, see managedresource-controller diff --help",
			mr.Namespace, mr.Name, resourcesv1alpha1.Planned, resourcesv1alpha1.Plan)
	}
	return plan, err
}

// published reads the plan of a set; nil if the set has none.
func (c *cluster) published(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) (*view.Plan, error) {
	key := client.ObjectKey{Namespace: mr.Namespace, Name: mr.Annotations[resourcesv1alpha1.Planned]}
	if key.Name == "" {
		return nil, nil
	}
	published := &corev1.ConfigMap{}
	if err := c.Get(ctx, key, published); err != nil {
		return nil, explain("read plan in ConfigMap "+key.String(), err)
	}
	return view.PlanOf(published)
}

func (p *program) events() *cobra.Command {
	command := &cobra.Command{
		Use: "events [SET]", Short: "List the Events about sets, the latest last", Args: cobra.MaximumNArgs(1), ValidArgsFunction: p.completeSet,
		RunE: func(c *cobra.Command, args []string) error {
			source, err := p.source()
			if err != nil {
				return err
			}
			namespace, name := p.scope(source), ""
			if len(args) == 1 {
				var mr *resourcesv1alpha1.ManagedResource
				if mr, err = source.set(c.Context(), args[0]); err != nil {
					return err
				}
				namespace, name = mr.Namespace, mr.Name
			}
			events, err := source.eventsAbout(c.Context(), namespace, name)
			if err != nil {
				return err
			}
			return p.print(view.EventsOf(events))
		},
	}
	p.addAllNamespaces(command)
	return command
}

func (p *program) history() *cobra.Command {
	return p.aboutSet("history SET", "Print what happened to a set, as a timeline",
		func(ctx context.Context, source *cluster, mr *resourcesv1alpha1.ManagedResource) (view.Answer, error) {
			events, err := source.eventsAbout(ctx, mr.Namespace, mr.Name)
			if err != nil {
				return nil, err
			}
			var secrets []metav1.PartialObjectMetadata
			var remarks []string
			for _, ref := range mr.Spec.SecretRefs {
				live, reason := source.metadata(ctx, corev1.SchemeGroupVersion.WithKind("Secret"),
					client.ObjectKey{Namespace: mr.Namespace, Name: ref.Name})
				switch {
				case live != nil:
					secrets = append(secrets, *live)
				case reason == "":
					remarks = append(remarks, fmt.Sprintf("Secret %s: it does not exist", ref.Name))
				default:
					remarks = append(remarks, fmt.Sprintf("times of changes of Secret %s: %s", ref.Name, strings.TrimSpace(reason)))
				}
			}
			return view.HistoryOf(mr, secrets, events, remarks), nil
		})
}
