package process

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/espalier-dev/espalier/internal/config"
)

// Configuration is the common interface of the types of all configuration files.
type Configuration interface {
	// Process returns the part of the configuration that every binary needs.
	Process() config.Process
	// Validate reports every mistake.
	Validate() field.ErrorList
}

// Setup contains the configuration and the log of a process that has no connection yet.
type Setup struct {
	// Program describes the binary.
	Program Program
	// Config is the common part of the configuration, with the overrides by environment variables.
	Config config.Process
	// Log is the process's logger.
	Log logr.Logger
	// WrapTransport, if not nil, wraps the transport of both clusters: tests use it to count requests and to interrupt them.
	WrapTransport func(http.RoundTripper) http.RoundTripper
	// UserConfig is the kubeconfig for DialAsUser; nil: the kubeconfig that kubectl would use.
	UserConfig clientcmd.ClientConfig
	// Clock is the clock of the process; nil stands for the real one. Tests use a fake clock.
	Clock clock.WithTickerAndDelayedExecution
	// Patience is how long Connect waits for API servers that do not answer; 0 means that it does not wait.
	Patience time.Duration
	// TargetCredentials are the credentials for the target if its connection names no kubeconfig. Nil: the in-cluster configuration.
	TargetCredentials *Credentials
	// Runnables are run by the manager that Connect creates, besides the controllers.
	Runnables []manager.Runnable

	end end // end reports whether the process is ending, which begins when the context of Connect ends
}

func (s *Setup) clock() clock.WithTickerAndDelayedExecution {
	if s.Clock == nil {
		return clock.RealClock{}
	}
	return s.Clock
}

// Load handles --version and --help, reads the configuration file with the decoder of its schema, validates it, and starts the log. It
// logs the binary, its flags and the warnings about the file. Errors about the command line or the file carry the usage text, which Main
// prints. These errors contain no contents of the file except invalid values.
func Load[C Configuration](
	program Program, args []string, out io.Writer, schema func([]byte) (C, []config.Warning, error),
) (C, *Setup, error) {
	var none C
	f := newFlags(program)
	if err := f.parse(args); err != nil {
		return none, nil, &usageError{err: err, usage: f.usage(program)}
	}
	if answered, err := answer(f, program, out); err != nil {
		return none, nil, err
	} else if answered {
		return none, nil, errAnswered
	}
	c, warnings, err := readConfig(f.config, f.strict, schema)
	if err != nil {
		return none, nil, &usageError{err: err, usage: f.usage(program)}
	}
	setup := &Setup{Program: program, Config: withEnvironment(program, c.Process(), os.Getenv), Patience: patience(os.Getenv)}
	setup.Log = newLogger(out, setup.Config.LogLevel, setup.Config.LogFormat, &setup.end)
	redirectLibraryLogs(setup.Log)
	logStart(setup.Log, program, f, warnings)
	return c, setup, nil
}

// answer prints the text for --help or --version if one of them is set, and reports whether it is.
func answer(f *flags, program Program, out io.Writer) (bool, error) {
	if f.help {
		_, err := fmt.Fprint(out, f.usage(program))
		return true, err
	}
	if f.version == "false" {
		return false, nil
	}
	text, err := describeVersion(program, f.version == "raw")
	if err != nil {
		return false, err
	}
	_, err = fmt.Fprintln(out, text)
	return true, err
}

// readConfig reads and validates a configuration file. If strict is true, it also returns an error for mistakes that are otherwise
// warnings.
func readConfig[C Configuration](
	file string, strict bool, schema func([]byte) (C, []config.Warning, error),
) (C, []config.Warning, error) {
	var none C
	if file == "" {
		return none, nil, errors.New("missing config file")
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return none, nil, fmt.Errorf("error reading config file: %w", err)
	}
	c, warnings, err := schema(data)
	if err != nil {
		return none, nil, fmt.Errorf("error decoding config: %w", err)
	}
	if strict {
		if err := refuseMistakes(warnings); err != nil {
			return none, nil, err
		}
	}
	if err := c.Validate().ToAggregate(); err != nil {
		return none, nil, fmt.Errorf("error validating config: %w", err)
	}
	return c, warnings, nil
}

// refuseMistakes returns an error if --strict-config must refuse the warnings.
func refuseMistakes(warnings []config.Warning) error {
	var errs []error
	for _, w := range warnings {
		if w.Mistake {
			errs = append(errs, errors.New(w.String()))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("error decoding config: --strict-config refuses: %w", utilerrors.NewAggregate(errs))
}

// withEnvironment applies two environment variables with the path of a kubeconfig. KUBECONFIG is for the source. TARGET_KUBECONFIG is for
// the target; if the target has another name, the variable begins with that name. It has no effect if the file has no target.
func withEnvironment(program Program, c config.Process, getenv func(string) string) config.Process {
	if kubeconfig := getenv("KUBECONFIG"); kubeconfig != "" {
		c.Source.Kubeconfig = kubeconfig
	}
	if kubeconfig := getenv(program.targetVariable()); kubeconfig != "" && c.Target != nil {
		target := *c.Target
		target.Kubeconfig = kubeconfig
		c.Target = &target
	}
	return c
}

// namespaceFile is the file from which a Pod can read its namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// ownNamespace returns the namespace of this process: POD_NAMESPACE, else the namespace of its ServiceAccount, else the namespace of its
// lease. Empty: not known.
func ownNamespace(getenv func(string) string, readFile func(string) ([]byte, error), leaseNamespace string) string {
	if namespace := getenv("POD_NAMESPACE"); namespace != "" {
		return namespace
	}
	if data, err := readFile(namespaceFile); err == nil {
		if namespace := strings.TrimSpace(string(data)); namespace != "" {
			return namespace
		}
	}
	return leaseNamespace
}

func logStart(log logr.Logger, program Program, f *flags, warnings []config.Warning) {
	log.Info("Starting", "binary", program.Name, "version", Version)
	f.set.VisitAll(func(flag *pflag.Flag) {
		log.Info("Flag", "name", flag.Name, "value", flag.Value.String())
	})
	for _, w := range warnings {
		log.Info("Configuration warning", "field", w.Path, "warning", w.Message)
	}
}
