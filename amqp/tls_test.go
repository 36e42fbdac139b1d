package amqp

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/warrenmq/warren/amqp/auth"
	"github.com/warrenmq/warren/frames"
)

// authority signs the certificates of a test.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pool *x509.CertPool
	next int64
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, pool: x509.NewCertPool(), next: 1}
	a.key = a.newKey()
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.cert = a.sign(template, template, &a.key.PublicKey)
	a.pool.AddCert(a.cert)
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return key
}

func (a *authority) sign(template, parent *x509.Certificate, key *ecdsa.PublicKey) *x509.Certificate {
	template.SerialNumber = big.NewInt(a.next)
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	a.next++
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert
}

// issue makes a certificate for a name.
func (a *authority) issue(subject pkix.Name) tls.Certificate {
	key := a.newKey()
	cert := a.sign(&x509.Certificate{
		Subject: subject, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, &key.PublicKey)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
}

// files writes a certificate, its key and the authority as PEM.
func (a *authority) files(c tls.Certificate) (cert, key, ca string) {
	dir := a.t.TempDir()
	write := func(name, typ string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: typ, Bytes: der}), 0o600); err != nil {
			a.t.Fatal(err)
		}
		return path
	}
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		a.t.Fatal(err)
	}
	return write("cert.pem", "CERTIFICATE", c.Certificate[0]), write("key.pem", "PRIVATE KEY", der), write("ca.pem", "CERTIFICATE", a.cert.Raw)
}

// listenTLS is site.listen with TLS.
func (s *site) listenTLS(a *authority) *site {
	s.t.Helper()
	config, err := TLSConfig(a.files(a.issue(pkix.Name{CommonName: "server"})))
	if err != nil {
		s.t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	s.addr = l.Addr().String()
	go s.server.Serve(tls.NewListener(l, config))
	return s
}

// dialTLS connects with or without a certificate.
func (s *site) dialTLS(a *authority, certs ...tls.Certificate) *client {
	s.t.Helper()
	plain, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	socket := tls.Client(plain, &tls.Config{RootCAs: a.pool, ServerName: "127.0.0.1", Certificates: certs})
	if err := socket.SetDeadline(time.Now().Add(patience)); err != nil {
		s.t.Fatal(err)
	}
	return newClient(s.t, socket)
}

// grant makes a user without a password.
func (s *site) grant(user string) {
	s.t.Helper()
	if err := s.broker.Users.PutUser(auth.User{Name: user}, nil); err != nil {
		s.t.Fatal(err)
	}
	if err := s.broker.Users.PutPermission(auth.Permission{User: user, VHost: "/", Configure: ".*", Write: ".*", Read: ".*"}, nil); err != nil {
		s.t.Fatal(err)
	}
}

// TestTLS: messages of all sizes go through, and an orderly close ends the
// stream in order.
func TestTLS(t *testing.T) {
	a := newAuthority(t)
	s := startSite(t, nil, Options{}).listenTLS(a)
	c := s.dialTLS(a).login(handshake{}).open(1)
	call[*frames.ConfirmSelectOk](c, 1, &frames.ConfirmSelect{})
	c.declare(1, "q", false)
	call[*frames.BasicConsumeOk](c, 1, &frames.BasicConsume{Queue: "q", NoAck: true})
	for _, size := range []int{0, 1, copyLimit, copyLimit + 1, 100_000, 3 << 20} {
		body := bytes.Repeat([]byte{byte(size)}, size)
		c.publish(1, "q", transient, body)
		acked, delivered := false, false
		for !acked || !delivered {
			switch _, m := c.method(); m.(type) {
			case *frames.BasicAck:
				acked = true
			case *frames.BasicDeliver:
				if got := c.body(1); !bytes.Equal(got, body) {
					t.Fatalf("a body of %d octets came out as %d", size, len(got))
				}
				delivered = true
			}
		}
	}
	c.close()
	s.clean()
}

// TestExternal: SASL EXTERNAL takes the user from the client's certificate, by
// its distinguished or its common name.
func TestExternal(t *testing.T) {
	a := newAuthority(t)
	alice := a.issue(pkix.Name{CommonName: "alice", Organization: []string{"Warren"}})
	for mode, user := range map[string]string{"": "CN=alice,O=Warren", auth.CertDistinguishedName: "CN=alice,O=Warren", auth.CertCommonName: "alice"} {
		t.Run("by "+mode, func(t *testing.T) {
			s := startSite(t, nil, Options{CertLoginFrom: mode}).listenTLS(a)
			s.grant(user)
			c := s.dialTLS(a, alice).login(handshake{mechanism: "EXTERNAL"}).open(1)
			info := s.broker.Sessions()[0].Describe()
			if info.User != user {
				t.Errorf("logged in as %q, want %q", info.User, user)
			}
			c.declare(1, "q", false)
			c.close()
			s.clean()
		})
	}
}

// TestExternalRefused: no certificate, one that names nobody, and one of
// another authority.
func TestExternalRefused(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	s := startSite(t, nil, Options{CertLoginFrom: auth.CertCommonName}).listenTLS(a)
	s.grant("alice")
	can := frames.Table{{Key: "authentication_failure_close", Value: true}}
	for name, certs := range map[string][]tls.Certificate{
		"no certificate": nil,
		"unknown user":   {a.issue(pkix.Name{CommonName: "bob"})},
		"no common name": {a.issue(pkix.Name{Organization: []string{"Warren"}})},
	} {
		c := s.dialTLS(a, certs...)
		c.start(handshake{mechanism: "EXTERNAL", capabilities: can})
		if e := expect[*frames.ConnectionClose](c, 0); e.ReplyCode != frames.AccessRefused {
			t.Errorf("%s: closed with %+v", name, e)
		}
		c.socket.Close()
	}
	c := s.dialTLS(a, other.issue(pkix.Name{CommonName: "alice"}))
	if _, err := c.socket.Write([]byte("AMQP\x00\x00\x09\x01")); err == nil {
		if _, err = c.next(); err == nil {
			t.Error("a certificate of an unknown authority was taken")
		}
	}
	s.clean()
}

// TestTLSHandshakeFails: what is no TLS, or stops in the middle, ends and
// leaves nothing.
func TestTLSHandshakeFails(t *testing.T) {
	a := newAuthority(t)
	s := startSite(t, nil, Options{HandshakeTimeout: 100 * time.Millisecond}).listenTLS(a)
	for name, octets := range map[string][]byte{
		"AMQP without TLS":     []byte("AMQP\x00\x00\x09\x01"),
		"part of client hello": {0x16, 0x03, 0x01, 0x02, 0x00, 0x01},
		"nothing":              nil,
	} {
		c := s.dial()
		c.write(octets)
		if b, err := io.ReadAll(c.socket); bytes.HasPrefix(b, []byte("AMQP")) {
			t.Errorf("%s: answered with %q, %v", name, b, err)
		}
	}
	s.clean()
	c := s.dialTLS(a) // TLS, then nothing
	if err := c.socket.(*tls.Conn).Handshake(); err != nil {
		t.Fatal(err)
	}
	c.gone()
	s.clean()
}

// TestTLSConfigErrors says which file is wrong.
func TestTLSConfigErrors(t *testing.T) {
	a := newAuthority(t)
	cert, key, ca := a.files(a.issue(pkix.Name{CommonName: "server"}))
	for name, files := range map[string][3]string{
		"no certificate":       {"missing", key, ca},
		"no key":               {cert, cert, ca},
		"no authority":         {cert, key, "missing"},
		"no certificate in it": {cert, key, key},
	} {
		if c, err := TLSConfig(files[0], files[1], files[2]); err == nil || c != nil {
			t.Errorf("%s: no error", name)
		}
	}
	if c, err := TLSConfig(cert, key, ""); err != nil || c.ClientCAs != nil {
		t.Errorf("without an authority: %v", err)
	}
}
