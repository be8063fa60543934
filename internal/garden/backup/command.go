package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/internal/garden/lifecycle"
	"github.com/espalier-dev/espalier/internal/process"
)

// Commands returns the subcommands of a program.
func Commands(program process.Program) []process.Subcommand {
	return []process.Subcommand{
		{
			Name: "backup", Purpose: "save the Garden with its keys in an encrypted file",
			Run: func(ctx context.Context, args []string, out io.Writer) error {
				return runBackup(ctx, program, args, out)
			},
		},
		{
			Name: "restore", Purpose: "bring a Garden back from such a file",
			Run: func(ctx context.Context, args []string, out io.Writer) error {
				return runRestore(ctx, program, args, out)
			},
		},
	}
}

// stdout is the name of a file that stands for the standard output.
const stdout = "-"

const backupUsage = `Saves the Garden of a runtime cluster in a file: its status, its keys, certificate authorities and passwords, the
encryption configurations of its API servers, the Secrets and ConfigMaps that it names, and the Extensions. The file is encrypted to the
recipients, with age. It does not contain the data of the etcds: it names the place of their backups. The cluster is not changed.

Usage:
  %s --file FILE [--recipient RECIPIENT]... [--recipients-file FILE]... [--config FILE]

Flags:
%s`

const restoreUsage = `Brings a Garden back from a file of the subcommand backup: creates its namespace, its Secrets and ConfigMaps, the
Extensions and the Garden, and writes its status. Objects that exist with the same content stay. If one exists with other content, or if the
file is damaged, incomplete, or of another Garden, nothing is written. If the command ends early, run it again. The Garden is paused until
it is complete. The file must come from a person that you trust: each user who knows a recipient can encrypt a file to it.

Usage:
  %s --file FILE --identity FILE [--identity FILE]... [--config FILE]

Flags:
%s`

// flags are the flags of both command lines.
type flags struct {
	file, config                string
	recipients, recipientsFiles []string
	identities                  []string
}

func (f *flags) defineConfig(set *pflag.FlagSet) {
	set.StringVar(&f.config, "config", "",
		"configuration `file` of the operator: its runtime cluster counts. Without it, the cluster of your kubeconfig")
}

func runBackup(ctx context.Context, program process.Program, args []string, out io.Writer) error {
	f := &flags{}
	line := process.CommandLine{
		Name: program.Name + " backup", Usage: backupUsage,
		Define: func(set *pflag.FlagSet) {
			set.StringVarP(&f.file, "file", "f", "", "`file` to write, which must not exist; - for standard output (required)")
			set.StringArrayVarP(&f.recipients, "recipient", "r", nil, "a `recipient`, age1…, who can decrypt the file; can be repeated")
			set.StringArrayVarP(&f.recipientsFiles, "recipients-file", "R", nil, "`file` with recipients, one a line; can be repeated")
			f.defineConfig(set)
		},
		Check: func() error {
			switch {
			case f.file == "":
				return errors.New("name the file to write with --file")
			case len(f.recipients)+len(f.recipientsFiles) == 0:
				return errors.New("name at least one recipient with --recipient or --recipients-file; age-keygen makes one")
			}
			return nil
		},
	}
	if proceed, err := line.Parse(args, out); err != nil || !proceed {
		return err
	}
	recipients, err := f.readRecipients()
	if err != nil {
		return err
	}
	c, err := connect(ctx, program, f.config)
	if err != nil {
		return err
	}
	b, err := Take(ctx, c, deployable.GardenNamespace, time.Now()) //nolint:forbidigo // it is the time in the manifest
	if err != nil {
		return fmt.Errorf("read the Garden: %w", err)
	}
	if f.file == stdout {
		return b.Write(out, recipients)
	}
	sum, err := save(f.file, func(w io.Writer) error { return b.Write(w, recipients) })
	if err != nil {
		return err
	}
	return report(out, f.file, sum, b, len(recipients))
}

// report describes a written file, without content of objects.
func report(out io.Writer, file, sum string, b *Backup, recipients int) error {
	var text strings.Builder
	fmt.Fprintf(&text, "Wrote %s: Garden %s, %d objects, encrypted to %d recipients.\nSHA-256: %s\n", file, b.Manifest.Garden.Name,
		len(b.Objects), recipients, sum)
	for _, each := range b.Manifest.Etcds {
		fmt.Fprintf(&text, "Etcd %s has its backups in %s (%s), below %s.\n", each.Name, each.Container, each.Provider, each.Prefix)
	}
	if len(b.Manifest.Etcds) == 0 {
		text.WriteString("No etcd has backups: without its volumes, the data of the virtual cluster is lost.\n")
	}
	for _, name := range b.Manifest.Absent {
		fmt.Fprintf(&text, "%s does not exist, although the Garden names it.\n", name)
	}
	var going []string
	for credential, phase := range b.Manifest.Rotations {
		if phase == "Preparing" || phase == "Completing" {
			going = append(going, credential+" ("+phase+")")
		}
	}
	slices.Sort(going)
	if len(going) > 0 {
		fmt.Fprintf(&text, "Make another backup when the reconciliation has ended, because of rotations: %s.\n", strings.Join(going, ", "))
	}
	_, err := io.WriteString(out, text.String())
	return err
}

func runRestore(ctx context.Context, program process.Program, args []string, out io.Writer) error {
	f := &flags{}
	line := process.CommandLine{
		Name: program.Name + " restore", Usage: restoreUsage,
		Define: func(set *pflag.FlagSet) {
			set.StringVarP(&f.file, "file", "f", "", "`file` to restore (required)")
			set.StringArrayVarP(&f.identities, "identity", "i", nil, "`file` with identities, AGE-SECRET-KEY-…; can be repeated (required)")
			f.defineConfig(set)
		},
		Check: func() error {
			if f.file == "" || len(f.identities) == 0 {
				return errors.New("name the file to restore with --file, and a file with an identity that can decrypt it with --identity")
			}
			return nil
		},
	}
	if proceed, err := line.Parse(args, out); err != nil || !proceed {
		return err
	}
	b, err := f.load()
	if err != nil {
		return err
	}
	c, err := connect(ctx, program, f.config)
	if err != nil {
		return err
	}
	r := &Restorer{Client: c, Say: func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }}
	r.Say("The file has Garden %s, as it was at %s.", b.Manifest.Garden.Name, b.Manifest.Taken.UTC().Format(time.RFC3339))
	if err := r.Restore(ctx, b); err != nil {
		return fmt.Errorf("restore %s: %w", f.file, err)
	}
	return nil
}

// load reads the backup file with the identities of the command line.
func (f *flags) load() (*Backup, error) {
	var identities []age.Identity
	for _, name := range f.identities {
		found, err := readLines(name, age.ParseIdentities)
		if err != nil {
			return nil, fmt.Errorf("read identities in %s: %w", name, err)
		}
		identities = append(identities, found...)
	}
	file, err := os.Open(f.file)
	if err != nil {
		return nil, fmt.Errorf("open backup: %w", err)
	}
	defer func() { _ = file.Close() }()
	b, err := Read(file, identities)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f.file, err)
	}
	return b, nil
}

func (f *flags) readRecipients() ([]age.Recipient, error) {
	all, err := ParseRecipients(f.recipients)
	if err != nil {
		return nil, fmt.Errorf("--recipient %w", err)
	}
	for _, name := range f.recipientsFiles {
		found, err := readLines(name, age.ParseRecipients)
		if err != nil {
			return nil, fmt.Errorf("read recipients in %s: %w", name, err)
		}
		all = append(all, found...)
	}
	return all, nil
}

// ParseRecipients parses recipients, each in one text.
func ParseRecipients(texts []string) ([]age.Recipient, error) {
	var all []age.Recipient
	for i, each := range texts {
		found, err := age.ParseRecipients(strings.NewReader(each))
		if err != nil { // the cause and the value could contain an identity
			return nil, fmt.Errorf("number %d is no recipient of age, which begins with age1", i+1)
		}
		all = append(all, found...)
	}
	return all, nil
}

// readLines parses a file.
func readLines[T any](name string, parse func(io.Reader) (T, error)) (T, error) {
	var none T
	file, err := os.Open(name)
	if err != nil {
		return none, err
	}
	defer func() { _ = file.Close() }()
	return parse(file)
}

// connect returns a client for the runtime cluster, which reads without a cache. The parameter file is the path of the configuration of
// the operator; if the path is empty, the client has the rights of the user.
func connect(ctx context.Context, program process.Program, file string) (client.Client, error) {
	scheme, err := lifecycle.Scheme()
	if err != nil {
		return nil, err
	}
	if file == "" {
		setup := &process.Setup{Program: program, Log: logr.Discard()}
		connections, failure := setup.DialAsUser(scheme)
		if failure != nil {
			return nil, failure
		}
		return connections.Source.Client, nil
	}
	_, setup, err := process.LoadFile(program, file, config.Operator)
	if err != nil {
		return nil, err
	}
	connections, err := setup.Dial(ctx, scheme)
	if err != nil {
		return nil, err
	}
	return connections.Source.Client, nil
}

// save writes a new file that only its owner may read, and returns its digest. A file with the name appears when it is complete.
func save(name string, write func(io.Writer) error) (sum string, err error) {
	if _, failure := os.Lstat(name); !errors.Is(failure, fs.ErrNotExist) {
		return "", fmt.Errorf("%s exists already, or cannot be written: name a new file", name)
	}
	file, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*.incomplete") // with mode 0600
	if err != nil {
		return "", fmt.Errorf("create file: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	hash := sha256.New()
	err = errors.Join(write(io.MultiWriter(file, hash)), file.Sync(), file.Close())
	if err != nil {
		return "", fmt.Errorf("write %s: %w", name, err)
	}
	if err := os.Rename(file.Name(), name); err != nil {
		return "", fmt.Errorf("write %s: %w", name, err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
