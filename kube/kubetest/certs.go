// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority is the certificate authority of a cluster.
type authority struct {
	folder string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	pem    []byte // the certificate
}

// identity is the subject of a certificate.
type identity struct {
	name   string   // common name: the user
	groups []string // organizations: the user's groups
	ips    []net.IP // set for servers
}

// pair is a certificate and its key, as PEM and as files.
type pair struct {
	cert, key         []byte
	certFile, keyFile string
}

// certificateLife is longer than any test runs.
const certificateLife = 7 * 24 * time.Hour

// newAuthority creates an authority with the files ca.crt and ca.key in folder.
func newAuthority(folder string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make certificate authority: %w", err)
	}
	template, err := certificate(identity{name: "fairway-test"})
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make certificate authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make certificate authority: %w", err)
	}
	a := &authority{folder: folder, cert: cert, key: key}
	p, err := writePair(folder, "ca", der, key)
	a.pem = p.cert
	return a, err
}

// issue creates a certificate in the files name.crt and name.key.
func (a *authority) issue(name string, who identity) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, fmt.Errorf("issue certificate %s: %w", name, err)
	}
	template, err := certificate(who)
	if err != nil {
		return pair{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return pair{}, fmt.Errorf("issue certificate %s: %w", name, err)
	}
	return writePair(a.folder, name, der, key)
}

func certificate(who identity) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("choose serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: who.name, Organization: who.groups},
		NotBefore:    now.Add(-time.Hour), // even the clock of one machine may jump
		NotAfter:     now.Add(certificateLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{"localhost", "kubernetes.default.svc"},
		IPAddresses:  who.ips,
	}, nil
}

func writePair(folder, name string, der []byte, key *ecdsa.PrivateKey) (pair, error) {
	keyPEM, err := privatePEM(key)
	if err != nil {
		return pair{}, err
	}
	p := pair{
		cert:     pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:      keyPEM,
		certFile: filepath.Join(folder, name+".crt"),
		keyFile:  filepath.Join(folder, name+".key"),
	}
	if err := os.WriteFile(p.certFile, p.cert, 0o600); err != nil {
		return pair{}, fmt.Errorf("write certificate: %w", err)
	}
	if err := os.WriteFile(p.keyFile, p.key, 0o600); err != nil {
		return pair{}, fmt.Errorf("write key: %w", err)
	}
	return p, nil
}

func privatePEM(key crypto.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// writeTokenKeys creates the key that signs service-account tokens, in the files sa.key
// and sa.pub.
func writeTokenKeys(folder string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make service-account key: %w", err)
	}
	private, err := privatePEM(key)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("encode service-account key: %w", err)
	}
	if err := os.WriteFile(filepath.Join(folder, "sa.key"), private, 0o600); err != nil {
		return fmt.Errorf("write service-account key: %w", err)
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	if err := os.WriteFile(filepath.Join(folder, "sa.pub"), block, 0o600); err != nil {
		return fmt.Errorf("write service-account key: %w", err)
	}
	return nil
}
