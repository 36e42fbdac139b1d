package auth

import (
	"encoding/base64"
	"encoding/hex"
	"testing"

	"crypto/sha256"

	"pgregory.net/rapid"
)

// vector is the one RabbitMQ's documentation works out, and both 3.10.8 and 4.3.6 accepted when imported.
const vector = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"

func TestHashVector(t *testing.T) {
	salt, err := hex.DecodeString("908DC60A")
	if err != nil {
		t.Fatal(err)
	}
	got := base64.StdEncoding.EncodeToString(append(salt, digest(sha256.New(), salt, "test12")...))
	if got != vector {
		t.Errorf("hash of the vector = %s, want %s", got, vector)
	}
	if !VerifyPassword(vector, AlgorithmSHA256, "test12") {
		t.Error("the vector's password was refused")
	}
}

func TestVerifyPassword(t *testing.T) {
	md5Hash := "YWJjZNfzN5GQCEWanRHhIedtD1g=" // salt abcd, password hi: logged in on RabbitMQ
	empty := encodeHash(sha256.New(), "")
	for _, c := range []struct {
		name, hash, algorithm, password string
		want                            bool
	}{
		{"right", vector, AlgorithmSHA256, "test12", true},
		{"default algorithm", vector, "", "test12", true},
		{"md5", md5Hash, AlgorithmMD5, "hi", true},
		{"wrong", vector, AlgorithmSHA256, "test13", false},
		{"longer", vector, AlgorithmSHA256, "test12 ", false},
		{"empty password", vector, AlgorithmSHA256, "", false},
		{"empty password, its own hash", empty, AlgorithmSHA256, "", false},
		{"empty hash", "", AlgorithmSHA256, "test12", false},
		{"empty hash and password", "", AlgorithmSHA256, "", false},
		{"another algorithm", vector, AlgorithmSHA512, "test12", false},
		{"unknown algorithm", vector, "rabbit_password_hashing_crc", "test12", false},
		{"not base64", "!!!", AlgorithmSHA256, "test12", false},
		{"only a salt", base64.StdEncoding.EncodeToString([]byte("abcd")), AlgorithmSHA256, "test12", false},
		{"cut short", vector[:44], AlgorithmSHA256, "test12", false},
		{"shorter than a salt", "YQ==", AlgorithmSHA256, "test12", false},
		{"hash of an unknown user", noHash, AlgorithmSHA256, "test12", false},
	} {
		if got := VerifyPassword(c.hash, c.algorithm, c.password); got != c.want {
			t.Errorf("%s: VerifyPassword = %v, want %v", c.name, got, c.want)
		}
	}
}

func TestHashRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		password := rapid.StringN(1, 100, -1).Draw(t, "password")
		other := rapid.String().Filter(func(s string) bool { return s != password }).Draw(t, "other")
		algorithm := rapid.SampledFrom([]string{"", AlgorithmSHA256, AlgorithmSHA512, AlgorithmMD5}).Draw(t, "algorithm")
		hash, err := HashPasswordWith(algorithm, password)
		if err != nil {
			t.Fatal(err)
		}
		if !VerifyPassword(hash, algorithm, password) {
			t.Error("the password itself was refused")
		}
		if VerifyPassword(hash, algorithm, other) {
			t.Errorf("another password, %q, was accepted", other)
		}
	})
}

func TestHashPassword(t *testing.T) {
	a, b := HashPassword("x"), HashPassword("x")
	if a == b {
		t.Error("two hashes of one password are equal: the salt is not random")
	}
	if !VerifyPassword(a, AlgorithmSHA256, "x") || !VerifyPassword(b, AlgorithmSHA256, "x") {
		t.Error("a fresh hash does not verify")
	}
	if _, err := HashPasswordWith("rot13", "x"); err == nil {
		t.Error("an unknown algorithm was accepted")
	}
}
