package persist

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The keys of two definitions are equal only when the definitions are, and no
// continuation of one is taken for another's.
func TestDefinitionKeys(t *testing.T) {
	draw := rapid.Custom(func(t *rapid.T) Key {
		name := rapid.StringOfN(rapid.SampledFrom([]rune("\x00\x01/a")), 0, 4, -1)
		return Key{Kind: rapid.Byte().Draw(t, "kind"), VHost: name.Draw(t, "vhost"), Name: name.Draw(t, "name")}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw.Draw(t, "a"), draw.Draw(t, "b")
		ka, kb := a.appendTo(nil), b.appendTo(nil)
		if bytes.Equal(ka, kb) != (a == b) {
			t.Fatalf("%q and %q have keys %q and %q", a, b, ka, kb)
		}
		if back, ok := parseKey(ka); !ok || back != a {
			t.Fatalf("%q became %q", a, back)
		}
		pa, pb := rapid.IntRange(0, 2000).Draw(t, "piece of a"), rapid.IntRange(0, 2000).Draw(t, "piece of b")
		ea, eb := appendPieceKey(nil, ka, pa), appendPieceKey(nil, kb, pb)
		if bytes.Equal(ea, eb) != (a == b && pa == pb) {
			t.Fatalf("pieces of %q and %q have keys %q and %q", a, b, ea, eb)
		}
		if def, n, ok := definitionOf(ea); !ok || n != pa || !bytes.Equal(def, ka) {
			t.Fatalf("piece %d of %q became piece %d of %q", pa, ka, n, def)
		}
	})
	long := Key{VHost: string(make([]byte, MaxKeyBytes))}
	if back, ok := parseKey(long.appendTo(nil)); !ok || back != long || long.check() != nil {
		t.Error("the longest key does not come back")
	}
}

func TestNumberKeysSortAsNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Uint64().Draw(t, "a"), rapid.Uint64().Draw(t, "b")
		q, f, ok := parsePageKey(appendPageKey(nil, prefixIndex, a, b))
		if !ok || q != a || f != b {
			t.Fatalf("%d %d became %d %d", a, b, q, f)
		}
		if order := bytes.Compare(appendIDKey(nil, prefixBody, a), appendIDKey(nil, prefixBody, b)); (order < 0) != (a < b) {
			t.Fatalf("keys of %d and %d are in order %d", a, b, order)
		}
	})
}

// A frame comes back whole, and no single changed byte, neither of the value
// nor of the key, goes unnoticed.
func TestFrame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, "key")
		payload := rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "payload")
		value := appendFrame(nil, key, payload)
		back, err := openFrame(key, value)
		if err != nil || !bytes.Equal(back, payload) {
			t.Fatalf("%v, %q became %q", err, payload, back)
		}
		change := rapid.ByteMin(1).Draw(t, "change")
		all := append(bytes.Clone(key), value...)
		all[rapid.IntRange(0, len(all)-1).Draw(t, "at")] ^= change
		if _, err := openFrame(all[:len(key)], all[len(key):]); err == nil {
			t.Fatal("a changed byte goes unnoticed")
		}
	})
}

// drawEntries draws what an index page may hold: even streams as well as
// messages that have nothing in common.
func drawEntries(t *rapid.T) (entries []storedEntry) {
	uneven := rapid.IntRange(0, 10).Draw(t, "unevenness")
	differs := func() bool { return rapid.IntRange(1, 10).Draw(t, "differs") <= uneven }
	e := storedEntry{page: 7, head: 30, body: 1000}
	for range rapid.IntRange(1, 300).Draw(t, "entries") {
		if differs() {
			e.page, e.off = rapid.Uint64().Draw(t, "page"), rapid.Uint32Max(1<<20).Draw(t, "off")
		}
		if differs() {
			e.head = rapid.Uint32Max(1<<20).Draw(t, "head")
		}
		if differs() || e.off > 1<<20 {
			e.body = rapid.Uint32Max(1<<20).Draw(t, "body")
			e.off = min(e.off, 1<<20)
		}
		if differs() {
			e.meta = Meta{Priority: rapid.Byte().Draw(t, "priority"), Flags: rapid.Byte().Draw(t, "flags"), Expiry: clampExpiry(rapid.Int64().Draw(t, "expiry"))}
		}
		if len(entries) > 0 && differs() {
			e.seqOff += rapid.Uint32Max(1<<20).Draw(t, "gap")
		}
		entries = append(entries, e)
		e.seqOff++
		e.off = e.end()
	}
	return entries
}

func TestIndexEntries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := drawEntries(t)
		for len(all) > 0 {
			var c pageEncoder
			c.begin()
			var want []storedEntry
			base := all[0].seqOff
			for len(all) > 0 && !c.full() {
				e := all[0]
				e.seqOff -= base
				c.add(e)
				want, all = append(want, e), all[1:]
			}
			encoded := c.appendTo(nil)
			if size := len(encoded) + frameOverhead; size >= valueThreshold {
				t.Fatalf("a page of %d messages has %d bytes", len(want), size)
			}
			back, err := parseEntries(encoded)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, back, cmp.AllowUnexported(storedEntry{})); diff != "" {
				t.Fatalf("entries (-want +got):\n%s", diff)
			}
			if cut := rapid.IntRange(0, len(encoded)-1).Draw(t, "cut"); cut > 0 {
				if _, err := parseEntries(encoded[:cut]); err == nil {
					t.Fatalf("%d of %d bytes are a whole page", cut, len(encoded))
				}
			}
		}
	})
}

// A message of an even stream takes one byte of its index page.
func TestEvenEntriesAreSmall(t *testing.T) {
	var c pageEncoder
	c.begin()
	for i := uint32(0); !c.full(); i++ {
		c.add(storedEntry{seqOff: i, page: 1 << 40, off: i * 1030, head: 30, body: 1000, meta: Meta{Priority: 3}})
	}
	if c.n < 3500 {
		t.Errorf("only %d messages on a page", c.n)
	}
}

// An entry of nothing but extremes fits what is kept free for it.
func TestLargestEntry(t *testing.T) {
	var c pageEncoder
	c.begin()
	c.add(storedEntry{})
	before := len(c.buf)
	c.add(storedEntry{
		seqOff: 1<<32 - 1, page: 1 << 63, off: 1<<32 - 1, head: 1<<32 - 1, body: 1<<32 - 1,
		meta: Meta{Priority: 1, Flags: 1, Expiry: maxExpiry},
	})
	if n := len(c.buf) - before; n > maxEntryBytes {
		t.Errorf("%d bytes, only %d are kept free", n, maxEntryBytes)
	}
}

func TestAcks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, pageEntries).Draw(t, "messages")
		var want positions
		for range rapid.IntRange(0, 30).Draw(t, "runs") {
			from := rapid.IntRange(0, n-1).Draw(t, "from")
			step := rapid.IntRange(1, 3).Draw(t, "step")
			for i := from; i < n && i < from+rapid.IntRange(0, 200).Draw(t, "length"); i += step {
				want.add(i, n)
			}
		}
		encoded := appendAcks(nil, &want, n)
		if len(encoded) > 1+(n+7)/8 {
			t.Fatalf("%d bytes for %d messages", len(encoded), n)
		}
		back, err := parseAcks(encoded, n)
		if err != nil {
			t.Fatal(err)
		}
		if back.count() != want.count() {
			t.Fatalf("%d settled became %d", want.count(), back.count())
		}
		for i := range n {
			if want.has(i) != back.has(i) {
				t.Fatalf("position %d is lost", i)
			}
		}
	})
	if _, err := parseAcks([]byte{2, 0}, 5); err == nil {
		t.Error("an unknown kind is taken")
	}
	if _, err := parseAcks([]byte{acksRuns, 0, 6}, 5); err == nil {
		t.Error("six of five are settled")
	}
}

func TestClampExpiry(t *testing.T) {
	for _, ms := range []int64{-1 << 63, -1, 0, 1, maxExpiry, maxExpiry + 1, 1<<63 - 1} {
		if got := clampExpiry(ms); (got == 0) != (ms == 0) || got < 0 || got > maxExpiry || ms > 0 && ms <= maxExpiry && got != ms {
			t.Errorf("expiry %d became %d", ms, got)
		}
	}
}

func TestRedoList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want []rawOp
		var list []byte
		for range rapid.IntRange(1, 10).Draw(t, "ops") {
			op := rawOp{key: rapid.SliceOfN(rapid.Byte(), 1, 10).Draw(t, "key"), delete: rapid.Bool().Draw(t, "delete")}
			if !op.delete {
				op.value = rapid.SliceOf(rapid.Byte()).Draw(t, "value")
			}
			want = append(want, op)
			list = appendRedo(list, &op)
		}
		back, err := parseRedo(list)
		if err != nil || len(back) != len(want) {
			t.Fatalf("%v, %d ops became %d", err, len(want), len(back))
		}
		for i := range want {
			if back[i].delete != want[i].delete || !bytes.Equal(back[i].key, want[i].key) || !bytes.Equal(back[i].value, want[i].value) {
				t.Fatalf("op %d became %v", i, back[i])
			}
		}
		cut := rapid.IntRange(1, len(list)-1).Draw(t, "cut")
		if short, err := parseRedo(list[:cut]); err == nil && len(short) >= len(want) {
			t.Fatal("a cut list is whole")
		}
	})
}

// FuzzDecoders: whatever is on disk, a decoder answers and does not panic.
func FuzzDecoders(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{2, differsPlace | differsHead | differsBody, 2, 0, 1, 9, differsExpiry, 1})
	f.Add([]byte{acksRuns, 1, 3})
	f.Add([]byte{1, 0, 0, 0, 1, 'k', 0, 0, 0, 9, 'v'})
	f.Add([]byte{prefixDef, 'q', 0, 9, 'v'})
	f.Fuzz(func(t *testing.T, data []byte) {
		if entries, err := parseEntries(data); err == nil && (len(entries) == 0 || len(entries) > pageEntries) {
			t.Errorf("a page of %d messages", len(entries))
		}
		for _, n := range []int{5, 64, 65, pageEntries} {
			if acked, err := parseAcks(data, n); err == nil && acked.count() > n {
				t.Errorf("settled %d of %d", acked.count(), n)
			}
		}
		for _, decode := range []func(){
			func() { parseRedo(data) }, func() { parseKey(data) }, func() { definitionOf(data) },
			func() { parsePageKey(data) }, func() { parseIDKey(data) }, func() { parseRedoKey(data) },
			func() { openFrame(data, data) }, func() { _ = keyName(data) },
		} {
			decode()
		}
	})
}
