package immutable

import (
	"fmt"
	"maps"
	"math/bits"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestZeroMapIsEmpty(t *testing.T) {
	var m Map[int]
	if _, ok := m.Get("a"); ok {
		t.Error("Get found a key in the zero map")
	}
	if _, ok := m.GetBytes(nil); ok {
		t.Error("GetBytes found a key in the zero map")
	}
	if got := m.Delete("a").Len(); got != 0 {
		t.Errorf("Len after Delete on the zero map = %d", got)
	}
	for k := range m.All() {
		t.Errorf("All yielded %q from the zero map", k)
	}
}

func TestSetGetDelete(t *testing.T) {
	empty := Map[int]{}
	one := empty.Set("", 1)
	two := one.Set("b", 2)
	if v, ok := two.GetBytes([]byte{}); !ok || v != 1 {
		t.Errorf(`GetBytes("") = %d, %v; want 1, true`, v, ok)
	}
	if v, ok := two.GetBytes(nil); !ok || v != 1 {
		t.Errorf("GetBytes(nil) = %d, %v; want 1, true", v, ok)
	}
	if v, ok := two.Lookup(HashBytes([]byte("b")), []byte("b")); !ok || v != 2 {
		t.Errorf(`Lookup("b") = %d, %v; want 2, true`, v, ok)
	}
	if three := two.Delete("b"); three.Len() != 1 || two.Len() != 2 || one.Len() != 1 || empty.Len() != 0 {
		t.Errorf("lengths %d %d %d %d; want 1 2 1 0", three.Len(), two.Len(), one.Len(), empty.Len())
	}
}

func TestAllStopsWhenToldTo(t *testing.T) {
	var m Map[int]
	for i := range 100 {
		m = m.Set(fmt.Sprint(i), i)
	}
	seen := 0
	for range m.All() {
		if seen++; seen == 40 {
			break
		}
	}
	if seen != 40 {
		t.Errorf("saw %d entries, want 40", seen)
	}
}

// TestMapAgainstModel runs random changes, keeps every version on the way, and in the end compares each version with
// the plain map it should equal: an old version that a later change touched shows here.
func TestMapAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SampledFrom(testKeys(200))
		m, model := Map[int]{}, map[string]int{}
		versions, models := []Map[int]{m}, []map[string]int{{}}
		for i := range rapid.IntRange(1, 300).Draw(t, "steps") {
			key := keys.Draw(t, "key")
			if rapid.IntRange(0, 2).Draw(t, "op") == 0 {
				m = m.Delete(key)
				delete(model, key)
			} else {
				m = m.Set(key, i)
				model[key] = i
			}
			versions, models = append(versions, m), append(models, maps.Clone(model))
		}
		for i, v := range versions {
			if diff := cmp.Diff(models[i], maps.Collect(v.All())); diff != "" {
				t.Fatalf("version %d differs (-want +got):\n%s", i, diff)
			}
			if v.Len() != len(models[i]) {
				t.Fatalf("version %d: Len %d, want %d", i, v.Len(), len(models[i]))
			}
			checkShape(t, v.t.root)
		}
		for _, key := range testKeys(200) {
			want, there := model[key]
			if got, ok := m.GetBytes([]byte(key)); ok != there || got != want {
				t.Fatalf("GetBytes(%q) = %d, %v; want %d, %v", key, got, ok, want, there)
			}
			if got, ok := m.Get(key); ok != there || got != want {
				t.Fatalf("Get(%q) = %d, %v; want %d, %v", key, got, ok, want, there)
			}
		}
	})
}

// TestCollisions drives the tree with hashes of few distinct bits, so that keys meet at every depth and below the last.
func TestCollisions(t *testing.T) {
	hashes := []uint64{0, 1, 1 << 5, 1 << 59, 1 << 60, 1 << 63, 1<<63 | 1, ^uint64(0)}
	rapid.Check(t, func(t *rapid.T) {
		tr, model := tree[int, int]{}, map[int]int{}
		for i := range rapid.IntRange(1, 200).Draw(t, "steps") {
			key := rapid.IntRange(0, 39).Draw(t, "key")
			hash := hashes[key%len(hashes)]
			if rapid.Bool().Draw(t, "delete") {
				tr = tr.delete(hash, key)
				delete(model, key)
			} else {
				tr = tr.set(entry[int, int]{hash: hash, key: key, value: i})
				model[key] = i
			}
			if tr.size != len(model) {
				t.Fatalf("size %d, want %d", tr.size, len(model))
			}
			checkShape(t, tr.root)
		}
		for key := range 40 {
			want, there := model[key]
			if got, ok := tr.get(hashes[key%len(hashes)], key); ok != there || got != want {
				t.Fatalf("get(%d) = %d, %v; want %d, %v", key, got, ok, want, there)
			}
		}
	})
}

// checkShape asserts what node promises: bitmaps agree with the slices, no slot is both, no lonely child.
func checkShape[K comparable, V any](t *rapid.T, root *node[K, V]) {
	var check func(n *node[K, V], shift uint)
	check = func(n *node[K, V], shift uint) {
		if n != root && len(n.nodes) == 0 && len(n.entries) < 2 {
			t.Fatalf("a child of %d entries at shift %d was not folded into its parent", len(n.entries), shift)
		}
		if shift >= hashBits {
			if n.dataMap|n.nodeMap != 0 || len(n.nodes) != 0 {
				t.Fatalf("a collision list has bitmaps or children")
			}
			return
		}
		if n.dataMap&n.nodeMap != 0 || bits.OnesCount32(n.dataMap) != len(n.entries) ||
			bits.OnesCount32(n.nodeMap) != len(n.nodes) {
			t.Fatalf("bitmaps %032b %032b do not fit %d entries, %d children", n.dataMap, n.nodeMap, len(n.entries), len(n.nodes))
		}
		for _, child := range n.nodes {
			check(child, shift+levelBits)
		}
	}
	if root != nil {
		check(root, 0)
	}
}

func TestKeyedAgainstModel(t *testing.T) {
	type key struct {
		name string
		n    int
	}
	rapid.Check(t, func(t *rapid.T) {
		m, model := Keyed[key, int]{}, map[key]int{}
		for i := range rapid.IntRange(1, 200).Draw(t, "steps") {
			k := key{rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "name"), rapid.IntRange(0, 20).Draw(t, "n")}
			if rapid.IntRange(0, 2).Draw(t, "op") == 0 {
				m = m.Delete(k)
				delete(model, k)
			} else {
				m = m.Set(k, i)
				model[k] = i
			}
			want, there := model[k]
			if got, ok := m.Get(k); ok != there || got != want {
				t.Fatalf("Get(%v) = %d, %v; want %d, %v", k, got, ok, want, there)
			}
		}
		if diff := cmp.Diff(model, maps.Collect(m.All()), cmp.AllowUnexported(key{})); diff != "" {
			t.Fatalf("contents differ (-want +got):\n%s", diff)
		}
		keys := map[key]bool{}
		for _, k := range m.AppendKeys(nil) {
			keys[k] = true
		}
		if len(keys) != len(model) || m.Len() != len(model) {
			t.Fatalf("AppendKeys gave %d distinct keys, Len is %d, want %d", len(keys), m.Len(), len(model))
		}
	})
}

func TestLookupsDoNotAllocate(t *testing.T) {
	var m Map[int]
	for i, k := range testKeys(1000) {
		m = m.Set(k, i)
	}
	long := []byte("a key that is longer than any buffer the compiler would keep on the stack for a conversion")
	m = m.Set(string(long), 1)
	name := string(long)
	got := testing.AllocsPerRun(100, func() {
		_, a := m.GetBytes(long)
		_, b := m.Get(name)
		if !a || !b {
			t.Error("key not found")
		}
		for range m.All() {
		}
	})
	if got != 0 {
		t.Errorf("%v allocations, want 0", got)
	}
}

func testKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("key-%d", i)
	}
	keys[0] = ""
	return keys
}

func BenchmarkGetBytes(b *testing.B) {
	for _, n := range []int{10, 1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			keys := testKeys(n)
			var m Map[int]
			lookups := make([][]byte, n)
			for i, k := range keys {
				m, lookups[i] = m.Set(k, i), []byte(k)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, ok := m.GetBytes(lookups[i%n]); !ok {
					b.Fatal("key not found")
				}
			}
		})
	}
}

func BenchmarkSet(b *testing.B) {
	keys := testKeys(20_000)
	var m Map[int]
	for i, k := range keys[:10_000] {
		m = m.Set(k, i)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		m.Set(keys[i%len(keys)], i)
	}
}
