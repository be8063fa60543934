package main

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"text/template"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/espalier-dev/espalier/test/local"
)

// script runs commands after the functions of the walkthrough are defined, and returns its standard output and standard error.
func script(t *testing.T, commands string, args ...string) (out, complaints string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", append([]string{"-c", ". ./walkthrough.sh\n" + commands, "bash"}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	return stdout.String(), stderr.String(), err
}

func TestUnexpectedAnswersEndTheWalkthrough(t *testing.T) {
	const down = "The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?"
	for name, tc := range map[string]struct {
		// answer is the standard error of kubectl; empty if the request is allowed.
		answer  string
		refusal string
		want    string
		err     string
	}{
		"allowed, as it should be": {"", "", "allowed\n", ""},
		"refused, as it should be": {
			"Error from server (Forbidden): secrets is forbidden: no key", "no key", "refused: secrets is forbidden: no key\n", "",
		},
		"refused by a webhook":       {"Error from server: denied: no key", "no key", "refused: denied: no key\n", ""},
		"allowed, against the rules": {"", "no key", "", "it is allowed, and should be refused: no key\n"},
		"refused, against the rules": {
			"Error from server (Forbidden): secrets is forbidden: no key", "", "",
			"Error from server (Forbidden): secrets is forbidden: no key\n",
		},
		"refused for another reason": {
			"Error from server (Forbidden): secrets is forbidden: no door", "no key", "",
			"it is refused, but not as it should be (no key): Error from server (Forbidden): secrets is forbidden: no door\n",
		},
		"no answer where the request should be allowed": {down, "", "", down + "\n"},
		"no answer where the request should be refused": {down, "refused", "", down + "\n"},
		"another error with the text of a refusal":      {"no key", "no key", "", "no key\n"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			out, complaints, err := script(t, `request() { [ -z "$1" ] || { echo "$1" >&2; return 1; }; }
				verdict "$2" request "$1"`, tc.answer, tc.refusal)
			g.Expect(out).To(Equal(tc.want))
			g.Expect(complaints).To(Equal(tc.err))
			g.Expect(err == nil).To(Equal(tc.err == ""))
		})
	}
}

func TestNewEvents(t *testing.T) {
	g := NewWithT(t)
	out, complaints, err := script(t, `events() { printf '%s\n' "a/1 old" "a/2 again" "b/3 new"; }; new_events "a/1 old"`)
	g.Expect(err).NotTo(HaveOccurred(), complaints)
	g.Expect(out).To(Equal("Event again\nEvent new\n"))
}

func TestScriptAwaits(t *testing.T) {
	g := NewWithT(t)
	out, complaints, err := script(t, `calls=$scratch/calls; probe() { echo >>"$calls"; [ "$(wc -l <"$calls")" = 3 ] && echo "it is there"; }
		await 60 it probe`)
	g.Expect(err).NotTo(HaveOccurred(), complaints)
	g.Expect(out).To(Equal("it is there\n"))
	_, complaints, err = script(t, `probe() { echo "not yet"; return 1; }; await 0 it probe`)
	g.Expect(err).To(HaveOccurred())
	g.Expect(complaints).To(Equal("wait for it: not within 0 s: not yet\n"))
}

func TestStateOfAnObject(t *testing.T) {
	established := func(status string) map[string]any {
		return map[string]any{"status": map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": status}}}}
	}
	parsed, err := template.ParseFiles("state.gotemplate")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for name, tc := range map[string]struct {
		object *unstructured.Unstructured
		want   string
	}{
		"a Deployment on its way": {local.NewObject("apps/v1", "Deployment", "n", "d", map[string]any{
			"spec": map[string]any{"replicas": int64(2)}, "status": map[string]any{"availableReplicas": int64(1)},
		}), "1 of 2 available"},
		"a new Deployment": {local.NewObject("apps/v1", "Deployment", "n", "d", map[string]any{
			"spec": map[string]any{"replicas": int64(2)},
		}), "0 of 2 available"},
		"a served CRD": {local.NewObject("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "c", established("True")), "established"},
		"a CRD not served": {
			local.NewObject("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "c", established("False")), "not established",
		},
		"anything else": {local.NewObject("v1", "ConfigMap", "n", "c", nil), "present"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var out bytes.Buffer
			g.Expect(parsed.Execute(&out, tc.object.Object)).To(Succeed())
			g.Expect(out.String()).To(Equal(tc.want))
		})
	}
}

// The walkthrough prints the names and addresses in the requests.
func TestExampleRequestsOfAKubelet(t *testing.T) {
	g := NewWithT(t)
	objects, err := local.ReadManifests(filepath.Join("..", "..", "examples", "kubelet-certificates.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	var names [][]string
	for _, each := range objects {
		text, _, err := unstructured.NestedString(each.Object, "spec", "request")
		g.Expect(err).NotTo(HaveOccurred())
		decoded, err := base64.StdEncoding.DecodeString(text)
		g.Expect(err).NotTo(HaveOccurred())
		block, _ := pem.Decode(decoded)
		request, err := x509.ParseCertificateRequest(block.Bytes)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(request.CheckSignature()).To(Succeed())
		g.Expect(request.Subject.CommonName).To(Equal("system:node:fake-0"))
		g.Expect(request.Subject.Organization).To(Equal([]string{"system:nodes"}))
		g.Expect(request.IPAddresses).To(HaveLen(1))
		g.Expect(request.IPAddresses[0].String()).To(Equal("192.0.2.1"))
		names = append(names, request.DNSNames)
	}
	g.Expect(names).To(Equal([][]string{{"fake-0"}, {"fake-0", "kubernetes.default.svc"}}))
	g.Expect(local.FakeNode).To(Equal("fake-0"))
}

func TestOutputOfTheScript(t *testing.T) {
	g := NewWithT(t)
	var out bytes.Buffer
	w := newWalkthrough(local.NewReport(&out, testingclock.NewFakePassiveClock(time.Time{})))
	lines := local.Lines{To: w.line}
	for _, text := range []string{"# app", "lying\nKIND\tNAME\nDeployment\tweb\nplain\n# tokens: 100%\na\tb\n"} {
		_, err := lines.Write([]byte(text))
		g.Expect(err).NotTo(HaveOccurred())
	}
	w.flush()
	g.Expect(out.String()).To(Equal("[  0.0 s] applying\n          KIND         NAME\n          Deployment   web\n          plain\n" +
		"[  0.0 s] tokens: 100%\n          a   b\n"))
}

func TestScriptParses(t *testing.T) {
	g := NewWithT(t)
	out, complaints, err := script(t, "declare -F managedresource-controller")
	g.Expect(err).NotTo(HaveOccurred(), complaints)
	g.Expect(out).To(Equal("managedresource-controller\n"))
	for _, b := range processes() {
		_, complaints, problem := script(t, `declare -F "$1"`, b.name)
		g.Expect(problem == nil).To(Equal(!b.hidden), b.name+complaints)
	}
	info, err := os.Stat("walkthrough.sh")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(info.Mode().Perm()&0o100).NotTo(BeZero(), "it can be run")
}
