package kubectl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kubectl/view"
)

func (p *program) why() *cobra.Command {
	return &cobra.Command{
		Use: "why KIND NAME", Aliases: []string{"trace"}, Args: cobra.RangeArgs(1, 2),
		Short: "Explain an object: which set has it, who changed it, and what happens to changes",
		RunE: func(c *cobra.Command, args []string) error {
			kind, name, found := strings.Cut(strings.Join(args, "/"), "/")
			if !found || strings.Contains(name, "/") {
				return errors.New("want KIND NAME or KIND/NAME, as in: why configmap settings; --namespace names the namespace of the object")
			}
			source, err := p.source()
			if err != nil {
				return err
			}
			target, err := p.target(source)
			if err != nil {
				return err
			}
			facts, err := investigate(c.Context(), source, target, kind, name)
			if err != nil {
				return err
			}
			return p.print(view.WhyOf(facts))
		},
	}
}

// investigate reads the facts about an object.
func investigate(ctx context.Context, source, target *cluster, kindArgument, name string) (*view.Facts, error) {
	kind, mapping, err := target.kind(kindArgument)
	if err != nil {
		return nil, err
	}
	key := client.ObjectKey{Name: name}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		key.Namespace = target.namespace
	}
	version, short := kind.ToAPIVersionAndKind()
	facts := &view.Facts{Object: view.ID{APIVersion: version, Kind: short, Namespace: key.Namespace, Name: key.Name}}
	facts.Live, facts.Unreadable = target.metadata(ctx, kind, key)
	err = source.readSets(ctx, facts)
	if err != nil {
		return nil, err
	}
	owner := facts.Owner()
	if owner == nil {
		return facts, nil
	}
	remark := func(err error) {
		if err != nil {
			facts.Remarks = append(facts.Remarks, err.Error())
		}
	}
	facts.Events, err = source.eventsAbout(ctx, owner.Namespace, owner.Name)
	remark(err)
	facts.Plan, err = source.published(ctx, owner)
	remark(err)
	return facts, nil
}

// readSets reads all sets that the user may read. If the user may not list sets in all namespaces, readSets reads the sets of the
// namespace of the command line, and the set that the annotation of the object names.
func (c *cluster) readSets(ctx context.Context, facts *view.Facts) error {
	list := &resourcesv1alpha1.ManagedResourceList{}
	err := c.List(ctx, list)
	if apierrors.IsForbidden(err) {
		facts.Remarks = append(facts.Remarks, fmt.Sprintf("sets of namespaces other than %s: you may not list them", c.namespace))
		err = c.List(ctx, list, client.InNamespace(c.namespace))
	}
	if err != nil && !apierrors.IsForbidden(err) {
		return explain("list ManagedResources", err)
	}
	facts.Sets = list.Items
	if facts.Live == nil {
		return nil
	}
	origin, err := resourcesv1alpha1.ParseOrigin(facts.Live.Annotations[resourcesv1alpha1.OriginAnnotation])
	if err != nil || slices.ContainsFunc(facts.Sets, func(mr resourcesv1alpha1.ManagedResource) bool {
		return mr.Namespace == origin.Namespace && mr.Name == origin.Name
	}) {
		return nil //nolint:nilerr // an object without a valid annotation names no set
	}
	mr := &resourcesv1alpha1.ManagedResource{}
	switch err := c.Get(ctx, client.ObjectKey{Namespace: origin.Namespace, Name: origin.Name}, mr); {
	case err == nil:
		facts.Sets = append(facts.Sets, *mr)
	case !apierrors.IsNotFound(err):
		facts.Remarks = append(facts.Remarks, explain("read ManagedResource "+origin.String(), err).Error())
	}
	return nil
}
