package backup

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/process"
)

func sprintf(format string, args ...any) string { return fmt.Sprintf(format, args...) }

// Mistakes are reported before the cluster is asked, and without a private key that was given in place of a recipient.
func TestMistakesInTheCommandLine(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	identity, dir := newIdentity(t), t.TempDir()
	write := func(name, content string) string {
		file := filepath.Join(dir, name)
		NewWithT(t).Expect(os.WriteFile(file, []byte(content), 0o600)).To(Succeed())
		return file
	}
	private, public := write("private", identity.String()+"\n"), write("public", identity.Recipient().String()+"\n")
	backup := write("garden.age", string(encrypted(t, example(), identity)))
	other := write("other", newIdentity(t).String())
	const see = "; see garden-operator backup --help"
	for name, tc := range map[string]struct {
		command string
		args    []string
		want    string
	}{
		"no file": {
			command: "backup", args: []string{"-r", "a"},
			want: "parse command line: name the file to write with --file" + see,
		},
		"no recipient": {
			command: "backup", args: []string{"-f", "a"},
			want: "parse command line: name at least one recipient with --recipient or --recipients-file; age-keygen makes one" + see,
		},
		"wrong recipient": {
			command: "backup", args: []string{"-f", "a", "-r", identity.Recipient().String(), "-r", identity.String()},
			want: "--recipient number 2 is no recipient of age, which begins with age1",
		},
		"wrong recipients": {
			command: "backup", args: []string{"-f", "a", "-R", private},
			want: "read recipients in " + private + ": error at line 1: unknown recipient type",
		},
		"no identity": {
			command: "restore", args: []string{"-f", "a"},
			want: "parse command line: name the file to restore with --file, and a file with an identity that can decrypt it with --identity; see " +
				"garden-operator restore --help",
		},
		"wrong identity": {
			command: "restore", args: []string{"-f", backup, "-i", public},
			want: "read identities in " + public + ": error at line 1: unknown identity type",
		},
		"missing file": {
			command: "restore", args: []string{"-f", filepath.Join(dir, "none"), "-i", private},
			want: "open backup: open " + filepath.Join(dir, "none") + ": no such file or directory",
		},
		"other people": {
			command: "restore", args: []string{"-f", backup, "-i", other},
			want: "read " + backup + ": it is encrypted to other recipients: none of the identities can decrypt it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			for _, each := range Commands(process.Program{Name: "garden-operator"}) {
				if each.Name == tc.command {
					err := each.Run(t.Context(), tc.args, &bytes.Buffer{})
					g.Expect(err).To(MatchError(tc.want))
					g.Expect(err.Error()).NotTo(ContainSubstring(identity.String()))
				}
			}
		})
	}
}

func TestTheReportNamesWhatIsNotInTheFile(t *testing.T) {
	g, b := NewWithT(t), example()
	b.Manifest.Absent = []string{"Secret dns"}
	b.Manifest.Rotations = map[string]string{
		"serviceAccountKey": "Preparing", "etcdEncryptionKey": "Completing", "certificateAuthorities": "Prepared",
	}
	var out bytes.Buffer
	g.Expect(report(&out, "garden.age", "abc", b, 2)).To(Succeed())
	g.Expect(out.String()).To(Equal(`Wrote garden.age: Garden local, 3 objects, encrypted to 2 recipients.
SHA-256: abc
Etcd virtual-garden-etcd-main has its backups in bucket (S3), below p.
Secret dns does not exist, although the Garden names it.
Make another backup when the reconciliation has ended, because of rotations: etcdEncryptionKey (Completing), serviceAccountKey (Preparing).
`))
}
