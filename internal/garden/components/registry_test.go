package components_test

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/secrets"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// rotations are the operations that rotate credentials, and the tests that show the rotations.
var rotations = map[rotation.Credential]struct{ operation, test string }{
	rotation.CertificateAuthorities: {"rotate-ca-start", "TestRotationOfAuthoritiesKeepsTheOldOnesUntilItCompletes"},
	rotation.ServiceAccountKey:      {"rotate-serviceaccount-key-start", "TestNewKeyForTokensIsPreparedWhenAllTokensAreRenewed"},
	rotation.ETCDEncryptionKey:      {"rotate-etcd-encryption-key", "TestRotationOfTheEncryptionKeyWritesEncryptedObjectsAgain"},
	rotation.Observability:          {"rotate-observability-credentials", "TestRotationsRenewTheCredentialsOfSeeds"},
	rotation.WorkloadIdentityKey:    {"rotate-workload-identity-key-start", "TestRotationsRenewTheCredentialsOfSeeds"},
}

// registry returns the table of credentials.
func registry(t *testing.T) string {
	t.Helper()
	g, tests := NewWithT(t), testNames(t)
	var out strings.Builder
	out.WriteString("| credential | owner | purpose | used by | valid for | renewed | restored | shown by |\n")
	out.WriteString("|---|---|---|---|---|---|---|---|\n")
	for _, each := range components.Registry() {
		complete(&each.Credential)
		g.Expect([]string{each.Purpose, each.Users, each.Lifetime, each.Renewal}).NotTo(ContainElement(""), each.Name)
		if each.Test != "" {
			g.Expect(tests).To(HaveKey(each.Test), each.Name)
			each.Test = "`" + each.Test + "`"
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s | %s | %s | %s | %s |\n",
			each.Name, each.Owner, each.Purpose, each.Users, each.Lifetime, each.Renewal, each.Restored, each.Test)
	}
	return out.String()
}

// complete sets the fields for the documentation that follow from the others.
func complete(c *component.Credential) {
	request := secrets.Request{}
	if c.Request != nil {
		request = c.Request(values.Values{Operator: values.Operator{Namespace: "garden"}})
	}
	certificate, isCertificate := request.Config.(secretconfig.Certificate)
	isCertificate = isCertificate || c.Request == nil
	switch {
	case c.Lifetime != "":
	case certificate.Validity != nil:
		c.Lifetime = fmt.Sprintf("%d days", *certificate.Validity/(24*time.Hour))
	case isCertificate:
		c.Lifetime = component.CertificateLifetime
	default:
		c.Lifetime = "without end"
	}
	rotated, isRotated := rotations[c.Rotation]
	switch {
	case c.Renewal != "":
		return
	case isRotated:
		c.Renewal, c.Test = "operation `"+rotated.operation+"`", rotated.test
	case request.SignedBy != "" || c.Request == nil:
		c.Renewal = "by the operator, after 80 % of its validity and with its authority"
	default:
		c.Renewal = "by the operator, before it expires"
	}
	c.Test = cmp.Or(c.Test, "TestCertificatesOfARefusedGardenAreRenewed")
}

// testNames returns the names of all tests.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names, declaration := map[string]bool{}, regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	NewWithT(t).Expect(filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		content, err := os.ReadFile(path)
		for _, found := range declaration.FindAllSubmatch(content, -1) {
			names[string(found[1])] = true
		}
		return err
	})).To(Succeed())
	return names
}
