package auth

import (
	"crypto/md5" //nolint:gosec // old definitions hold such hashes; new ones are made only when asked for by name
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"hash"
)

// The names of hashing algorithms in definitions.json. A hash is base64 of a random salt of 4 bytes followed by the
// digest of salt and UTF-8 password.
const (
	AlgorithmSHA256 = "rabbit_password_hashing_sha256" // the default
	AlgorithmSHA512 = "rabbit_password_hashing_sha512"
	AlgorithmMD5    = "rabbit_password_hashing_md5"
)

const saltSize = 4

// noHash is a well-formed hash that no password has been given: what an unknown user's password is compared with.
var noHash = base64.StdEncoding.EncodeToString(make([]byte, saltSize+sha256.Size))

// newHash returns the algorithm's digest function, or nil if there is no such algorithm.
func newHash(algorithm string) hash.Hash {
	switch algorithm {
	case AlgorithmSHA256:
		return sha256.New()
	case AlgorithmSHA512:
		return sha512.New()
	case AlgorithmMD5:
		return md5.New() //nolint:gosec // see the import
	}
	return nil
}

// HashPassword hashes with the default algorithm, SHA-256, and a fresh random salt.
func HashPassword(password string) string {
	return encodeHash(sha256.New(), password)
}

// HashPasswordWith hashes with the named algorithm and a fresh random salt. "" is the default algorithm;
// ErrUnknownAlgorithm.
func HashPasswordWith(algorithm, password string) (string, error) {
	if algorithm == "" {
		algorithm = AlgorithmSHA256
	}
	h := newHash(algorithm)
	if h == nil {
		return "", fmt.Errorf("hash password: %w %q", ErrUnknownAlgorithm, algorithm)
	}
	return encodeHash(h, password), nil
}

func encodeHash(h hash.Hash, password string) string {
	var salt [saltSize]byte
	_, _ = rand.Read(salt[:]) // never fails: it ends the program when the system has no randomness
	return base64.StdEncoding.EncodeToString(append(salt[:], digest(h, salt[:], password)...))
}

func digest(h hash.Hash, salt []byte, password string) []byte {
	h.Write(salt)
	h.Write([]byte(password))
	return h.Sum(nil)
}

// VerifyPassword reports whether the password has this hash under the named algorithm ("": the default). It is false
// for an empty password, an empty or malformed hash and an unknown algorithm. The comparison takes the same time
// wherever the digests differ.
func VerifyPassword(hash, algorithm, password string) bool {
	if algorithm == "" {
		algorithm = AlgorithmSHA256
	}
	h := newHash(algorithm)
	raw, err := base64.StdEncoding.DecodeString(hash)
	if h == nil || err != nil || len(raw) != saltSize+h.Size() {
		return false
	}
	same := subtle.ConstantTimeCompare(raw[saltSize:], digest(h, raw[:saltSize], password)) == 1
	return same && password != ""
}
