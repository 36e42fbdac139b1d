package auth

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
)

// certificate returns as much of a certificate as EXTERNAL looks at. The subject is written as relative names with a
// blank line between them, each attribute a line "number=value".
func certificate(t *testing.T, subject string) *x509.Certificate {
	t.Helper()
	var rdns pkix.RDNSequence
	for rdn := range strings.SplitSeq(subject, "\n\n") {
		var set pkix.RelativeDistinguishedNameSET
		for line := range strings.SplitSeq(rdn, "\n") {
			number, value, _ := strings.Cut(line, "=")
			var oid asn1.ObjectIdentifier
			for part := range strings.SplitSeq(number, ".") {
				n, err := strconv.Atoi(part)
				if err != nil {
					t.Fatal(err)
				}
				oid = append(oid, n)
			}
			set = append(set, pkix.AttributeTypeAndValue{Type: oid, Value: value})
		}
		rdns = append(rdns, set)
	}
	der, err := asn1.Marshal(rdns)
	if err != nil {
		t.Fatal(err)
	}
	return &x509.Certificate{RawSubject: der}
}

// The names RabbitMQ 3.10.8 itself made of certificates with these subjects (rabbit_ssl:peer_cert_auth_name).
func TestCertificateUser(t *testing.T) {
	const dc, uid, email = "0.9.2342.19200300.100.1.25", "0.9.2342.19200300.100.1.1", "1.2.840.113549.1.9.1"
	for _, c := range []struct{ subject, dn, cn string }{
		{"2.5.4.6=DE\n\n2.5.4.8=Bayern\n\n2.5.4.7=München\n\n2.5.4.10=Acme, Inc.\n\n2.5.4.11=R",
			`OU=R,O=Acme\, Inc.,L=M\C3\BCnchen,ST=Bayern,C=DE`, ""},
		{dc + "=org\n\n" + dc + "=example\n\n2.5.4.3=John Doe\n" + uid + "=jd\n\n" + email + "=j@example.org",
			`EMAILADDRESS=j@example.org,CN=John Doe+UID=jd,DC=example,DC=org`, "John Doe"},
		{"2.5.4.3= lead", `CN=\ lead`, " lead"},
		{"2.5.4.3=trail ", `CN=trail\ `, "trail "},
		{"2.5.4.3=#hash #x", `CN=\#hash #x`, "#hash #x"},
		{`2.5.4.3=a"b;c<d>e\f=g`, `CN=a\"b\;c\<d\>e\\f=g`, `a"b;c<d>e\f=g`},
		{"2.5.4.3=one\n\n2.5.4.3=two, x", `CN=two\, x,CN=one`, "one,two, x"},
		{"2.5.4.5=12\n\n2.5.4.42=G\n\n2.5.4.4=Sur\n\n2.5.4.43=I\n\n2.5.4.12=T\n\n2.5.4.9=St\n\n2.5.4.65=P\n\n2.5.4.44=III\n\n2.5.4.15=bc\n\n2.5.4.13=d",
			"2.5.4.13=d,2.5.4.15=bc,GENERATIONQUALIFIER=III,PSEUDONYM=P,2.5.4.9=St,TITLE=T,INITIALS=I,SN=Sur,GIVENNAME=G,SERIALNUMBER=12", ""},
		{"2.5.4.10=only", "O=only", ""},
		{"2.5.4.3= ", `CN=\ `, " "},
		{"2.5.4.3=tilde~del\x7fx", `CN=tilde\7Edel\7Fx`, "tilde~del\x7fx"},
		{"2.5.4.3=🐰", `CN=\F0\9F\90\B0`, "🐰"},
		{"2.5.4.3=  two  ", `CN=\  two \ `, "  two  "},
		{"1.2.840.113549.1.9.2=un\n\n2.5.4.3=x", "CN=x,1.2.840.113549.1.9.2=un", "x"},
	} {
		cert := certificate(t, c.subject)
		for _, from := range []string{"", CertDistinguishedName} {
			if got, err := certificateUser(cert, from); err != nil || got != c.dn {
				t.Errorf("distinguished name of %q = %q, %v; want %q", c.subject, got, err, c.dn)
			}
		}
		got, err := certificateUser(cert, CertCommonName)
		if got != c.cn || (err != nil) != (c.cn == "") {
			t.Errorf("common name of %q = %q, %v; want %q", c.subject, got, err, c.cn)
		}
	}
	if _, err := certificateUser(certificate(t, "2.5.4.3=x"), "shoe_size"); err == nil {
		t.Error("an unknown source of names was accepted")
	}
}

func TestSubjectEncodings(t *testing.T) {
	bmp := []byte{}
	for _, u := range utf16.Encode([]rune("Zoë")) {
		bmp = append(bmp, byte(u>>8), byte(u))
	}
	type attribute struct {
		Type  asn1.ObjectIdentifier
		Value asn1.RawValue
	}
	der, err := asn1.Marshal([]asn1.RawValue{{Class: asn1.ClassUniversal, Tag: asn1.TagSet, IsCompound: true,
		Bytes: must(t, attribute{oidCommonName, asn1.RawValue{Tag: asn1.TagBMPString, Bytes: bmp}})}})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := SubjectName(&x509.Certificate{RawSubject: der}); err != nil || got != `CN=Zo\C3\AB` {
		t.Errorf("a BMP string gives %q, %v", got, err)
	}
	for _, bad := range [][]byte{nil, {0x30}, append(der[:len(der):len(der)], 0), {0x05, 0x00}} {
		if got, err := SubjectName(&x509.Certificate{RawSubject: bad}); err == nil {
			t.Errorf("subject % x gives %q", bad, got)
		}
	}
	if got, err := certificateUser(&x509.Certificate{RawSubject: []byte{0x30, 0x00}}, ""); err == nil {
		t.Errorf("an empty subject gives user %q", got)
	}
}

func must(t *testing.T, v any) []byte {
	t.Helper()
	der, err := asn1.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func TestExternal(t *testing.T) {
	d := newUsers(t, "guest")
	for _, name := range []string{"CN=client", "client"} {
		if err := d.PutUser(User{Name: name}, nil); err != nil {
			t.Fatal(err)
		}
	}
	client, other, guest := certificate(t, "2.5.4.3=client"), certificate(t, "2.5.4.3=other"), certificate(t, "2.5.4.3=guest")
	chain := func(cs ...*x509.Certificate) ConnInfo { return ConnInfo{TLS: true, PeerCertificates: cs} }
	for _, c := range []struct {
		name, from string
		conn       ConnInfo
		user, want string
	}{
		{"by distinguished name", "", chain(client), "CN=client", in},
		{"by common name", CertCommonName, chain(client), "client", in},
		{"the leaf counts", CertCommonName, chain(client, other), "client", in},
		{"and not its issuer", CertCommonName, chain(other, client), "other", refused},
		{"unknown user", "", chain(other), "CN=other", refused},
		{"no certificate", "", chain(), "", refused},
		{"no TLS", "", ConnInfo{PeerCertificates: []*x509.Certificate{client}}, "", refused},
		{"no name", CertCommonName, chain(certificate(t, "2.5.4.10=x")), "", refused},
		{"unreadable", "", chain(&x509.Certificate{}), "", refused},
		{"bound to loopback", CertCommonName, chain(guest), "guest", refused},
		{"over loopback", CertCommonName,
			ConnInfo{TLS: true, PeerLoopback: true, PeerCertificates: []*x509.Certificate{guest}}, "guest", in},
	} {
		m, ok := Find(Mechanisms(d, MechanismOptions{External: true, CertLoginFrom: c.from}), "EXTERNAL")
		if !ok {
			t.Fatal("EXTERNAL is missing")
		}
		user, err := m.Respond([]byte("ignored"), c.conn)
		if user != c.user || outcome(err) != c.want {
			t.Errorf("%s: %q, %v; want %q %s", c.name, user, err, c.user, c.want)
		}
	}
}
