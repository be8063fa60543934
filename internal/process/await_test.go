package process

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/espalier-dev/espalier/test/local"
)

// inCluster is what the kubelet sets.
const inCluster = "KUBERNETES_SERVICE_HOST=10.0.0.1"

// elsewhere is a kubeconfig for the API server at another address.
func elsewhere(t *testing.T, server local.Server, address string) string {
	t.Helper()
	g := NewWithT(t)
	file := adminFile(t, server)
	found, err := clientcmd.LoadFromFile(file)
	g.Expect(err).NotTo(HaveOccurred())
	for _, each := range found.Clusters {
		each.Server = "https://" + address
	}
	data, err := clientcmd.Write(clientcmdapi.Config(*found))
	g.Expect(err).NotTo(HaveOccurred())
	return writeFile(t, "elsewhere", string(data))
}

// forward begins to lead from an address to the API server.
func forward(t *testing.T, address string, server local.Server) {
	t.Helper()
	var listen net.ListenConfig
	listener, err := listen.Listen(t.Context(), "tcp", address)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", strings.TrimPrefix(server.Config.Host, "https://")) //nolint:noctx // it ends with the test's listener
			if err != nil {
				_ = from.Close()
				continue
			}
			go func() { _, _ = io.Copy(to, from); _ = to.Close() }()
			go func() { _, _ = io.Copy(from, to); _ = from.Close() }()
		}
	}()
}

func TestAProcessInAClusterWaitsForItsAPIServer(t *testing.T) {
	s := servers(t)
	namespace := newNamespace(t, admin(t, s.Source))
	address := "127.0.0.1:" + strconv.Itoa(freePort(t))
	p := start(t, roleGardener, configIn(namespace, ""), "KUBECONFIG="+elsewhere(t, s.Source, address), inCluster)
	p.says(t, `"msg":"Waiting for the API server","cluster":"source","host":"https://`+address+`"`)
	p.says(t, "connect: connection refused")
	forward(t, address, s.Source)
	p.says(t, `"msg":"Leading"`)
}

func TestAProcessThatWaitsEndsAtASignal(t *testing.T) {
	s := servers(t)
	g := NewWithT(t)
	address := "127.0.0.1:" + strconv.Itoa(freePort(t))
	p := start(t, roleGardener, configIn("garden", ""), "KUBECONFIG="+elsewhere(t, s.Source, address), inCluster)
	p.says(t, `"msg":"Waiting for the API server"`)
	p.signal(t)
	code, _ := p.ends(t)
	g.Expect(code).To(Equal(0))
}

// What is wrong and not away is told at once, in a cluster too.
func TestAProcessInAClusterDoesNotWaitForAnotherMistake(t *testing.T) {
	s := servers(t)
	g := NewWithT(t)
	unknown := userFile(t, s.Source, &clientcmdapi.AuthInfo{Token: "nobody's"})
	p := start(t, roleGardener, configIn("garden", ""), "KUBECONFIG="+unknown, inCluster)
	code, last := p.ends(t)
	g.Expect(code).To(Equal(1))
	g.Expect(last).To(ContainSubstring("does not accept our credentials"))
	g.Expect(p.out.String()).NotTo(ContainSubstring("Waiting"))
}

func TestOnlyAPodIsPatient(t *testing.T) {
	g := NewWithT(t)
	g.Expect(patience(func(string) string { return "" })).To(BeZero())
	g.Expect(patience(func(string) string { return "10.0.0.1" })).To(Equal(time.Minute))
}

func TestWhatIsAway(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	request, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, "http://127.0.0.1:1", http.NoBody)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	response, refused := http.DefaultClient.Do(request)
	if refused == nil {
		_ = response.Body.Close()
	}
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"refused":     {refused, true},
		"unavailable": {apierrors.NewServiceUnavailable("starting"), true},
		"overloaded":  {apierrors.NewTooManyRequests("later", 1), true},
		"broken":      {apierrors.NewInternalError(errors.New("etcd is away")), true},
		"forbidden":   {apierrors.NewForbidden(pods, "", errors.New("no")), false},
		"unknown":     {apierrors.NewUnauthorized("who?"), false},
		"not found":   {apierrors.NewNotFound(pods, "a"), false},
		"another":     {errors.New("create discovery client"), false},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(isAway(tc.err)).To(Equal(tc.want)) })
	}
}
