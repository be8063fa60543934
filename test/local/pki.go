package local

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
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

// validity is the lifetime of every certificate. It is long, because the certificates protect only one developer's machine, and are deleted
// with the state folder.
const validity = 10 * 365 * 24 * time.Hour

// masters is the group whose members have all rights.
const masters = "system:masters"

// The files of a PKI folder.
const (
	caCert, caKey                 = "ca.crt", "ca.key" // signs the API server, clients, and requests in the cluster
	apiServerCert, apiServerKey   = "kube-apiserver.crt", "kube-apiserver.key"
	etcdCACert, etcdCert, etcdKey = "etcd-ca.crt", "etcd.crt", "etcd.key" // for etcd and its only client, the API server
	serviceAccountKey             = "service-accounts.key"                // signs tokens
	// The API server is this client when it connects to kubelets, with all rights.
	kubeletClientCert, kubeletClientKey = "kube-apiserver-kubelet-client.crt", "kube-apiserver-kubelet-client.key"
)

// keyPair is a certificate and its private key in PEM. The keyPair of an authority signs other certificates.
type keyPair struct{ cert, key []byte }

func newAuthority(name string, now time.Time) (keyPair, error) {
	return keyPair{}.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}, now)
}

// server issues a certificate for a server on 127.0.0.1. The certificate is also valid for a client that belongs to no group.
func (by keyPair) server(name string, now time.Time) (keyPair, error) {
	return by.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 0, 1)}, // the second is the address of the Service "kubernetes"
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
	}, now)
}

// ServerCertificate issues a certificate for a server on 127.0.0.1. It returns the certificate, its key and the authority, which is new, in
// PEM.
func ServerCertificate(name string, now time.Time) (certificate, key, authority []byte, err error) {
	ca, err := newAuthority(name+"-ca", now)
	if err != nil {
		return nil, nil, nil, err
	}
	pair, err := ca.server(name, now)
	return pair.cert, pair.key, ca.cert, err
}

// client issues a certificate for the user in the groups.
func (by keyPair) client(user string, groups []string, now time.Time) (keyPair, error) {
	return by.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, now)
}

// sign returns a new key, and a certificate for it from the template, with a serial number and the validity. If the receiver is empty, the
// certificate signs itself.
func (by keyPair) sign(template *x509.Certificate, now time.Time) (keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, fmt.Errorf("generate key: %w", err)
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return keyPair{}, fmt.Errorf("generate serial number: %w", err)
	}
	template.NotBefore, template.NotAfter = now.Add(-time.Hour), now.Add(validity)
	issuer := tls.Certificate{Leaf: template, PrivateKey: key}
	if by.cert != nil {
		if issuer, err = tls.X509KeyPair(by.cert, by.key); err != nil {
			return keyPair{}, fmt.Errorf("read certificate authority: %w", err)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer.Leaf, key.Public(), issuer.PrivateKey)
	if err != nil {
		return keyPair{}, fmt.Errorf("sign certificate of %q: %w", template.Subject.CommonName, err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	return keyPair{cert: pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der}), key: keyPEM}, err
}

// loadAuthority reads the authority of the cluster from a PKI folder.
func loadAuthority(dir string) (keyPair, error) {
	certPEM, certErr := os.ReadFile(filepath.Join(dir, caCert))
	keyPEM, keyErr := os.ReadFile(filepath.Join(dir, caKey))
	if err := errors.Join(certErr, keyErr); err != nil {
		return keyPair{}, fmt.Errorf("read certificate authority: %w", err)
	}
	return keyPair{cert: certPEM, key: keyPEM}, nil
}

// createPKI creates the PKI folder, unless it exists. The folder appears complete, by a rename. If it was created by an earlier version,
// createPKI adds missing files; existing files stay, because running parts use them.
func createPKI(dir string, now time.Time) error {
	if _, err := os.Stat(dir); err == nil {
		return addKubeletClient(dir, now)
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
	if err := addKubeletClient(unfinished, now); err != nil {
		return err
	}
	return os.Rename(unfinished, dir)
}

// addKubeletClient issues the certificate with which the API server reaches kubelets, unless the folder has it. The certificate is written
// last, so that it never exists without its key.
func addKubeletClient(dir string, now time.Time) error {
	if _, err := os.Stat(filepath.Join(dir, kubeletClientCert)); err == nil {
		return nil
	}
	ca, err := loadAuthority(dir)
	if err != nil {
		return err
	}
	pair, err := ca.client("kube-apiserver-kubelet-client", []string{masters}, now)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, kubeletClientKey), pair.key, 0o600); err != nil {
		return fmt.Errorf("write key for kubelets: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, kubeletClientCert), pair.cert, 0o600); err != nil {
		return fmt.Errorf("write certificate for kubelets: %w", err)
	}
	return nil
}

func newPKI(now time.Time) (map[string][]byte, error) {
	ca, caErr := newAuthority("espalier-local", now)
	etcdCA, etcdErr := newAuthority("espalier-local-etcd", now)
	serving, servingErr := ca.server(apiServer, now)
	storage, storageErr := etcdCA.server(etcd, now)
	tokens, tokensErr := keyutil.MakeEllipticPrivateKeyPEM()
	return map[string][]byte{
		caCert: ca.cert, caKey: ca.key,
		apiServerCert: serving.cert, apiServerKey: serving.key,
		etcdCACert: etcdCA.cert, etcdCert: storage.cert, etcdKey: storage.key,
		serviceAccountKey: tokens,
	}, errors.Join(caErr, etcdErr, servingErr, storageErr, tokensErr)
}
