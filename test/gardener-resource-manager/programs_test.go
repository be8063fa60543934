package main

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/csr"
	"github.com/espalier-dev/espalier/internal/node"
	"github.com/espalier-dev/espalier/internal/webhook"
	"github.com/espalier-dev/espalier/internal/webhook/handlers"
)

func TestTheImageContainsThePrograms(t *testing.T) {
	var names []string
	for _, each := range programs() {
		names = append(names, each.name)
	}
	NewWithT(t).Expect(strings.Fields(read(t, "programs"))).To(Equal(names))
}

// running returns the programs that run with a configuration.
func running(t *testing.T, file string) []string {
	t.Helper()
	cfg, _ := loaded(t, file)
	var names []string
	for _, each := range programs() {
		if each.enabled(cfg) {
			names = append(names, each.name)
		}
	}
	return names
}

func TestProgramsOfAShoot(t *testing.T) {
	g := NewWithT(t)
	g.Expect(running(t, read(t, workerless))).To(Equal([]string{"managedresource-controller", "token-controllers"}))
	g.Expect(running(t, read(t, workers))).To(Equal([]string{
		"managedresource-controller", "token-controllers", "csr-approver", "node-controller", "webhook-server",
	}))
}

// A program that is started although it has nothing to do ends, and this process with it.
func TestAProgramRunsExactlyIfItHasSomethingToDo(t *testing.T) {
	checks := map[string]func(*config.ResourceManagerConfiguration) error{
		"csr-approver": csr.Check, "node-controller": node.Check, "webhook-server": webhook.Check,
	}
	for _, sections := range []string{
		"controllers: {kubeletCSRApprover: {enabled: true}}", "controllers: {csrApprover: {enabled: true}}",
		"controllers: {node: {enabled: true}}", "controllers: {tokenRequestor: {enabled: true}}", "webhooks: {seccompProfile: {enabled: true}}",
		"webhooks: {kubernetesServiceHost: {host: a}}", "",
	} {
		cfg, _ := loaded(t, head+sections)
		for _, each := range programs() {
			if check := checks[each.name]; check != nil {
				NewWithT(t).Expect(each.enabled(cfg)).To(Equal(check(cfg.ResourceManagerConfiguration) == nil), "%s with %q", each.name, sections)
			}
		}
	}
	for i := range reflect.TypeFor[config.Webhooks]().NumField() {
		var webhooks config.Webhooks
		reflect.ValueOf(&webhooks).Elem().Field(i).FieldByName("Enabled").SetBool(true)
		NewWithT(t).Expect(anyEnabled(webhooks)).To(BeTrue(), "field %d", i)
	}
}

// declaredWebhook is the part of a webhook that names the server and the path that the API server calls.
type declaredWebhook struct {
	Name         string `json:"name"`
	ClientConfig struct {
		URL string `json:"url"`
	} `json:"clientConfig"`
}

// The file contains the webhooks that gardenlet declares in a Shoot whose settings enable all of them.
func TestEachWebhookOfAShootIsServedAtItsPath(t *testing.T) {
	g := NewWithT(t)
	var declared struct {
		Webhooks []declaredWebhook `json:"webhooks"`
	}
	g.Expect(yaml.Unmarshal([]byte(read(t, "testdata/webhooks.yaml")), &declared)).To(Succeed())
	served := map[string]string{}
	for _, each := range handlers.All() {
		served[each.Name+".resources.gardener.cloud"] = each.Path
	}
	var missing []string
	for _, each := range declared.Webhooks {
		path, found := strings.CutPrefix(each.ClientConfig.URL, "https://gardener-resource-manager.shoot--cellar--tiny:443")
		g.Expect(found).To(BeTrue(), each.ClientConfig.URL)
		if served[each.Name] == "" {
			missing = append(missing, each.Name)
			continue
		}
		g.Expect(served[each.Name]).To(Equal(path), each.Name)
	}
	g.Expect(missing).To(Equal([]string{"vpa-in-place-updates.resources.gardener.cloud"}))
	g.Expect(declared.Webhooks).To(HaveLen(8))
}

func TestLines(t *testing.T) {
	for name, tc := range map[string]struct {
		writes []string
		want   string
	}{
		"JSON":               {[]string{"{\"level\":\"info\"}\n"}, `{"binary":"apple","level":"info"}` + "\n"},
		"the first line":     {[]string{"{\"msg\":\"Starting\",\"binary\":\"apple\"}\n"}, `{"msg":"Starting","binary":"apple"}` + "\n"},
		"text":               {[]string{"info\tone\n\nError: two\n"}, "apple: info\tone\n" + "apple: \n" + "apple: Error: two\n"},
		"parts of lines":     {[]string{`{"a`, `":1}`, "\n{", "\"b\":2}\n"}, "{\"binary\":\"apple\",\"a\":1}\n{\"binary\":\"apple\",\"b\":2}\n"},
		"a line without end": {[]string{"panic: x"}, "apple: panic: x\n"},
		"no field":           {[]string{"{}\n", "{\n"}, "apple: {}\n" + "apple: {\n"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var out strings.Builder
			w := &lineWriter{name: "apple", out: &out}
			for _, each := range tc.writes {
				g.Expect(w.Write([]byte(each))).To(Equal(len(each)))
			}
			w.flush()
			g.Expect(out.String()).To(Equal(tc.want))
			for line := range strings.Lines(out.String()) {
				if strings.HasPrefix(line, "{") {
					g.Expect(json.Valid([]byte(line))).To(BeTrue(), line)
				}
			}
		})
	}
}
