package local

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// validity is the lifetime of every certificate. They protect one developer's machine and are deleted with the state folder.
const validity = 10 * 365 * 24 * time.Hour

// The files of a PKI folder.
const (
	// signs the API server, clients, and requests in the cluster
	caCert, caKey                   = "ca.crt", "ca.key"
	apiServerCert, apiServerKey     = "kube-apiserver.crt", "kube-apiserver.key"     //
	etcdCACert, etcdCert, etcdKey   = "etcd-ca.crt", "etcd.crt", "etcd.key"          // etcd and its only client, the API server
	serviceAccountKey, serviceAcPub = "service-accounts.key", "service-accounts.pub" // signs tokens
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// keyPair is a certificate and its private key in PEM.
type keyPair struct{ cert, key []byte }

func newAuthority(name string, now time.Time) (authority, keyPair, error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	pair, key, err := sign(template, authority{}, now)
	if err != nil {
		return authority{}, keyPair{}, err
	}
	certs, err := cert.ParseCertsPEM(pair.cert)
	if err != nil {
		return authority{}, keyPair{}, err
	}
	return authority{cert: certs[0], key: key}, pair, nil
}

// server issues a certificate for a server on 127.0.0.1, which is also valid for a client.
func (a authority) server(name string, now time.Time) (keyPair, error) {
	pair, _, err := sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 0, 1)}, // the second is that of the Service "kubernetes"
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
	}, a, now)
	return pair, err
}

// client issues a certificate for the user in the groups.
func (a authority) client(user string, groups []string, now time.Time) (keyPair, error) {
	pair, _, err := sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, a, now)
	return pair, err
}

// sign adds a new key, a serial number and the validity to the template and signs it; an empty authority means self-signed.
func sign(template *x509.Certificate, by authority, now time.Time) (keyPair, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, nil, fmt.Errorf("generate key: %w", err)
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return keyPair{}, nil, fmt.Errorf("generate serial number: %w", err)
	}
	template.NotBefore, template.NotAfter = now.Add(-time.Hour), now.Add(validity)
	if by.cert == nil {
		by = authority{cert: template, key: key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, key.Public(), by.key)
	if err != nil {
		return keyPair{}, nil, fmt.Errorf("sign certificate of %q: %w", template.Subject.CommonName, err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	return keyPair{cert: pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der}), key: keyPEM}, key, err
}

// loadAuthority reads the cluster's authority from a PKI folder.
func loadAuthority(dir string) (authority, error) {
	certs, err := cert.CertsFromFile(filepath.Join(dir, caCert))
	if err != nil {
		return authority{}, fmt.Errorf("read certificate authority: %w", err)
	}
	key, err := keyutil.PrivateKeyFromFile(filepath.Join(dir, caKey))
	if err != nil {
		return authority{}, fmt.Errorf("read certificate authority: %w", err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return authority{}, errors.New("read certificate authority: its key cannot sign")
	}
	return authority{cert: certs[0], key: signer}, nil
}

// createPKI creates the folder, unless it exists. A rename makes it appear complete.
func createPKI(dir string, now time.Time) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	files, err := newPKI(now)
	if err != nil {
		return err
	}
	unfinished := dir + ".new"
	if err := errors.Join(os.RemoveAll(unfinished), os.MkdirAll(unfinished, 0o700)); err != nil {
		return fmt.Errorf("create PKI folder: %w", err)
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(unfinished, name), data, 0o600); err != nil {
			return fmt.Errorf("create PKI folder: %w", err)
		}
	}
	return os.Rename(unfinished, dir)
}

func newPKI(now time.Time) (map[string][]byte, error) {
	ca, caPair, err := newAuthority("espalier-local", now)
	if err != nil {
		return nil, err
	}
	etcdCA, etcdCAPair, err := newAuthority("espalier-local-etcd", now)
	if err != nil {
		return nil, err
	}
	serving, err := ca.server(apiServer, now)
	if err != nil {
		return nil, err
	}
	storage, err := etcdCA.server(etcd, now)
	if err != nil {
		return nil, err
	}
	tokens, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate key: %w", err)
	}
	tokensPEM, err := keyutil.MarshalPrivateKeyToPEM(tokens)
	if err != nil {
		return nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(tokens.Public())
	if err != nil {
		return nil, fmt.Errorf("encode public key: %w", err)
	}
	return map[string][]byte{
		caCert: caPair.cert, caKey: caPair.key,
		apiServerCert: serving.cert, apiServerKey: serving.key,
		etcdCACert: etcdCAPair.cert, etcdCert: storage.cert, etcdKey: storage.key,
		serviceAccountKey: tokensPEM,
		serviceAcPub:      pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}),
	}, nil
}
