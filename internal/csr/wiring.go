// Package csr assembles the approver of certificates of kubelets. It contains no rules of its own.
package csr

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/csr/approver"
	"github.com/espalier-dev/espalier/internal/csr/rules"
	"github.com/espalier-dev/espalier/internal/process"
)

// machineRemedy is the remedy in the error text if the API server does not serve Machines.
const machineRemedy = "kubectl apply -f <CRDs of the machine controller manager>, or set espalier.csrApprover.withoutMachines: true, " +
	"which is weaker"

// Check returns an error if the controller is not enabled, or if sections of the configuration contradict each other.
func Check(cfg *config.ResourceManagerConfiguration) error {
	section := cfg.Controllers.KubeletCSRApprover
	if !section.Enabled {
		return errors.New("nothing to do: set controllers.kubeletCSRApprover.enabled: true, or do not run csr-approver")
	}
	if cfg.Espalier.CSRApprover.WithoutMachines && section.MachineNamespace != "" {
		return errors.New("controllers.kubeletCSRApprover.machineNamespace and espalier.csrApprover.withoutMachines contradict each other: " +
			"remove one of them")
	}
	return nil
}

// Needs returns the requirements of the family for its connections.
func Needs(cfg *config.ResourceManagerConfiguration) (process.Needs, error) {
	own, reads := cfg.Espalier.CSRApprover, []string{"list", "watch"}
	needs := process.Needs{
		Scheme:      clientgoscheme.Scheme,
		TargetCache: approver.TargetCache(own.ObserveOnly),
		TargetAccess: []process.Requirement{
			{Kind: certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"), Verbs: reads},
			{Kind: corev1.SchemeGroupVersion.WithKind("Node"), Verbs: reads},
		},
	}
	if !own.ObserveOnly {
		needs.TargetRights = decisionRights()
	}
	if sendsEvents(own) {
		// CertificateSigningRequests have no namespace, so the Events about them are in namespace default.
		needs.TargetAccess = append(needs.TargetAccess, process.Requirement{
			Kind: eventsv1.SchemeGroupVersion.WithKind("Event"), Verbs: []string{"create", "patch"}, Namespace: metav1.NamespaceDefault,
		})
	}
	if own.WithoutMachines {
		return needs, nil
	}
	namespace := cfg.Controllers.KubeletCSRApprover.MachineNamespace
	needs.SourceCache = approver.SourceCache(namespace)
	needs.SourceAccess = []process.Requirement{
		{Kind: approver.MachineKind(), Verbs: reads, Namespace: namespace, Remedy: machineRemedy},
	}
	return needs, nil
}

func decisionRights() []process.Right {
	const group = certificatesv1.GroupName
	return []process.Right{
		{Verb: "update", Group: group, Resource: "certificatesigningrequests", Subresource: "approval"},
		{Verb: "approve", Group: group, Resource: "signers", Name: certificatesv1.KubeletServingSignerName, OrName: "kubernetes.io/*"},
	}
}

// Add adds the controller to the manager of the source cluster.
func Add(
	lifetime context.Context, clusters *process.Clusters, cfg *config.ResourceManagerConfiguration, registry prometheus.Registerer,
) error {
	section, own := cfg.Controllers.KubeletCSRApprover, cfg.Espalier.CSRApprover
	judged, err := rules.New(section, own)
	if err != nil {
		return err
	}
	var endpoints func(context.Context) (rules.Endpoints, error)
	if own.DeniedIdentities.APIServer {
		host, err := hostOf(clusters.TargetConfig)
		if err != nil {
			return err
		}
		server := apiServer{target: clusters.Target.GetAPIReader(), host: host}
		ips, err := server.clusterIPs(lifetime)
		if err != nil {
			return err
		}
		judged.DeniedIPs = append(judged.DeniedIPs, ips...)
		endpoints = server.endpoints
		if _, err := endpoints(lifetime); err != nil {
			return fmt.Errorf("%w; %s", err, apiServerRemedy)
		}
	}
	r := &approver.Reconciler{
		Target: clusters.Target.GetClient(), Source: clusters.Source.GetClient(), Clock: clusters.Clock,
		Rules: judged, APIServer: endpoints,
		Metrics: approver.NewMetrics(registry, own.ObserveOnly),
	}
	if limit := own.RateLimit; limit != nil {
		r.Quota = &approver.Quota{Limit: *limit, Clock: clusters.Clock}
	}
	if sendsEvents(own) {
		r.Events = &approver.Events{Recorder: clusters.Target.GetEventRecorder("csr-approver")}
	}
	if own.ObserveOnly {
		r.Observed = &approver.Observed{Since: clusters.Clock.Now()}
	}
	if err := r.SetupWithManager(lifetime, clusters.Source, clusters.Target, ptr.Deref(section.ConcurrentSyncs, 0)); err != nil {
		return fmt.Errorf("add controller %s: %w", approver.ControllerName, err)
	}
	return nil
}

// sendsEvents reports whether the configuration enables Events.
func sendsEvents(own config.EspalierCSRApprover) bool { return own.Events || own.ObserveOnly }
