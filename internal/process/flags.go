package process

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

// flags are the flags of the command line. All other settings are in the configuration file.
type flags struct {
	config  string
	strict  bool
	version versionFlag
	help    bool
	set     *pflag.FlagSet
}

func newFlags(program Program) *flags {
	f := &flags{version: "false", set: pflag.NewFlagSet(program.Name, pflag.ContinueOnError)}
	f.set.SetOutput(io.Discard) // Main prints errors and usage, once.
	f.set.SortFlags = false
	f.set.StringVar(&f.config, "config", "", "path of the configuration `file` (required)")
	f.set.BoolVar(&f.strict, "strict-config", false, "refuse a configuration file with unknown or repeated fields instead of warning of them")
	f.set.Var(&f.version, "version", "print the version and exit; raw prints it as JSON")
	f.set.Lookup("version").NoOptDefVal = "true"
	f.set.BoolVarP(&f.help, "help", "h", false, "print this text and exit")
	return f
}

// parse reads the command line.
func (f *flags) parse(args []string) error {
	if err := f.set.Parse(args); err != nil {
		return fmt.Errorf("parse command line: %w", err)
	}
	if f.set.NArg() > 0 {
		return fmt.Errorf("parse command line: unexpected argument %q; only flags are taken", f.set.Arg(0))
	}
	return nil
}

func (f *flags) usage(program Program) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s.\n\n", program.Purpose)
	fmt.Fprintf(&text, "Usage:\n  %s --config=FILE [--strict-config]\n\nFlags:\n%s", program.Name, f.set.FlagUsages())
	if len(program.Subcommands) > 0 {
		text.WriteString("\nSubcommands (each explains itself with --help):\n")
	}
	for _, each := range program.Subcommands {
		fmt.Fprintf(&text, "  %-19s %s\n", each.Name, each.Purpose)
	}
	fmt.Fprintf(&text, `
Environment:
  KUBECONFIG          path of a kubeconfig file; used instead of %s.kubeconfig
`, program.sourceField())
	if program.Source == "" || program.Target != "" {
		fmt.Fprintf(&text, `  %-19s path of a kubeconfig file; used instead of %s.kubeconfig,
                      only if the configuration has a %[2]s
`, program.targetVariable(), program.targetField())
	}
	text.WriteString(`  POD_NAMESPACE       the namespace this process runs in, if its ServiceAccount does not contain it

Without a kubeconfig the process connects to the cluster that it runs in.
Every field of the configuration file is explained in docs/configuration.md.
`)
	return text.String()
}

// versionFlag is the value of --version: true, false or raw.
type versionFlag string

// String implements pflag.Value.
func (v *versionFlag) String() string { return string(*v) }

// Type implements pflag.Value; the usage text shows it as the value.
func (v *versionFlag) Type() string { return "true|false|raw" }

// Set implements pflag.Value.
func (v *versionFlag) Set(value string) error {
	switch value {
	case "true", "false", "raw":
		*v = versionFlag(value)
		return nil
	default:
		return fmt.Errorf("must be true, false or raw, not %q", value)
	}
}
