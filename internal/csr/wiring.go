// Package csr assembles the approver of certificates of kubelets. It contains no rules of its own.
package csr

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/csr/approver"
	"github.com/espalier-dev/espalier/internal/csr/rules"
	"github.com/espalier-dev/espalier/internal/process"
)

// machineRemedy is the remedy if the API server does not serve Machines.
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

// Needs returns what the family needs from its connections.
func Needs(cfg *config.ResourceManagerConfiguration) (process.Needs, error) {
	reads := []string{"list", "watch"}
	needs := process.Needs{
		Scheme:      clientgoscheme.Scheme,
		TargetCache: approver.TargetCache(cfg.Espalier.CSRApprover.ObserveOnly),
		TargetAccess: []process.Requirement{
			{Kind: certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"), Verbs: reads},
			{Kind: corev1.SchemeGroupVersion.WithKind("Node"), Verbs: reads},
		},
	}
	if cfg.Espalier.CSRApprover.WithoutMachines {
		return needs, nil
	}
	namespace := cfg.Controllers.KubeletCSRApprover.MachineNamespace
	needs.SourceCache = approver.SourceCache(namespace)
	machines := process.Requirement{Kind: approver.MachineKind(), Remedy: machineRemedy}
	if namespace == "" {
		machines.Verbs = reads // otherwise they are needed in one namespace only; see checkRights
	}
	needs.SourceAccess = []process.Requirement{machines}
	return needs, nil
}

// Add adds the controller to the manager of the source cluster.
func Add(
	lifetime context.Context, clusters *process.Clusters, cfg *config.ResourceManagerConfiguration, registry prometheus.Registerer,
) error {
	if err := Check(cfg); err != nil {
		return err
	}
	if err := checkRights(lifetime, clusters, cfg); err != nil {
		return err
	}
	section, own := cfg.Controllers.KubeletCSRApprover, cfg.Espalier.CSRApprover
	judged, err := judgedBy(section, own)
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
		Rules: judged, MachineNamespace: section.MachineNamespace, APIServer: endpoints,
		Metrics: approver.NewMetrics(registry, own.ObserveOnly),
	}
	if limit := own.RateLimit; limit != nil {
		r.Quota = &approver.Quota{
			Requests: limit.Requests, Period: limit.Period.Duration, MaxDelay: limit.MaxDelay.Duration, Clock: clusters.Clock,
		}
	}
	if tells(own) {
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

// tells reports whether Events are sent.
func tells(own config.EspalierCSRApprover) bool { return own.Events || own.ObserveOnly }

// judgedBy converts the configuration into rules.
func judgedBy(section config.KubeletCSRApproverController, own config.EspalierCSRApprover) (rules.Rules, error) {
	judged := rules.Rules{
		MachineNamespace: section.MachineNamespace, WithoutMachines: own.WithoutMachines,
		Subset:          own.SubsetOfAddresses,
		DeniedDNS:       rules.Patterns(own.DeniedIdentities.DNSPatterns),
		DeniedAPIServer: own.DeniedIdentities.APIServer,
		AllowUnset:      own.AllowUnsetExpiration,
	}
	var err error
	if judged.DeniedIPs, err = rules.Prefixes(own.DeniedIdentities.IPPrefixes); err != nil {
		return rules.Rules{}, fmt.Errorf("espalier.csrApprover.deniedIdentities: %w", err)
	}
	if own.AllowedDNSPatterns != nil {
		judged.AllowedDNS = ptr.To(rules.Patterns(*own.AllowedDNSPatterns))
	}
	if own.AllowedIPPrefixes != nil {
		allowed, err := rules.Prefixes(*own.AllowedIPPrefixes)
		if err != nil {
			return rules.Rules{}, fmt.Errorf("espalier.csrApprover.allowedIPPrefixes: %w", err)
		}
		judged.AllowedIPs = &allowed
	}
	if own.MaxExpiration != nil {
		judged.MaxExpiration = own.MaxExpiration.Duration
	}
	if own.WaitForObjects != nil {
		judged.WaitForObjects = own.WaitForObjects.Duration
	}
	return judged, nil
}
