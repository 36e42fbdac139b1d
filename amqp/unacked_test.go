package amqp

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/warrenmq/warren/queue"
)

func tagsOf(items []unackedItem) []uint64 {
	tags := []uint64{}
	for _, i := range items {
		tags = append(tags, i.tag)
	}
	return tags
}

// TestUnackedModel runs deliveries, acknowledgements and rollbacks against a
// sorted slice of tags.
func TestUnackedModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l unackedList
		next := uint64(1)
		model := []uint64{}     // outstanding
		held := []unackedItem{} // taken by a transaction, may be restored
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				if l.count() != len(model) {
					t.Fatalf("count %d, want %d", l.count(), len(model))
				}
				if n := cap(l.items); n > 4*(len(model)+len(held))+4096 {
					t.Fatalf("%d places for %d deliveries", n, len(model))
				}
			},
			"deliver": func(t *rapid.T) {
				for range rapid.IntRange(1, 200).Draw(t, "n") {
					l.push(unackedItem{tag: next, entry: queue.Entry{Seq: next}})
					model = append(model, next)
					next += uint64(1 + next%3%2) // no-ack deliveries use up tags as well
				}
			},
			"ack one": func(t *rapid.T) {
				tag := rapid.Uint64Range(0, next).Draw(t, "tag")
				i, known := slices.BinarySearch(model, tag)
				got, ok := l.take(nil, tag, false)
				if ok != known {
					t.Fatalf("take %d: %v, want %v", tag, ok, known)
				}
				if !known {
					if len(got) != 0 {
						t.Fatalf("unknown tag took %v", tagsOf(got))
					}
					return
				}
				if diff := cmp.Diff([]uint64{tag}, tagsOf(got)); diff != "" {
					t.Fatal(diff)
				}
				model = slices.Delete(model, i, i+1)
			},
			"ack many": func(t *rapid.T) {
				tag := rapid.Uint64Range(0, next).Draw(t, "tag")
				end, known := slices.BinarySearch(model, tag)
				if tag == 0 {
					end, known = len(model)-1, true
				}
				got, ok := l.take(nil, tag, true)
				if ok != known {
					t.Fatalf("take up to %d: %v, want %v", tag, ok, known)
				}
				want := []uint64{}
				if known {
					want = slices.Clone(model[:end+1])
					model = slices.Delete(model, 0, end+1)
				}
				if diff := cmp.Diff(want, tagsOf(got)); diff != "" {
					t.Fatal(diff)
				}
				for _, i := range got {
					if i.entry.Seq != i.tag {
						t.Fatalf("tag %d came with the entry of %d", i.tag, i.entry.Seq)
					}
				}
				held = append(held, got...)
			},
			"rollback": func(t *rapid.T) {
				l.restore(held)
				model = append(model, tagsOf(held)...)
				slices.Sort(model)
				held = nil
			},
			"commit": func(t *rapid.T) { held = nil },
		})
		if diff := cmp.Diff(model, tagsOf(l.takeAll(nil))); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestUnackedAtLimit: a consumer at its prefetch limit, which acknowledges in
// order or has its oldest delivery stay, costs no copy of the list for each
// delivery.
func TestUnackedAtLimit(t *testing.T) {
	for stay := range uint64(2) {
		var l unackedList
		limit := uint64(0) // the worst: as many as the list has places
		for ; limit < 1000 || len(l.items) < cap(l.items); limit++ {
			l.push(unackedItem{tag: limit + 1})
		}
		moves, scratch := 0, []unackedItem(nil)
		for tag := limit + 1; tag <= 50*limit; tag++ {
			var ok bool
			if scratch, ok = l.take(scratch[:0], tag-limit+stay, false); !ok {
				t.Fatalf("tag %d is not outstanding", tag-limit+stay)
			}
			at, first := len(l.items), &l.items[0]
			l.push(unackedItem{tag: tag})
			if len(l.items) != at+1 || &l.items[0] != first {
				moves++
			}
		}
		if moves > 500 {
			t.Errorf("the list of %d was moved %d times in %d deliveries", limit, moves, 49*limit)
		}
	}
}
