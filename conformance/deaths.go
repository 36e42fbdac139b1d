package conformance

import (
	"fmt"
	"slices"
	"time"

	"github.com/warrenmq/warren/conformance/wire"
)

// Death is one entry of an x-death header: what became of a message in one queue for one reason.
type Death struct {
	Count                   int64
	Reason, Queue, Exchange string
	Keys                    []string // routing-keys
	Expiration              string   // original-expiration; "" when the entry has none
}

// deadHeaders says what the headers of a dead-lettered message must be.
type deadHeaders struct {
	deaths []Death    // x-death, the newest first
	first  Death      // named by x-first-death-...; the zero value means the last of deaths
	last   Death      // named by x-last-death-... under profile 4; the zero value means the first of deaths
	rest   wire.Table // every other header, in any order
}

// clockTolerance is how far the broker's clock may be from this machine's.
const clockTolerance = time.Minute

// deathFields are the keys and types of an x-death entry. The order of the keys is no part of the contract: RabbitMQ
// itself changes it with the version and with the count.
var deathFields = map[string]any{
	"count": int64(0), "reason": "", "queue": "", "time": wire.Timestamp(0), "exchange": "", "routing-keys": wire.Array{}, "original-expiration": "",
}

// wantDead demands headers, every one of them, and returns the times of the deaths.
func (t *T) wantDead(p wire.Properties, want deadHeaders) []wire.Timestamp {
	if p.Headers == nil {
		t.Fatalf("a dead-lettered message without headers")
	}
	deaths, times := t.deaths(*p.Headers)
	t.Equal("x-death", deaths, want.deaths)
	if want.first.Reason == "" {
		want.first = want.deaths[len(want.deaths)-1]
	}
	if want.last.Reason == "" {
		want.last = want.deaths[0]
	}
	all := map[string]any{"x-first-death-reason": want.first.Reason, "x-first-death-queue": want.first.Queue,
		"x-first-death-exchange": want.first.Exchange}
	if t.Four() {
		all["x-last-death-reason"], all["x-last-death-queue"], all["x-last-death-exchange"] = want.last.Reason, want.last.Queue, want.last.Exchange
	}
	for _, f := range want.rest {
		all[f.Key] = f.Value
	}
	got := map[string]any{}
	for _, f := range *p.Headers {
		if _, twice := got[f.Key]; twice {
			t.Fatalf("header %q comes twice", f.Key)
		}
		if f.Key != "x-death" {
			got[f.Key] = f.Value
		}
	}
	t.Equal("headers beside x-death", got, all)
	return times
}

// deaths reads the x-death header, which must be an array of tables with the keys and types of deathFields.
func (t *T) deaths(headers wire.Table) ([]Death, []wire.Timestamp) {
	v, _ := headers.Get("x-death")
	array, ok := v.(wire.Array)
	if !ok {
		t.Fatalf("x-death is %#v, want an array", v)
	}
	var deaths []Death
	var times []wire.Timestamp
	for _, v := range array {
		entry, ok := v.(wire.Table)
		if !ok {
			t.Fatalf("x-death has an item %#v, want a table", v)
		}
		d, at := t.death(entry)
		deaths = append(deaths, d)
		times = append(times, at)
	}
	return deaths, times
}

// death reads one entry.
func (t *T) death(entry wire.Table) (Death, wire.Timestamp) {
	seen := map[string]any{}
	for _, f := range entry {
		like, known := deathFields[f.Key]
		if _, twice := seen[f.Key]; twice || !known || fmt.Sprintf("%T", like) != fmt.Sprintf("%T", f.Value) {
			t.Fatalf("x-death has an entry with %q of %T, in %v", f.Key, f.Value, entry)
		}
		seen[f.Key] = f.Value
	}
	for key := range deathFields {
		if _, there := seen[key]; !there && key != "original-expiration" {
			t.Fatalf("x-death has an entry without %q: %v", key, entry)
		}
	}
	d := Death{Count: seen["count"].(int64), Reason: seen["reason"].(string), Queue: seen["queue"].(string), Exchange: seen["exchange"].(string)}
	for _, v := range seen["routing-keys"].(wire.Array) {
		key, ok := v.(string)
		if !ok {
			t.Fatalf("routing-keys has an item %#v, want a string", v)
		}
		d.Keys = append(d.Keys, key)
	}
	d.Expiration, _ = seen["original-expiration"].(string)
	at := seen["time"].(wire.Timestamp)
	if off := time.Since(time.Unix(int64(at), 0)); off.Abs() > clockTolerance {
		t.Fatalf("a death at %d, which is %v ago", at, off)
	}
	return d, at
}

// withoutHeaders gives properties but for their headers, to be compared apart.
func withoutHeaders(p wire.Properties) wire.Properties {
	p.Headers = nil
	return p
}

// fields joins single fields and lists of them.
func fields(lists ...[]wire.Field) []wire.Field { return slices.Concat(lists...) }

// deadTo are the arguments that send dead letters to an exchange, with their own keys or, when one is given, with that.
func deadTo(x string, key ...string) []wire.Field {
	arguments := []wire.Field{{Key: "x-dead-letter-exchange", Value: x}}
	for _, k := range key {
		arguments = append(arguments, wire.Field{Key: "x-dead-letter-routing-key", Value: k})
	}
	return arguments
}

// ttl is the argument that gives messages of a queue so long to live.
func ttl(d time.Duration) wire.Field {
	return wire.Field{Key: "x-message-ttl", Value: d.Milliseconds()}
}

// graveyard opens two channels of one connection. The first declares fanout exchange X, queue Q2 bound to it, and
// queue Q with the arguments and with X as its dead-letter exchange. On the second, grave, a consumer "dead" that
// does not acknowledge takes everything from Q2.
func (t *T) graveyard(arguments ...wire.Field) (ch, grave *Chan) {
	c := t.Connect()
	ch, grave = c.Chan(1), c.Chan(2)
	ch.Exchange(t.X, "fanout")
	ch.Queue(t.Q2)
	ch.Bind(t.Q2, t.X, "")
	ch.Queue(t.Q, fields(deadTo(t.X), arguments)...)
	grave.ConsumeNoAck(t.Q2, "dead")
	return ch, grave
}

// died is the death of a message in Q that was published to the default exchange.
func (t *T) died(reason string) Death {
	return Death{Count: 1, Reason: reason, Queue: t.Q, Keys: []string{t.Q}}
}

// rejectNext gets the next message of a queue and rejects it.
func (ch *Chan) rejectNext(q string) {
	ch.Send(wire.BasicReject{DeliveryTag: ch.Get(q, false).Tag})
}
