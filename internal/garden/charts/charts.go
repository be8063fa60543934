// Package charts pulls, renders and checks the charts that objects of users name: Extensions, and Gardenlets of the virtual cluster.
package charts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/chart"
	"github.com/espalier-dev/espalier/internal/garden/extension/rules"
	"github.com/espalier-dev/espalier/internal/process"
)

// Charts pulls, renders and checks charts. All fields are required.
type Charts struct {
	// Reader reads Secrets and ConfigMaps live.
	Reader client.Reader
	// Namespace is the namespace of these Secrets and ConfigMaps.
	Namespace string
	// Sandbox renders.
	Sandbox chart.Sandbox
	// Kept are the charts that were pulled last.
	Kept *chart.Cache
}

// New returns Charts with the default sandbox.
func New(reader client.Reader, namespace string) Charts {
	return Charts{Reader: reader, Namespace: namespace, Sandbox: chart.NewSandbox(), Kept: chart.NewCache(maxCharts)}
}

// Renderer returns the subcommand of the child processes of the sandbox.
func Renderer() process.Subcommand {
	return process.Subcommand{Name: chart.ChildArgument, Run: chart.Child}
}

// maxCharts is the limit of the number of charts in memory, each of at most chart.MaxArchive bytes.
const maxCharts = 16

// Source is a chart, with the inputs of its rendering.
type Source struct {
	Helm *operatorv1alpha1.ExtensionHelm
	// Field is the path of Helm in the object of the user.
	Field string
	// Digest is the digest to which the reference of the chart was resolved before; "": it is resolved now.
	Digest  string
	Values  chart.Values
	Release chart.Release
	Policy  chart.Policy
	// Remedy ends the error of a chart that the policy does not allow: the change that helps.
	Remedy string
}

// Rendered is a rendered chart that its policy allows.
type Rendered struct {
	Manifests chart.Manifests
	Dropped   []chart.Dropped
	// Reference is the reference of the chart, "" for a raw chart. Digest is the digest of its content.
	Reference, Digest string
}

// NoEffect returns the parts of charts without effect as the end of a sentence, "" if there are none.
func NoEffect(dropped []chart.Dropped) string {
	if len(dropped) == 0 {
		return ""
	}
	parts := make([]string, 0, len(dropped))
	for _, each := range dropped {
		parts = append(parts, each.String())
	}
	slices.Sort(parts)
	return "; parts of the charts have no effect: " + strings.Join(slices.Compact(parts), ", ")
}

// Mistake is an error that stays until the user changes the object, its charts, or the configuration of the operator.
type Mistake struct{ error } //nolint:errname // the name says who can help

func (m Mistake) Unwrap() error { return m.error }

// Mistakef returns a Mistake with a formatted text.
func Mistakef(format string, args ...any) error { return Mistake{fmt.Errorf(format, args...)} }

// MistakeOf returns an error as a Mistake.
func MistakeOf(err error) error { return Mistake{err} }

// Outcome joins the errors of a run. The result is a terminal error if all of them are Mistakes: then only a change by the user triggers
// the next run.
func Outcome(failures ...error) error {
	if len(failures) == 0 {
		return nil
	}
	for _, each := range failures {
		if _, isMistake := errors.AsType[Mistake](each); !isMistake {
			return errors.Join(failures...)
		}
	}
	return reconcile.TerminalError(errors.Join(failures...))
}

// Render returns a rendered chart. Its errors name the field and the remedy, and no values.
func (c Charts) Render(ctx context.Context, s Source) (Rendered, error) {
	pulled, reference, err := c.pull(ctx, s)
	if err != nil {
		return Rendered{}, err
	}
	result, err := c.Sandbox.Render(ctx, pulled.Archive, s.Values, s.Release)
	if err != nil {
		if _, isFault := errors.AsType[*chart.RenderError](err); isFault {
			return Rendered{}, Mistakef("%s: %w", s.Field, err)
		}
		return Rendered{}, fmt.Errorf("%s: %w", s.Field, err)
	}
	for _, each := range result.Unprotected {
		log.FromContext(ctx).V(1).Info("Sandbox of charts lacks a protection", "protection", each)
	}
	if breaches := s.Policy.Breaches(s.Release.Namespace, result.Manifests); len(breaches) > 0 {
		return Rendered{}, Mistakef("%s: the chart policy does not allow %s; %s", s.Field, chart.Summary(breaches), s.Remedy)
	}
	return Rendered{Manifests: result.Manifests, Dropped: result.Dropped, Reference: reference, Digest: pulled.Digest}, nil
}

// pull returns the archive of a chart, and its reference; "" for a raw chart. If the Source has a digest, the reference is not resolved
// again.
func (c Charts) pull(ctx context.Context, s Source) (chart.Pulled, string, error) {
	if s.Helm.OCIRepository == nil {
		pulled, err := s.Policy.Raw(s.Helm.RawChart)
		if err != nil {
			return chart.Pulled{}, "", Mistakef("%s.rawChart: %w", s.Field, err)
		}
		return pulled, "", nil
	}
	at := s.Field + ".ociRepository"
	reference, _ := s.Helm.OCIRepository.Reference()
	from := chart.Source{Reference: reference, Digest: s.Digest}
	if kept, found := c.Kept.Get(reference, from.Digest); found {
		return kept, reference, nil
	}
	for _, each := range rules.ChartReferences(s.Helm, s.Field) {
		data, err := c.Read(ctx, each)
		if err != nil {
			return chart.Pulled{}, "", err
		}
		key, into := corev1.DockerConfigJsonKey, &from.PullSecret
		if each.Role == operatorv1alpha1.RoleCABundle {
			key, into = operatorv1alpha1.DataKeyCABundle, &from.CA
		}
		if *into = []byte(data[key]); len(*into) == 0 {
			return chart.Pulled{}, "", fmt.Errorf("%s: Secret %s/%s has no key %s; add it", each.Field, c.Namespace, each.Name, key)
		}
	}
	pulled, err := s.Policy.Pull(ctx, from)
	if err != nil {
		return chart.Pulled{}, "", fmt.Errorf("%s: %w", at, err)
	}
	c.Kept.Put(reference, pulled)
	return pulled, reference, nil
}

// Read returns the data of a Secret or ConfigMap. Errors name the field that refers to it.
func (c Charts) Read(ctx context.Context, r rules.Reference) (map[string]string, error) {
	object, err := c.Find(ctx, r)
	if err != nil {
		return nil, err
	}
	texts := map[string]string{}
	switch o := object.(type) {
	case *corev1.Secret:
		for key, value := range o.Data {
			texts[key] = string(value)
		}
	case *corev1.ConfigMap:
		texts = o.Data
	}
	return texts, nil
}

// Find reads a Secret or ConfigMap, and refuses a Secret with credentials of the Garden itself. Errors name the field that refers to it.
func (c Charts) Find(ctx context.Context, r rules.Reference) (client.Object, error) {
	var object client.Object = &corev1.Secret{}
	if r.Kind == "ConfigMap" {
		object = &corev1.ConfigMap{}
	}
	err := c.Reader.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: r.Name}, object)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("%s: %s %s/%s does not exist; create it, or correct the name", r.Field, r.Kind, c.Namespace, r.Name)
	case err != nil:
		return nil, fmt.Errorf("%s: read %s %s/%s: %w", r.Field, r.Kind, c.Namespace, r.Name, err)
	case r.Kind == "Secret" && rules.IsCredential(object.GetLabels()):
		return nil, fmt.Errorf("%s: Secret %s/%s contains credentials of the Garden itself, which extensions must not get; name another Secret",
			r.Field, c.Namespace, r.Name)
	}
	return object, nil
}

// Served asks an API server for its version of Kubernetes, and for the API versions that it serves.
func Served(server discovery.DiscoveryInterface) (version string, apis []string, err error) {
	read, err := server.ServerVersion()
	if err != nil {
		return "", nil, fmt.Errorf("read version: %w", err)
	}
	groups, err := server.ServerGroups()
	if err != nil {
		return "", nil, fmt.Errorf("read API groups: %w", err)
	}
	for _, group := range groups.Groups {
		for _, each := range group.Versions {
			apis = append(apis, each.GroupVersion)
		}
	}
	return read.GitVersion, apis, nil
}
