package crdtest

import (
	"io"
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// table returns the cells of the row that kubectl would show for a Garden, by the names of their columns.
func (e *env) table(name string) map[string]any {
	e.t.Helper()
	httpClient, err := rest.HTTPClientFor(e.config)
	e.Expect(err).NotTo(HaveOccurred())
	url := e.config.Host + "/apis/operator.gardener.cloud/v1alpha1/gardens/" + name
	request, err := http.NewRequestWithContext(e.t.Context(), http.MethodGet, url, http.NoBody)
	e.Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	response, err := httpClient.Do(request)
	e.Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	e.Expect(err).NotTo(HaveOccurred())
	table := &metav1.Table{}
	e.Expect(yaml.Unmarshal(content, table)).To(Succeed(), string(content))
	e.Expect(table.Rows).To(HaveLen(1), string(content))
	cells := map[string]any{}
	for i, column := range table.ColumnDefinitions {
		cells[column.Name] = table.Rows[0].Cells[i]
	}
	return cells
}

func TestPrinterColumnsShowTheStatus(t *testing.T) {
	e := newEnv(t)
	manifest := e.manifests()["release-1.149"]
	manifest.SetName("columns")
	created, err := e.create(manifest)
	e.Expect(err).NotTo(HaveOccurred())
	created.Object["status"] = manifest.Object["status"]
	e.Expect(e.client.Status().Update(t.Context(), created)).To(Succeed())
	cells := e.table("columns")
	delete(cells, "Age")
	e.Expect(cells).To(BeComparableTo(map[string]any{
		"Name": "columns", "K8S Version": "1.36.1", "Gardener Version": "v1.149.3", "Last Operation": "Error",
		"Runtime": "True", "Virtual": "Progressing", "API Server": "False", "Observability": "Unknown",
		"Task": "Deploying and waiting for gardener-resource-manager to be healthy",
	}))
}

func TestTheTaskColumnIsTheFirstTaskThatIsNotFinished(t *testing.T) {
	served := newEnv(t)
	for sentence, tc := range map[string]struct {
		states []string // of tasks a, b and c
		want   gomegatypes.GomegaMatcher
	}{
		"none has begun":   {states: []string{"Pending", "Pending", "Pending"}, want: Equal("a")},
		"one is running":   {states: []string{"Succeeded", "Running", "Pending"}, want: Equal("b")},
		"one is skipped":   {states: []string{"Skipped", "Succeeded", "Pending"}, want: Equal("c")},
		"one has failed":   {states: []string{"Skipped", "Failed", "Succeeded"}, want: Equal("b")},
		"all are finished": {states: []string{"Skipped", "Succeeded", "Succeeded"}, want: BeNil()},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := served.in(t)
			created, err := e.create(e.garden("task", nil))
			e.Expect(err).NotTo(HaveOccurred())
			var tasks []any
			for i, state := range tc.states {
				tasks = append(tasks, map[string]any{"name": string(rune('a' + i)), "state": state, "since": "2026-01-02T03:04:05Z"})
			}
			patch, err := yaml.Marshal(map[string]any{"status": map[string]any{"tasks": tasks}})
			e.Expect(err).NotTo(HaveOccurred())
			patch, err = yaml.YAMLToJSON(patch)
			e.Expect(err).NotTo(HaveOccurred())
			e.Expect(e.client.Status().Patch(t.Context(), created, client.RawPatch(types.MergePatchType, patch))).To(Succeed())
			e.Expect(e.table("task")).To(HaveKeyWithValue("Task", tc.want))
		})
	}
}
