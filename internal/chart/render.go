package chart

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"
)

// Release describes the installation that a chart is rendered for.
type Release struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	// KubernetesVersion is the version of the cluster in which the objects will be, such as "1.36.1".
	KubernetesVersion string `json:"kubernetesVersion"`
	// APIVersions are versions that the cluster serves besides Kubernetes' own, such as "monitoring.coreos.com/v1".
	APIVersions []string `json:"apiVersions,omitempty"`
}

// Values are the sources of the values of a chart, each a YAML or JSON object, in the order in which they are merged: a later source
// wins, except that maps are merged. As in Helm, null removes the default of the chart.
type Values [][]byte

// Result is a rendered chart.
type Result struct {
	Manifests Manifests `json:"manifests,omitempty"`
	// Dropped lists the parts of the chart that have no effect, sorted, each once.
	Dropped []Dropped `json:"dropped,omitempty"`
	// Unprotected lists the protections of the sandbox that the kernel does not have, as sentences. The caller logs them.
	Unprotected []string `json:"unprotected,omitempty"`
}

// Manifests are the rendered templates of a chart that contain objects, sorted by name.
type Manifests []Manifest

// Manifest is a rendered template.
type Manifest struct {
	// Template is its path, beginning with the name of the chart.
	Template string `json:"template"`
	// Objects are its objects in the order of the documents; the items of lists are objects of their own. Each has a kind.
	Objects []map[string]any `json:"objects"`
}

// Files returns the objects as the data of a Secret of a ManagedResource: a key per template, with "_" for "/". Templates whose keys are
// equal share a key.
func (m Manifests) Files() (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, manifest := range m {
		key := strings.ReplaceAll(manifest.Template, "/", "_")
		for _, object := range manifest.Objects {
			document, err := yaml.Marshal(object)
			if err != nil {
				return nil, fmt.Errorf("encode object of %s: %w", manifest.Template, err)
			}
			if files[key] != nil {
				files[key] = append(files[key], "---\n"...)
			}
			files[key] = append(files[key], document...)
		}
	}
	return files, nil
}

// render renders a chart in this process. Its errors are RenderErrors.
func render(ctx context.Context, archive []byte, values Values, release Release) (Result, error) {
	chart, err := loader.LoadArchive(bytes.NewReader(archive))
	if err != nil {
		return Result{}, failure("", "archive is not a chart: "+err.Error())
	}
	name := chart.Name()
	kubernetes, err := common.ParseKubeVersion(release.KubernetesVersion)
	if err != nil {
		return Result{}, failure(name, fmt.Sprintf("version of Kubernetes %q is not a version", release.KubernetesVersion))
	}
	if refusal := installable(chart, kubernetes); refusal != nil {
		return Result{}, refusal
	}
	merged, err := values.merge(name)
	if err != nil {
		return Result{}, err
	}
	if err = chartutil.ProcessDependencies(chart, merged); err != nil {
		return Result{}, failure(name, "values do not fit the dependencies of the chart")
	}
	capabilities := common.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *kubernetes
	capabilities.APIVersions = slices.Concat(capabilities.APIVersions, release.APIVersions)
	// The schema is checked separately, because only its errors name the fields that do not fit.
	context, err := util.ToRenderValuesWithSchemaValidation(chart, merged,
		common.ReleaseOptions{Name: release.Name, Namespace: release.Namespace, Revision: 1, IsInstall: true}, capabilities, true)
	if err != nil {
		return Result{}, failure(name, "values do not fit the defaults of the chart")
	}
	complete, err := context.Table("Values")
	if err != nil {
		return Result{}, failure(name, "values are not an object")
	}
	if err = util.ValidateAgainstSchema(chart, complete); err != nil {
		return Result{}, failure(name, schemaCause(err))
	}
	sources := templateSources(chart)
	files, err := execute(ctx, chart, context, sources)
	if err != nil {
		return Result{}, err
	}
	manifests, hooks, err := parse(name, files)
	if err != nil {
		return Result{}, err
	}
	return Result{Manifests: manifests, Dropped: sortDropped(append(hooks, ignored(chart, files, sources, capabilities.APIVersions)...))}, nil
}

// installable returns an error for a chart that Helm does not install, either.
func installable(chart *chartv2.Chart, kubernetes *common.KubeVersion) error {
	name, metadata := chart.Name(), chart.Metadata
	if metadata.Type == "library" {
		return failure(name, "chart is a library, which has no objects")
	}
	if metadata.KubeVersion != "" && !chartutil.IsCompatibleRange(metadata.KubeVersion, kubernetes.String()) {
		return failure(name, fmt.Sprintf("chart requires Kubernetes %q, the cluster has %s", metadata.KubeVersion, kubernetes.Version))
	}
	for _, dependency := range metadata.Dependencies {
		if dependency != nil && !slices.ContainsFunc(chart.Dependencies(), func(c *chartv2.Chart) bool { return c.Name() == dependency.Name }) {
			return failure(name, fmt.Sprintf("charts/ lacks the dependency %q", dependency.Name))
		}
	}
	return nil
}

func (v Values) merge(chart string) (map[string]any, error) {
	merged := map[string]any{}
	for i, source := range v {
		var values map[string]any
		if err := yaml.Unmarshal(source, &values); err != nil { // the message quotes values
			return nil, failure(chart, fmt.Sprintf("source %d of the values is not a YAML object", i+1))
		}
		merged = loader.MergeMaps(merged, values)
	}
	return merged, nil
}

// templateSources returns the texts of the templates of a chart and its dependencies by name.
func templateSources(chart *chartv2.Chart) map[string]string {
	sources := map[string]string{}
	for _, template := range chart.Templates {
		sources[path.Join(chart.ChartFullPath(), template.Name)] = string(template.Data)
	}
	for _, dependency := range chart.Dependencies() {
		maps.Copy(sources, templateSources(dependency))
	}
	return sources
}

// errAbort ends the execution of a template. The message of the chart is not part of this error, because it may contain values.
var errAbort = errors.New("aborted by the chart")

// execute returns the output of the templates by name. Helm turns the functions lookup and getHostByName off: they return nothing.
func execute(ctx context.Context, chart *chartv2.Chart, values common.Values, sources map[string]string) (map[string]string, error) {
	var message string
	abort := func(text string) error {
		message = text
		return errAbort
	}
	files, err := engine.Engine{CustomTemplateFuncs: map[string]any{
		"fail": func(text string) (string, error) { return "", abort(text) },
		"required": func(text string, value any) (any, error) {
			if value == nil || value == "" {
				return value, abort(text)
			}
			return value, nil
		},
	}}.RenderWithContext(ctx, chart, values)
	if err != nil {
		return nil, templateFailure(chart.Name(), err, message, sources)
	}
	return files, nil
}
