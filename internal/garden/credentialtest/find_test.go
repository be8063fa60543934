package credentialtest_test

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/credentialtest"
)

const webToken = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJhIn0.c2lnbmF0dXJl"

func block(content string) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(content)}))
}

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	NewWithT(t).Expect(yaml.Unmarshal([]byte(text), &o.Object)).To(Succeed())
	return o
}

// secret returns a Secret in YAML with one data key.
func secret(t *testing.T, name, labels, key, content string) string {
	t.Helper()
	text, err := yaml.Marshal(map[string]any{
		"kind": "Secret", "metadata": map[string]any{"name": name, "labels": map[string]any{"managed-by": "secrets-manager", "name": labels}},
		"data": map[string][]byte{key: []byte(content)},
	})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return string(text)
}

func TestCredentialsAreFoundInAllForms(t *testing.T) {
	kubeconfig := fmt.Sprintf("kind: Config\nclusters: [{cluster: {certificate-authority-data: %s}}]\nusers: [{user: {token: abc}}]\n",
		encoded(block("authority")))
	for sentence, tc := range map[string]struct {
		object string
		found  []string
	}{
		"a certificate and its key in a Secret": {
			secret(t, "a", "", "tls.crt", block("a")+strings.ReplaceAll(block("b"), "CERTIFICATE", "RSA PRIVATE KEY")),
			[]string{"CERTIFICATE in .data.tls.crt", "RSA PRIVATE KEY in .data.tls.crt"},
		},
		"a bundle in a ConfigMap": {
			"kind: ConfigMap\ndata: {ca: " + strconv.Quote(block("a")+block("b")) + "}",
			[]string{"CERTIFICATE in .data.ca", "CERTIFICATE in .data.ca"},
		},
		"a kubeconfig in a Secret": {
			secret(t, "a", "", "kubeconfig", kubeconfig), []string{
				"CERTIFICATE in .data.kubeconfig.clusters[0].cluster.certificate-authority-data",
				"value in .data.kubeconfig.users[0].user.token",
			},
		},
		"a webhook": {
			"kind: A\nwebhooks: [{clientConfig: {caBundle: " + encoded(block("a")) + "}}]",
			[]string{"CERTIFICATE in .webhooks[0].clientConfig.caBundle"},
		},
		"a conversion of a definition": {
			"kind: A\nspec: {conversion: {webhook: {clientConfig: {caBundle: " + encoded(block("a")) + "}}}}",
			[]string{"CERTIFICATE in .spec.conversion.webhook.clientConfig.caBundle"},
		},
		"objects in a ManagedResource": {
			secret(t, "a", "", "x.yaml", "kind: APIService\nspec: {caBundle: "+encoded(block("a"))+"}\n---\n"+
				secret(t, "b", "", "password", "short")),
			[]string{"CERTIFICATE in .data.x.yaml.spec.caBundle", "value in .data.x.yaml.data.password"},
		},
		"a token in an argument": {"kind: A\nargs: [--token=" + webToken + "]", []string{"token in .args[0]"}},
		"the header of a probe": {
			"kind: Deployment\nheaders: [{name: Authorization, value: Bearer abcdefgh}]",
			[]string{"token in .headers[0].value"},
		},
		"a list of static tokens": {secret(t, "a", "", "static_tokens.csv", "abc,user,uid\n"), []string{"token in .data.static_tokens.csv"}},
		"random bytes":            {secret(t, "a", "", "x", "\xff\xfe"), []string{"value in .data.x"}},
		"a long word":             {secret(t, "a", "", "x", "abcdefghijklmnop"), []string{"value in .data.x"}},
		"a key of a configuration": {
			secret(t, "a", "", "configuration", "resources: [{providers: [{aescbc: {keys: [{name: key1, secret: YWJj}]}}]}]"),
			[]string{"value in .data.configuration.resources[0].providers[0].aescbc.keys[0].secret"},
		},
		"a name, a file and a sentence": {secret(t, "a", "", "x", "a sentence of several words"), nil},
		"a volume":                      {"kind: A\nvolumes: [{secret: {secretName: a}}]\ntokenFile: /a/token", nil},
	} {
		t.Run(sentence, func(t *testing.T) {
			var found []string
			for _, each := range credentialtest.Find(object(t, tc.object)) {
				text, _, _ := strings.Cut(each.String(), " of ")
				found = append(found, text)
			}
			NewWithT(t).Expect(found).To(Equal(tc.found))
		})
	}
}

func TestCopiesBelongToTheRowOfTheirOriginal(t *testing.T) {
	g := NewWithT(t)
	row := func(name, secret string) components.Owned {
		return components.Owned{Credential: component.Credential{Name: name, Secret: secret}}
	}
	found, unknown := credentialtest.Match([]*unstructured.Unstructured{
		object(t, "kind: APIService\nmetadata: {name: a}\nspec: {caBundle: "+encoded(block("ca"))+"}"),
		object(t, "kind: APIService\nmetadata: {name: b}\nspec: {caBundle: "+encoded(block("other"))+"}"),
		object(t, secret(t, "ca-1", "ca", "ca.crt", block("ca"))),
		object(t, secret(t, "key-1", "key", "secret", "abc")),
		object(t, "kind: ConfigMap\ndata: {x: 'keys: [{secret: YWJj}]'}"),
		object(t, secret(t, "access-a", "", "token", "t")),
		object(t, secret(t, "stranger", "", "token", "u")),
	}, []components.Owned{row("ca", ""), row("key", ""), row("access", "access-*"), row("none", "")})
	g.Expect(found).To(Equal(map[string]int{"ca": 2, "key": 2, "access": 1}))
	var names []string
	for _, each := range unknown {
		names = append(names, each.String())
	}
	g.Expect(names).To(Equal([]string{"CERTIFICATE in .spec.caBundle of APIService /b", "value in .data.token of Secret /stranger"}))
}

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
