package proof

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	"k8s.io/client-go/util/keyutil"

	"github.com/espalier-dev/espalier/internal/garden/component/virtualsystem"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// User is the user of client certificates of probes. No role is bound to it.
const User = "espalier.dev:rotation-probe"

// Data keys of the Secrets with probes, beside the data keys of certificates.
const (
	dataKeyToken  = "token"
	dataKeyClaims = "claims"
)

// validity is the validity of probes, in years. A probe that expires would be refused for the wrong reason.
const validity = 10

// probe describes a Secret with a credential of the former generation. Its content is generated once in each rotation for each scope.
type probe struct {
	name string
	// scope is the scope of a token.
	scope Scope
	// checksum is the hash of the stored probe, in decimal digits, if that must be kept. Empty: the hash follows from name and scope.
	checksum string
	generate func(source secretconfig.Source) (map[string][]byte, error)
}

// LogicalName implements secretconfig.Config.
func (p probe) LogicalName() string { return p.name }

// Hash implements secretconfig.Config.
func (p probe) Hash() uint64 {
	if stored, err := strconv.ParseUint(p.checksum, 10, 64); err == nil {
		return stored
	}
	hash := fnv.New64a()
	_, _ = fmt.Fprint(hash, p.name) // it never fails
	if p.scope != (Scope{}) {
		_, _ = fmt.Fprintf(hash, "\x00%s\x00%s\x00%s", p.scope.Issuer, p.scope.Audience, p.scope.UID)
	}
	return hash.Sum64()
}

// Generate implements secretconfig.Config.
func (p probe) Generate(source secretconfig.Source) (map[string][]byte, error) {
	return p.generate(source)
}

// certify returns the data with a client certificate of User that an authority, by the data of its Secret, signs.
func certify(authority map[string][]byte, source secretconfig.Source) (map[string][]byte, error) {
	signer, err := secretconfig.ParseAuthority(authority)
	if err != nil {
		return nil, fmt.Errorf("read certificate authority: %w", err)
	}
	return secretconfig.Certificate{
		Name: User, CommonName: User, Type: secretconfig.Client, SigningCA: signer, SkipPublishingCACertificate: true,
	}.Generate(source)
}

// Certificate returns the credential with the certificate in the data of a Secret.
func Certificate(data map[string][]byte) (Credential, error) {
	pair, err := tls.X509KeyPair(data[secretconfig.DataKeyCertificate], data[secretconfig.DataKeyPrivateKey])
	if err != nil {
		return Credential{}, fmt.Errorf("read client certificate: %w", err)
	}
	return Credential{Certificate: &pair}, nil
}

// claims are the claims of a token of a ServiceAccount, as kube-apiserver issues them.
type claims struct {
	Audiences  []string   `json:"aud"`
	Expiry     int64      `json:"exp"`
	IssuedAt   int64      `json:"iat"`
	Issuer     string     `json:"iss"`
	NotBefore  int64      `json:"nbf"`
	Subject    string     `json:"sub"`
	Kubernetes kubernetes `json:"kubernetes.io"`
}

type kubernetes struct {
	Namespace string         `json:"namespace"`
	Account   serviceAccount `json:"serviceaccount"`
}

type serviceAccount struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// Scope contains the claims of a token that a server compares with its settings and with the ServiceAccount for probes.
type Scope struct {
	Issuer, Audience string
	// UID is the UID of the ServiceAccount.
	UID string
}

// Claims returns the claims of a token of the ServiceAccount for probes, in JSON. A server accepts them only while the ServiceAccount has
// the UID of the scope.
func (s Scope) Claims(now time.Time) ([]byte, error) {
	return json.Marshal(claims{
		Audiences: []string{s.Audience}, Issuer: s.Issuer, IssuedAt: now.Unix(), NotBefore: now.Add(-time.Minute).Unix(),
		Expiry:  now.AddDate(validity, 0, 0).Unix(),
		Subject: "system:serviceaccount:" + virtualsystem.ProbeNamespace + ":" + virtualsystem.ProbeAccount,
		Kubernetes: kubernetes{
			Namespace: virtualsystem.ProbeNamespace, Account: serviceAccount{Name: virtualsystem.ProbeAccount, UID: s.UID},
		},
	})
}

// Problem returns why all servers refuse a token with the claims of a stored probe, and the remedy, or "". It compares only the UID of the
// ServiceAccount, and not the issuer, because servers may accept several issuers.
func (s Scope) Problem(stored []byte) string {
	var c claims
	if err := json.Unmarshal(stored, &c); err != nil || c.Kubernetes.Account.UID == s.UID {
		return "" // the error about claims that are no JSON comes from the servers
	}
	return fmt.Sprintf("ServiceAccount %s/%s of the virtual cluster was created again during the rotation, after the former key was deleted: "+
		"its UID is %s, but the probe is for UID %s, so that servers refuse the probe whatever its key is%s",
		virtualsystem.ProbeNamespace, virtualsystem.ProbeAccount, s.UID, c.Kubernetes.Account.UID, remedy)
}

var errKey = errors.New("the key for tokens is no RSA key")

// Token returns a token with claims that a key in PEM signs. client-go and apimachinery cannot sign tokens.
func Token(claims, key []byte) (string, error) {
	parsed, err := keyutil.ParsePrivateKeyPEM(key)
	if err != nil {
		return "", errKey // the error of the parser could contain a part of the key
	}
	private, isRSA := parsed.(*rsa.PrivateKey)
	if !isRSA {
		return "", errKey
	}
	public, err := x509.MarshalPKIXPublicKey(private.Public())
	if err != nil {
		return "", fmt.Errorf("encode public key: %w", err)
	}
	id := sha256.Sum256(public) // kube-apiserver names keys so
	header, err := json.Marshal(map[string]string{"alg": "RS256", "kid": base64.RawURLEncoding.EncodeToString(id[:])})
	if err != nil {
		return "", fmt.Errorf("encode header of token: %w", err)
	}
	signed := base64.RawURLEncoding.EncodeToString(header) + "." + base64.RawURLEncoding.EncodeToString(claims)
	sum := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, private, crypto.SHA256, sum[:])
	if err != nil {
		return "", fmt.Errorf("sign token: %w", err)
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}
