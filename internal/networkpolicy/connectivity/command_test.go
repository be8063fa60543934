package connectivity_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/networkpolicy/connectivity"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

// asBinary is the variable that makes the test binary behave as the real one.
const asBinary = "ESPALIER_TEST_AS_BINARY"

// A report covers the whole cluster, so this package needs its own servers: Pods of other packages' tests would appear in it.
func TestMain(m *testing.M) {
	if os.Getenv(asBinary) != "" {
		os.Exit(process.Main(nil, connectivity.Command(process.Program{Name: "netpol-controller"})))
	}
	os.Exit(binary.WithOwnServer(m))
}

// result is the output for the user of the command.
type result struct {
	code     int
	out, err string
}

func invoke(t *testing.T, kubeconfig []byte, args ...string) result {
	t.Helper()
	g, file := NewWithT(t), binary.WriteKubeconfig(t, kubeconfig)
	var out, errs bytes.Buffer
	command := exec.CommandContext(t.Context(), os.Args[0], append([]string{"connectivity"}, args...)...)
	command.Env = append(os.Environ(), asBinary+"=yes", "KUBECONFIG="+file)
	command.Stdout, command.Stderr = &out, &errs
	err := command.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); !ended {
		g.Expect(err).NotTo(HaveOccurred())
	}
	return result{command.ProcessState.ExitCode(), out.String(), errs.String()}
}

func TestTheLiveCluster(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	servers, err := local.ForTests()
	g.Expect(err).NotTo(HaveOccurred())
	c, err := client.New(servers.Source.Config, client.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "connectivity-"}}
	g.Expect(c.Create(t.Context(), namespace)).To(Succeed())
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "default"}}
	g.Expect(client.IgnoreAlreadyExists(c.Create(t.Context(), account))).To(Succeed())
	for name, labels := range map[string]map[string]string{"db": {"app": "db"}, "web": {"to-db": "allowed"}} {
		g.Expect(c.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: name, Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "registry.example.com/i"}}},
		})).To(Succeed())
	}
	g.Expect(c.Create(t.Context(), &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "db"},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{
				From:  []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"to-db": "allowed"}}}},
				Ports: []networkingv1.NetworkPolicyPort{{Port: ptr.To(intstr.FromInt32(5432))}},
			}},
		},
	})).To(Succeed())

	admin := servers.Source.Kubeconfig
	db, web := namespace.Name+"/db", namespace.Name+"/web"
	g.Expect(invoke(t, admin, "-n", namespace.Name, "-o", "dot")).To(Equal(result{out: fmt.Sprintf(`digraph connectivity {
  rankdir=LR;
  node [shape=box];
  subgraph cluster_0 {
    label=%q;
    %q;
    %q;
  }
  %q -> %q [label="TCP/5432"];
  // Receive from everybody who may send, since no policy selects them: %s
  // Send to everybody who may receive, since no policy selects them: %s, %s
}
`, namespace.Name, web, db, web, db, web, db, web)}))
	table := invoke(t, admin)
	g.Expect(table.code).To(BeZero(), table.err)
	g.Expect(table.out).To(MatchRegexp(`(?m)^FROM +TO +PORTS$`))
	g.Expect(table.out).To(MatchRegexp(web + ` +` + db + ` +TCP/5432`))
}

func TestMisuse(t *testing.T) {
	t.Parallel()
	servers, err := local.ForTests()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"a format that is none": {
			[]string{"-o", "svg"},
			"Error: parse command line: --output must be table or dot, not \"svg\"; see netpol-controller connectivity --help\n",
		},
		"an argument": {
			[]string{"shop"},
			"Error: parse command line: unexpected argument \"shop\"; only flags are taken; see netpol-controller connectivity --help\n",
		},
		"a namespace that is none": {[]string{"-n", "nowhere"}, "Error: namespace \"nowhere\" does not exist\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			NewWithT(t).Expect(invoke(t, servers.Source.Kubeconfig, tc.args...)).To(Equal(result{code: 2, err: tc.want}))
		})
	}
	help := invoke(t, nil, "--help")
	NewWithT(t).Expect(help.out).To(ContainSubstring("netpol-controller connectivity [-n NAMESPACE] [-o table|dot] [--config FILE]"))
}
