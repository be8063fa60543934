// Package settings turns the configuration file and the environment of the operator into settings of its reconciler, for the operator and
// for plans.
package settings

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/process"
)

// SkippedComponents returns the components that the operator skips. Package config cannot check their names: it does not know the rows.
func SkippedComponents(cfg *config.OperatorConfiguration) ([]string, error) {
	names := cfg.Espalier.Garden.SkipComponents
	if errs := components.ValidateSkipped(names, field.NewPath("espalier", "garden", "skipComponents")); len(errs) > 0 {
		return nil, fmt.Errorf("check configuration: %w", errs.ToAggregate())
	}
	return names, nil
}

// Resolves reports whether a host has an address.
func Resolves(ctx context.Context, host string) bool {
	addresses, err := net.DefaultResolver.LookupHost(ctx, host)
	return err == nil && len(addresses) > 0
}

// timeTimeout bounds the request for the time of the API server.
const timeTimeout = 10 * time.Second

// ServerTime returns a function that returns the time in the header Date of an answer of the API server. The time is zero if the answer
// has no such header, or if the header cannot be read.
func ServerTime(server *rest.Config, c *http.Client) func(ctx context.Context) (time.Time, error) {
	return func(ctx context.Context) (time.Time, error) {
		ctx, cancel := context.WithTimeout(ctx, timeTimeout)
		defer cancel()
		base, _, err := rest.DefaultServerUrlFor(server)
		if err != nil {
			return time.Time{}, fmt.Errorf("read address of API server: %w", err)
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("version").String(), http.NoBody)
		if err != nil {
			return time.Time{}, fmt.Errorf("build request: %w", err)
		}
		answer, err := c.Do(request)
		if err != nil {
			return time.Time{}, err
		}
		if err := answer.Body.Close(); err != nil {
			return time.Time{}, fmt.Errorf("close answer: %w", err)
		}
		date, _ := http.ParseTime(answer.Header.Get("Date")) // zero if there is none, or if it cannot be read
		return date, nil
	}
}

// Values returns o with the values of components that the configuration cfg determines. The configuration must be valid and contain all
// defaults. The parameter o already contains the images of other projects' programs.
func Values(cfg *config.OperatorConfiguration, o values.Operator) values.Operator {
	o.Namespace, o.Image = deployable.GardenNamespace, ownImages(cfg.Espalier.Garden.Images, process.Version)
	o.LogLevel, o.LogFormat = cfg.LogLevel, cfg.LogFormat
	o.NetworkPolicyWorkers = *cfg.Controllers.NetworkPolicy.ConcurrentSyncs
	o.NamespaceSelectors = cfg.Controllers.NetworkPolicy.AdditionalNamespaceSelectors
	o.DefaultSeccompProfile = cfg.Enabled(config.GateDefaultSeccompProfile)
	o.ProjectController = cfg.Espalier.Garden.ProjectController
	o.BackupMetadataService = cfg.Espalier.Garden.BackupMetadataService
	o.SkipComponents = cfg.Espalier.Garden.SkipComponents
	o.DisableNginxIngress = cfg.Enabled(config.GateDisableNginxIngressInGarden)
	o.OpenTelemetryCollector = cfg.Enabled(config.GateOpenTelemetryCollector)
	o.VictoriaLogs, o.RemoveVali = cfg.Enabled(config.GateVictoriaLogsBackend), cfg.Enabled(config.GateRemoveVali)
	o.PrometheusHealthChecks = cfg.Enabled(config.GatePrometheusHealthChecks)
	o.Perses = cfg.Espalier.Garden.Perses
	o.BackupEntry = cfg.Enabled(config.GateBackupEntryForGarden)
	o.ETCDConfig = *cfg.Controllers.Garden.ETCDConfig
	if t := cfg.NodeToleration; t != nil {
		o.NotReadySeconds, o.UnreachableSeconds = t.DefaultNotReadyTolerationSeconds, t.DefaultUnreachableTolerationSeconds
	}
	return o
}

// ownImages returns the function that names the image of a binary.
func ownImages(from config.EspalierImages, version string) func(binary string) string {
	tag := cmp.Or(from.Tag, version)
	return func(binary string) string { return from.Repository + "/" + binary + ":" + tag }
}
