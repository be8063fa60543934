package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/deployable"
)

// chartCRDs is the folder from which Helm reads CRDs.
const chartCRDs = "charts/espalier/crds"

// addChart adds the generated part of the Helm chart, except for the templates: values, the schema of the values, and copies of the CRDs.
// Chart.yaml, notes and helpers are written by hand.
func (t tree) addChart(root string) error {
	values, err := execute("values.gotemplate", deployable.All())
	if err != nil {
		return err
	}
	schema, err := schema()
	if err != nil {
		return err
	}
	t["charts/espalier/values.yaml"], t["charts/espalier/values.schema.json"] = string(values), string(schema)
	for _, pattern := range []string{"crds/*.yaml", "*/crds/*.yaml"} {
		files, _ := filepath.Glob(filepath.Join(root, pattern)) // the pattern is valid
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				return fmt.Errorf("read CRD: %w", err)
			}
			t[chartCRDs+"/"+filepath.Base(file)] = string(content)
		}
	}
	return nil
}

// key returns the key of a binary in the values: csrApprover for csr-approver.
func key(b deployable.Binary) string {
	words := strings.Split(b.Name, "-")
	for i := 1; i < len(words); i++ {
		words[i] = strings.ToUpper(words[i][:1]) + words[i][1:]
	}
	return strings.Join(words, "")
}

// document is an object in a template of the chart.
type document struct {
	Text string
	// ForTarget is true if the chart omits the object when the target is another cluster. ClusterAdmin is true if the chart omits it unless
	// a value requests this role.
	ForTarget, ClusterAdmin bool
	// OwnRights is true if the chart omits the object when a value requests impersonation, and Impersonation if only then it has the object.
	OwnRights, Impersonation bool
	// RestoreDrill is true if the chart omits the object unless the configuration makes restore drills restore data: its namespace need not
	// exist before.
	RestoreDrill bool
}

// The role of a controller that applies every set as a ServiceAccount.
const (
	impersonationFile = "managedresource-controller/alternatives/target-impersonation.yaml"
	impersonateRole   = "espalier-managedresource-controller-impersonate"
)

// impersonates reports whether a binary can apply sets as ServiceAccounts.
func impersonates(b deployable.Binary) bool { return b.Name == "managedresource-controller" }

// addTemplate adds the template of all objects of a binary, with placeholders for the fields that values may change.
func (t tree) addTemplate(b deployable.Binary, objects []client.Object) error {
	if strings.Contains(b.Config+b.ConfigApart, "{{") {
		return fmt.Errorf("configuration of %s: it would be taken for a template", b.Name)
	}
	documents := make([]document, 0, len(objects))
	for _, object := range objects {
		text, err := textOf(b, object)
		if err != nil {
			return err
		}
		role := roleOf(object)
		documents = append(documents, document{
			Text: text, ForTarget: b.HasTarget() && b.IsForTarget(role),
			ClusterAdmin:  role == deployable.ClusterAdmin,
			OwnRights:     impersonates(b) && role == deployable.ClusterAdmin,
			Impersonation: role == impersonateRole,
			RestoreDrill:  object.GetNamespace() == deployable.RestoreDrillNamespace,
		})
	}
	content, err := execute("chart.gotemplate", struct {
		deployable.Binary

		Documents []document
	}{b, documents})
	t["charts/espalier/templates/"+b.Name+".yaml"] = string(content)
	return err
}

// imagesOfValues is the setting for images in a configuration, with the repository and tag in the values of the chart.
const imagesOfValues = "images: {repository: {{ .root.Values.image.repository }}{{ with .root.Values.image.tag }}, tag: {{ . | quote " +
	"}}{{ end }}}"

// configOf returns a configuration file with placeholders for the values.
func configOf(config string) string {
	config = strings.Replace(config, deployable.ShippedImages, imagesOfValues, 1)
	return strings.TrimSuffix(strings.ReplaceAll(config, deployable.Namespace, "{{ .root.Release.Namespace }}"), "\n")
}

// textOf returns an object as YAML, with placeholders for the values.
func textOf(b deployable.Binary, object client.Object) (string, error) {
	fields, err := fieldsOf(object)
	if err != nil {
		return "", err
	}
	marks := placeholders{"labels": include("espalier.labels", "$")}
	err = unstructured.SetNestedField(fields, nil, "metadata", "labels", "@labels")
	if err != nil {
		return "", err
	}
	switch object.(type) {
	case *corev1.ConfigMap:
		fields["data"] = map[string]any{"config.yaml": "@config"}
		marks["config"] = "config.yaml: |\n  {{- include \"espalier.config\" $binary | nindent 2 }}"
	case *appsv1.Deployment:
		err = deploymentMarks(b, fields, marks)
		if err != nil {
			return "", err
		}
	}
	content, err := yaml.Marshal(fields)
	if err != nil {
		return "", fmt.Errorf("marshal: %w", err)
	}
	text := strings.ReplaceAll(string(content), "namespace: "+deployable.Namespace, "namespace: {{ $.Release.Namespace | quote }}")
	return "---\n" + marks.replace(text), nil
}

// roleOf returns the role that the object is or binds.
func roleOf(object client.Object) string {
	switch object := object.(type) {
	case *rbacv1.ClusterRoleBinding:
		return object.RoleRef.Name
	case *rbacv1.RoleBinding:
		return object.RoleRef.Name
	case *unstructured.Unstructured: // a generated role
		return object.GetName()
	}
	return ""
}

// deploymentMarks sets the placeholders for the fields that values may change.
func deploymentMarks(b deployable.Binary, fields map[string]any, marks placeholders) error {
	marks["replicas"] = "replicas: {{ $binary.values.replicas }}"
	marks["podLabels"] = include("espalier.podLabels", "$binary")
	marks["podAnnotations"] = include("espalier.podAnnotations", "$binary")
	marks["scheduling"] = include("espalier.scheduling", "$binary")
	marks["image"] = "image: {{ include \"espalier.image\" $binary | quote }}"
	marks["pullPolicy"] = "imagePullPolicy: {{ $.Values.image.pullPolicy }}"
	marks["resources"] = "resources: {{- toYaml $binary.values.resources | nindent 2 }}"
	within(fields, "spec")["replicas"] = "@replicas"
	within(fields, "spec", "template", "metadata", "labels")["@podLabels"] = nil
	// The annotations are a template: the checksum depends on the configuration that results from the values. The priority class is also a
	// value.
	within(fields, "spec", "template", "metadata")["annotations"] = map[string]any{"@podAnnotations": nil}
	pod := within(fields, "spec", "template", "spec")
	delete(pod, "priorityClassName")
	pod["@scheduling"] = nil
	containers, _ := pod["containers"].([]any)
	container, _ := containers[0].(map[string]any) // there is only one container
	container["image"], container["imagePullPolicy"], container["resources"] = "@image", "@pullPolicy", "@resources"
	for field, parent := range map[string]map[string]any{"env": container, "volumeMounts": container, "volumes": pod} {
		mark := "own" + strings.ToUpper(field[:1]) + field[1:]
		marks[mark] = include("espalier."+field, "$binary")
		list, _ := parent[field].([]any)
		parent[field] = append(list, "@"+mark)
	}
	if !b.HasTarget() {
		return nil
	}
	// The last mount and the last volume are for the credentials of another cluster.
	objects := b.SourceObjects(image(b))
	apart, ok := objects[len(objects)-1].(*appsv1.Deployment)
	if !ok {
		return fmt.Errorf("objects of %s for two clusters: the last one is no Deployment", b.Name)
	}
	mounts, volumes := apart.Spec.Template.Spec.Containers[0].VolumeMounts, apart.Spec.Template.Spec.Volumes
	volumes[len(volumes)-1].Secret.SecretName = "@secret"
	return errors.Join(
		marks.appendOptional(container, "volumeMounts", mounts[len(mounts)-1:]), marks.appendOptional(pod, "volumes", volumes[len(volumes)-1:]))
}

// within returns the map at a path, which must exist. The caller may change it.
func within(fields map[string]any, path ...string) map[string]any {
	for _, name := range path {
		fields, _ = fields[name].(map[string]any)
	}
	return fields
}

// placeholders are templates by the name of a mark. Each replaces the line that contains its mark. Their indentation is relative to that
// line; they use only "nindent 0" and "nindent 2".
type placeholders map[string]string

// appendOptional appends to a list a placeholder for items that are present only if the target is another cluster.
func (m placeholders) appendOptional(fields map[string]any, name string, items any) error {
	text, err := yaml.Marshal(items)
	if err != nil {
		return fmt.Errorf("marshal: %w", err)
	}
	item := strings.ReplaceAll(string(text), "'@secret'", "{{ $binary.values.targetKubeconfigSecret | quote }}")
	m[name] = "{{- if $binary.values.targetKubeconfigSecret }}\n" + item + "{{- end }}"
	list, _ := fields[name].([]any)
	fields[name] = append(list, "@"+name)
	return nil
}

// include returns a template that calls a helper, which may return nothing.
func include(helper, with string) string {
	return fmt.Sprintf("{{- with include %q %s }}\n{{- . | nindent 0 }}\n{{- end }}", helper, with)
}

// marked matches a line with a mark.
var marked = regexp.MustCompile(`(?m)^( *).*'@(\w+)'.*$`)

func (m placeholders) replace(text string) string {
	return marked.ReplaceAllStringFunc(text, func(line string) string {
		parts := marked.FindStringSubmatch(line)
		indent, mark := parts[1], m[parts[2]]
		relative := strings.NewReplacer("\n", "\n"+indent,
			"nindent 0", fmt.Sprintf("nindent %d", len(indent)), "nindent 2", fmt.Sprintf("nindent %d", len(indent)+2))
		return indent + relative.Replace(mark)
	})
}
