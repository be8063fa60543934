package projecttest

import (
	"context"
	"net"
	"strconv"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/admission/admissiontest"
	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/project/webhook"
	"github.com/espalier-dev/espalier/test/binary"
)

// hooks is the address at which the controller serves its webhooks.
type hooks struct {
	address string
	// authority has signed the server's certificate, in PEM.
	authority []byte
}

func (e *Env) configureWebhooks(cfg *config.ControllerManagerConfiguration) {
	e.T.Helper()
	dir, port := e.T.TempDir(), admissiontest.FreePort(e.T)
	e.hooks = &hooks{address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), authority: admissiontest.Certify(e.T, dir)}
	own := &cfg.Espalier.Project.Webhooks
	own.BindAddress, own.Port, own.TLS.ServerCertDir, own.ShutdownDelay = "127.0.0.1", port, dir, &metav1.Duration{}
}

// registerWebhooks makes the API server call the webhooks, and waits until it does.
func (e *Env) registerWebhooks() {
	if e.hooks == nil {
		return
	}
	e.T.Helper()
	admissiontest.AwaitServer(e.Ctx, e.T, e.hooks.address, binary.Patience)
	declared := webhook.Declared()
	if e.options.Register != nil {
		declared = e.options.Register(declared)
	}
	declared = append(declared, admissiontest.Probe(registration.Mutating), admissiontest.Probe(registration.Validating))
	server := registration.Server{URL: "https://" + e.hooks.address}
	built := registration.Configuration{Name: e.Namespace, Client: server.Client(e.hooks.authority)}
	for _, object := range built.Both(declared...) {
		e.Expect(e.Admin.Create(e.Ctx, object)).To(Succeed())
	}
	admissiontest.AwaitCalls(e.Ctx, e.T, e.Admin, e.Namespace, binary.Patience)
}

// unregisterWebhooks removes the webhooks, so that the API server does not wait for a server that does not run.
func (e *Env) unregisterWebhooks() {
	if e.hooks == nil {
		return
	}
	e.T.Helper()
	ctx := context.Background()
	for _, object := range []client.Object{
		&admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{},
	} {
		object.SetName(e.Namespace)
		e.Expect(client.IgnoreNotFound(e.Admin.Delete(ctx, object))).To(Succeed())
	}
	admissiontest.AwaitSilence(ctx, e.T, e.Admin, e.Namespace, binary.Patience)
}
