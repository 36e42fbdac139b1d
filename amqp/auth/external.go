package auth

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"strings"
)

// Where EXTERNAL takes the user name from (ssl_cert_login_from).
const (
	CertDistinguishedName = "distinguished_name" // the subject, as SubjectName writes it; the default
	CertCommonName        = "common_name"        // its common name, as it is; several are joined with commas
)

// external is EXTERNAL: the user is whom the client's certificate names, and no password is asked.
type external struct {
	backend   Identifier
	rule      LoopbackRule
	loginFrom string
}

// Name implements Mechanism.
func (external) Name() string { return "EXTERNAL" }

func (external) offers(c ConnInfo) bool { return c.TLS }

// Respond implements Mechanism. The response is ignored, as RabbitMQ does.
func (m external) Respond(_ []byte, c ConnInfo) (string, error) {
	if !c.TLS || len(c.PeerCertificates) == 0 {
		return "", fmt.Errorf("client presented no verified TLS certificate: %w", ErrRefused)
	}
	user, err := certificateUser(c.PeerCertificates[0], m.loginFrom)
	if err != nil {
		return "", fmt.Errorf("take user from certificate: %w: %w", err, ErrRefused)
	}
	if err := m.backend.Identify(user); err != nil {
		return user, err
	}
	return user, m.rule.check(user, c)
}

func certificateUser(cert *x509.Certificate, loginFrom string) (string, error) {
	var name string
	var err error
	switch loginFrom {
	case "", CertDistinguishedName:
		name, err = SubjectName(cert)
	case CertCommonName:
		name, err = commonNames(cert)
	default:
		return "", fmt.Errorf("unknown source %q", loginFrom)
	}
	if err == nil && name == "" {
		err = errors.New("no name found")
	}
	return name, err
}

// attributeNames are the short names RabbitMQ writes; other attributes are written as numbers.
var attributeNames = map[string]string{
	"2.5.4.3":                    "CN",
	"2.5.4.4":                    "SN",
	"2.5.4.5":                    "SERIALNUMBER",
	"2.5.4.6":                    "C",
	"2.5.4.7":                    "L",
	"2.5.4.8":                    "ST",
	"2.5.4.10":                   "O",
	"2.5.4.11":                   "OU",
	"2.5.4.12":                   "TITLE",
	"2.5.4.42":                   "GIVENNAME",
	"2.5.4.43":                   "INITIALS",
	"2.5.4.44":                   "GENERATIONQUALIFIER",
	"2.5.4.65":                   "PSEUDONYM",
	"0.9.2342.19200300.100.1.25": "DC",
	"0.9.2342.19200300.100.1.1":  "UID",
	"1.2.840.113549.1.9.1":       "EMAILADDRESS",
}

var oidCommonName = asn1.ObjectIdentifier{2, 5, 4, 3}

// SubjectName writes a certificate's subject as RabbitMQ does, which is RFC 4514: the last relative name first, commas
// between them. Like RabbitMQ it escapes more than that asks for: the UTF-8 bytes of everything outside printable ASCII,
// and the tilde.
func SubjectName(cert *x509.Certificate) (string, error) {
	rdns, err := subject(cert)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for i := len(rdns) - 1; i >= 0; i-- {
		for j, a := range rdns[i] {
			switch {
			case j > 0:
				b.WriteByte('+')
			case b.Len() > 0:
				b.WriteByte(',')
			}
			name, ok := attributeNames[a.Type.String()]
			if !ok {
				name = a.Type.String()
			}
			b.WriteString(name)
			b.WriteByte('=')
			escapeValue(&b, fmt.Sprint(a.Value))
		}
	}
	return b.String(), nil
}

func commonNames(cert *x509.Certificate) (string, error) {
	rdns, err := subject(cert)
	if err != nil {
		return "", err
	}
	var names []string
	for _, rdn := range rdns {
		for _, a := range rdn {
			if a.Type.Equal(oidCommonName) {
				names = append(names, fmt.Sprint(a.Value))
			}
		}
	}
	return strings.Join(names, ","), nil
}

// subject reads the relative names in the order of the certificate, which pkix.Name does not keep.
func subject(cert *x509.Certificate) (pkix.RDNSequence, error) {
	var rdns pkix.RDNSequence
	if rest, err := asn1.Unmarshal(cert.RawSubject, &rdns); err != nil {
		return nil, fmt.Errorf("decode subject: %w", err)
	} else if len(rest) > 0 {
		return nil, errors.New("decode subject: bytes left over")
	}
	return rdns, nil
}

// escapeValue writes an attribute value with the escapes of RFC 4514, section 2.4, and those SubjectName speaks of.
func escapeValue(b *strings.Builder, v string) {
	for i := range len(v) {
		c := v[i]
		switch {
		case i == 0 && (c == ' ' || c == '#'), i == len(v)-1 && c == ' ', strings.IndexByte(`"+,;<>\`, c) >= 0:
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c >= '~':
			fmt.Fprintf(b, `\%02X`, c)
		default:
			b.WriteByte(c)
		}
	}
}
