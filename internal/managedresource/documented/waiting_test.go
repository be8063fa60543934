package documented_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

// waitingExamples are the examples for kubectl wait.
func waitingExamples() map[string]example { return map[string]example{"waiting": waiting()} }

// kubectl runs a command line of the page in the scene's namespace and reports whether it succeeded.
func (s *scene) kubectl(line string) bool {
	s.T.Helper()
	rest, found := strings.CutPrefix(line, "kubectl -n shop ")
	s.Expect(found).To(BeTrue(), line)
	output, err := runKubectl(s.Env, "-n "+s.Namespace+" "+rest, "")
	s.T.Logf("%s: %s", line, output)
	return err == nil
}

// runKubectl runs kubectl as an administrator of the source, with the arguments in a line and an input. It returns the whole output.
func runKubectl(e *Env, arguments, input string) (string, error) {
	e.T.Helper()
	assets, err := local.Assets(e.Ctx, os.Stderr)
	e.Expect(err).NotTo(HaveOccurred())
	command := exec.CommandContext(e.Ctx, filepath.Join(assets, "kubectl"),
		append([]string{"--kubeconfig", binary.WriteKubeconfig(e.T, e.Servers.Source.Kubeconfig)}, strings.Fields(arguments)...)...)
	command.Stdin = strings.NewReader(input)
	output, err := command.CombinedOutput()
	return string(output), err
}

// impatient returns a command line of kubectl wait with a short timeout.
func impatient(line string) string {
	before, _, _ := strings.Cut(line, " --timeout=")
	return before + " --timeout=1s"
}

func waiting() example {
	return example{claims: map[string]func(s *scene){
		"ResourcesApplied is True at once, ResourcesHealthy when a Pod runs, ResourcesProgressing is False when the rollout is over: " +
			"the commands below return then. The last one returns when the set and its objects are gone.": awaitRollout,
		"kubectl wait sees that a change of the spec is not applied yet. It does not see that of a changed Secret until the controller has " +
			"taken note.": func(s *scene) {
			forApplied := s.page.commands(s.T, "waiting")[0]
			s.apply()
			s.awaitApplied(applied)
			s.Stop()
			s.apply("image: registry.example.com/web:1", "image: registry.example.com/web:2")
			s.Expect(s.kubectl(forApplied)).To(BeTrue()) // without the short timeout, which would limit the first check too
			s.apply("spec:\n  secretRefs", "spec:\n  injectLabels: {team: checkout}\n  secretRefs")
			s.Expect(s.kubectl(impatient(forApplied))).To(BeFalse())
			s.Start()
			s.Expect(s.kubectl(forApplied)).To(BeTrue())
			s.Expect(labels(s.Live(deployment, "web"))).To(HaveKeyWithValue("team", "checkout"))
		},
	}}
}

func awaitRollout(s *scene) {
	s.T.Helper()
	lines := s.page.commands(s.T, "waiting")
	s.Expect(lines).To(HaveLen(5))
	forApplied, forHealthy, forRollout, deletion, forDeletion := lines[0], lines[1], lines[2], lines[3], lines[4]

	s.apply()
	s.Expect(s.kubectl(forApplied)).To(BeTrue())
	s.Expect(s.kubectl(impatient(forHealthy))).To(BeFalse())
	s.rollout("ReplicaSetUpdated")
	s.Expect(s.kubectl(forHealthy)).To(BeTrue())
	s.Expect(s.kubectl(impatient(forRollout))).To(BeFalse())
	s.rollout("NewReplicaSetAvailable")
	s.Expect(s.kubectl(forRollout)).To(BeTrue())

	s.Expect(s.kubectl(deletion)).To(BeTrue())
	s.Expect(s.kubectl(impatient(forDeletion))).To(BeFalse())
	s.Patch(deployment, "web", `{"metadata":{"finalizers":null}}`) // there are no controllers of Kubernetes that would do it
	s.Expect(s.kubectl(forDeletion)).To(BeTrue())
	s.Expect(s.Live(deployment, "web")).To(BeNil())
}

// rollout writes the status of the Deployment, as the Deployment controller of Kubernetes would.
func (s *scene) rollout(reason string) {
	s.T.Helper()
	meta := metav1.ObjectMeta{Namespace: s.Namespace, Name: "default"}
	s.Expect(client.IgnoreAlreadyExists(s.Target.Create(s.Ctx, &corev1.ServiceAccount{ObjectMeta: meta}))).To(Succeed())
	no := false
	meta.Name, meta.Labels = "web-1", map[string]string{"app": "web"}
	s.Expect(client.IgnoreAlreadyExists(s.Target.Create(s.Ctx, &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{
		AutomountServiceAccountToken: &no, Containers: []corev1.Container{{Name: "web", Image: "registry.example.com/web:1"}},
	}}))).To(Succeed())
	s.PatchStatus(deployment, "web", `{"status":{"observedGeneration":1,"replicas":1,"updatedReplicas":1,
		"readyReplicas":1,"availableReplicas":1,
		"conditions":[
		{"type":"Available","status":"True","reason":"MinimumReplicasAvailable","message":"available"},
		{"type":"Progressing","status":"True","reason":"`+reason+`","message":"as the reason says"}]}}`)
}
