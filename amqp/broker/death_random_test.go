package broker

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
	"github.com/warrenmq/warren/queue"
)

// letters draws published messages.
func letters() *rapid.Generator[*queue.Message] {
	names := []string{"a", "b", "a", "CC", "x-death", "x-first-death-queue", "x-last-death-reason", "z", ""}
	return rapid.Custom(func(t *rapid.T) *queue.Message {
		v := frames.PropertyValues{
			Flags: rapid.Uint16().Draw(t, "flags") & 0xfffc, ContentType: rapid.StringN(0, 10, 20).Draw(t, "content type"), DeliveryMode: 2,
			Priority: rapid.Uint8().Draw(t, "priority"), Expiration: "7", ReplyTo: "r", Timestamp: rapid.Uint64().Draw(t, "timestamp"), ClusterID: "c",
		}
		for range rapid.IntRange(0, 6).Draw(t, "headers") {
			f := frames.Field{Key: rapid.SampledFrom(names).Draw(t, "key"), Value: values().Draw(t, "value")}
			if f.Key == "CC" || f.Key == "x-death" && rapid.Bool().Draw(t, "array") {
				f.Value = frames.Array{f.Value, table("queue", "q1", "reason", "expired", "count", int64(3)), table("queue", f.Value), "k"}
			}
			v.Headers = append(v.Headers, f)
		}
		return letter(v)
	})
}

func deaths() *rapid.Generator[death] {
	return rapid.Custom(func(t *rapid.T) death {
		return death{
			Queue: rapid.SampledFrom([]string{"q1", "q2", "q3"}).Draw(t, "queue"), Reason: deathReason(rapid.IntRange(0, int(deliveryLimit)).Draw(t, "reason")),
			Exchange: "dlx", HasKey: rapid.Bool().Draw(t, "has key"), Key: "dk",
		}
	})
}

// TestBuriedTwice: whatever the message, dying again and again leaves the
// publisher's own headers and properties as they were.
func TestBuriedTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom(profiles).Draw(t, "profile")
		m := letters().Draw(t, "message")
		before := bytes.Clone(m.Properties)
		all := rapid.SliceOfN(deaths(), 2, 5).Draw(t, "deaths")
		dead, keys := die(p, m, all...)
		if !bytes.Equal(before, m.Properties) {
			t.Fatal("the buried message was changed")
		}
		if keys[0] != dead.RoutingKey {
			t.Fatalf("routed by %q, shown %q", keys[0], dead.RoutingKey)
		}
		was, is := propertiesOf(m), propertiesOf(dead)
		old, now := was.Values(), is.Values()
		if diff := cmp.Diff(publishers(p, old.Headers), publishers(p, now.Headers)); diff != "" {
			t.Fatalf("publisher's headers (-want +got)\n%s", diff)
		}
		old.Headers, now.Headers, old.Expiration = nil, nil, ""
		old.Flags = old.Flags&^frames.FlagExpiration | frames.FlagHeaders
		if diff := cmp.Diff(old, now); diff != "" {
			t.Fatalf("properties (-want +got)\n%s", diff)
		}
		if last := all[len(all)-1]; p == compat.V4 && !strings.HasPrefix(order(dead), last.Queue) {
			t.Fatalf("died last in %s: %s", last.Queue, order(dead))
		}
	})
}

// publishers gives the headers that are none of dead-lettering's business, as
// they must come out.
func publishers(p compat.Profile, headers frames.Table) map[string][]string {
	kept := map[string][]string{}
	for _, f := range headers {
		switch {
		case f.Key == "CC" || strings.HasPrefix(f.Key, "x-"):
		case p == compat.V4 && len(kept[f.Key]) > 0:
		default:
			kept[f.Key] = append(kept[f.Key], strings.ReplaceAll(shownValue(f.Value), "L:", "l:"))
		}
	}
	return kept
}

// TestDeathsCounted: x-death has one entry for each queue and reason, with the
// number of its deaths; in version 4 in the order of the last ones.
func TestDeathsCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom(profiles).Draw(t, "profile")
		var want []string // queue and reason of each entry
		counts := map[string]int64{}
		m := letter(headed(nil))
		for _, d := range rapid.SliceOfN(deaths(), 1, 12).Draw(t, "deaths") {
			m, _ = buried(p, m, d)
			pair := d.Queue + " " + d.Reason.String()
			counts[pair]++
			want = append([]string{pair}, slices.DeleteFunc(want, func(s string) bool { return s == pair })...)
			got, gotCounts := pairs(m)
			if p == compat.V3 { // the order is TestOrderOfDeaths'
				slices.Sort(got[1:])
				slices.Sort(want[1:])
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("entries (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(counts, gotCounts); diff != "" {
				t.Fatalf("counts (-want +got)\n%s", diff)
			}
		}
	})
}

// pairs gives the queues and reasons of x-death in order, and their counts.
func pairs(m *queue.Message) (order []string, counts map[string]int64) {
	properties := propertiesOf(m)
	told, _ := properties.Values().Headers.Get("x-death")
	counts = map[string]int64{}
	for _, e := range told.(frames.Array) {
		entry := e.(frames.Table)
		name, _ := entry.Get("queue")
		reason, _ := entry.Get("reason")
		count, _ := entry.Get("count")
		pair := fmt.Sprint(name, " ", reason)
		order = append(order, pair)
		counts[pair] += count.(int64)
	}
	return order, counts
}
