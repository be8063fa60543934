package garden

import (
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/espalier-dev/espalier/internal/admission/serving"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/garden/webhook"
)

// A process that manages its certificates itself needs rights to three kinds of objects. In its own namespace, it needs the Secret with
// its certificates, and the lease of the replica that writes this Secret. In the cluster, it needs its webhook configurations.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=create,namespace=espalier-system,roleName=espalier-garden-operator-selfmanaged
// +kubebuilder:rbac:groups="",resources=secrets,resourceNames=espalier-garden-operator,verbs=get;list;watch;update,namespace=espalier-system,roleName=espalier-garden-operator-selfmanaged
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=create,namespace=espalier-system,roleName=espalier-garden-operator-selfmanaged
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=espalier-garden-operator,verbs=get;update,namespace=espalier-system,roleName=espalier-garden-operator-selfmanaged
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations;validatingwebhookconfigurations,verbs=create,roleName=espalier-garden-operator-selfmanaged
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations;validatingwebhookconfigurations,resourceNames=gardener-operator,verbs=get;list;watch;patch,roleName=espalier-garden-operator-selfmanaged

func server(cfg *config.OperatorConfiguration) *serving.Server {
	return serving.New(serving.Options{
		BindAddress: cfg.Server.Webhooks.BindAddress, Port: cfg.Server.Webhooks.Port, CertDir: cfg.Server.Webhooks.TLS.ServerCertDir,
		ShutdownDelay: ptr.Deref(cfg.Espalier.Garden.Webhooks.ShutdownDelay, metav1.Duration{}).Duration,
		Clock:         clock.RealClock{}, Log: ctrl.Log.WithName("webhook-server"),
	})
}

// addWebhooks adds the webhooks. The webhook configurations decide which of them the API server calls.
func addWebhooks(p *parts) error {
	handlers := webhook.Handlers()
	served := make([]serving.Webhook, 0, len(handlers))
	for _, each := range handlers {
		served = append(served, serving.Webhook{
			Name: each.Name, Path: each.Webhook.Path, Mutating: each.Mutating(), Handler: each.Review(p.clusters.Source.GetAPIReader()),
		})
	}
	server, err := serving.Add(p.clusters, p.registry, served)
	if err != nil {
		return err
	}
	return keepWebhooks(p, server)
}

// keepWebhooks lets the server create its own certificate, and maintains the webhook configurations, if selfManaged is set.
func keepWebhooks(p *parts, server *serving.Server) error {
	if p.cfg.Espalier.Garden.Webhooks.SelfManaged == nil {
		return nil
	}
	own := *p.cfg.Espalier.Garden.Webhooks.SelfManaged
	var err error
	if own.URL, err = addressOf(own, p.clusters.OwnNamespace, os.Getenv); err != nil {
		return err
	}
	err = server.KeepCertificate(serving.SelfManaged{
		Clusters: p.clusters, Settings: &own, SettingsPath: "espalier.garden.webhooks.selfManaged", Registry: p.registry,
		Configurations: webhook.Configurations,
	})
	if err != nil {
		return fmt.Errorf("manage webhooks: %w", err)
	}
	return nil
}

// addressOf returns the URL by which API servers reach the webhooks. If the result is empty, API servers use the Service. If the
// configuration contains no URL, the environment variable WEBHOOK_MODE decides, as for Gardener's operator. Its value service (the
// default) selects the Service, url selects the host in the variable WEBHOOK_URL, and url-service selects a URL with the DNS name of the
// Service.
func addressOf(own config.EspalierSelfManagedWebhooks, namespace string, getenv func(string) string) (string, error) {
	if own.URL != "" {
		return own.URL, nil
	}
	switch mode := getenv("WEBHOOK_MODE"); mode {
	case "", "service":
		return "", nil
	case "url":
		if host := getenv("WEBHOOK_URL"); host != "" {
			return "https://" + host, nil
		}
		return "", fmt.Errorf("WEBHOOK_MODE is %q: WEBHOOK_URL must be the host, or host and port, of the webhooks", mode)
	case "url-service":
		return fmt.Sprintf("https://%s.%s.svc:443", own.ServiceName, namespace), nil
	default:
		return "", fmt.Errorf("WEBHOOK_MODE must be service, url or url-service, not %q", mode)
	}
}
