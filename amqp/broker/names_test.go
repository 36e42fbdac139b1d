package broker

import (
	"encoding/base64"
	"strings"
	"testing"
)

func TestObjectTexts(t *testing.T) {
	if got, want := queueText("/", "a b"), "queue 'a b' in vhost '/'"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := exchangeText("v", ""), "exchange '' in vhost 'v'"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestStripCRLF(t *testing.T) {
	for name, want := range map[string]string{
		"": "", "plain": "plain", "q.\r\ncr": "q.cr", "\n\n": "", "\ra\nb\r": "ab", "tab\tstays": "tab\tstays", "é\n": "é",
	} {
		if got := stripCRLF(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
	name := strings.Repeat("a", 255)
	if n := testing.AllocsPerRun(100, func() { name = stripCRLF(name) }); n != 0 {
		t.Errorf("%v allocations for a name without line breaks", n)
	}
}

func TestGeneratedName(t *testing.T) {
	const names = 1000
	seen := make(map[string]bool, names)
	for range names {
		name := generatedName(generatedQueuePrefix)
		random, ok := strings.CutPrefix(name, "amq.gen-")
		if !ok || len(random) != 22 {
			t.Fatalf("%q: want amq.gen- and 22 characters", name)
		}
		if b, err := base64.RawURLEncoding.DecodeString(random); err != nil || len(b) != 16 {
			t.Fatalf("%q: %d bytes, %v", name, len(b), err)
		}
		if seen[name] {
			t.Fatalf("%q came twice", name)
		}
		seen[name] = true
	}
	if tag := generatedName(generatedConsumerTagPrefix); !strings.HasPrefix(tag, "amq.ctag-") {
		t.Errorf("tag %q", tag)
	}
}
