package broker

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
	"github.com/warrenmq/warren/queue"
)

var profiles = []compat.Profile{compat.V3, compat.V4}

// letter makes a message published to src by the key main.
func letter(v frames.PropertyValues) *queue.Message {
	return &queue.Message{Exchange: "src", RoutingKey: "main", Properties: v.Append(nil), Content: []byte("b"), Expiration: -1}
}

func headed(headers frames.Table) frames.PropertyValues {
	return frames.PropertyValues{Flags: frames.FlagHeaders, Headers: headers}
}

func expiring(v frames.PropertyValues, ms string) frames.PropertyValues {
	v.Flags |= frames.FlagExpiration
	v.Expiration = ms
	return v
}

// in is a death in a queue, without a dead-letter routing key.
func in(name string, reason deathReason) death {
	return death{Queue: name, Reason: reason, Exchange: "dlx"}
}

// by is in with a dead-letter routing key.
func by(key, name string, reason deathReason) death {
	return death{Queue: name, Reason: reason, Exchange: "dlx", Key: key, HasKey: true}
}

// die buries a message once for each death; the first is at second 1.
func die(p compat.Profile, m *queue.Message, deaths ...death) (*queue.Message, []string) {
	var keys []string
	for i, d := range deaths {
		d.At = int64(i + 1)
		m, keys = buried(p, m, d)
	}
	return m, keys
}

// shown prints headers in their order, with the type letters of all but S, F
// and A.
func shown(t frames.Table) string {
	var lines []string
	for _, f := range t {
		lines = append(lines, f.Key+"="+shownValue(f.Value))
	}
	return strings.Join(lines, "\n")
}

func shownValue(v any) string {
	var parts []string
	switch v := v.(type) {
	case string:
		return v
	case frames.Table:
		for _, f := range v {
			parts = append(parts, f.Key+"="+shownValue(f.Value))
		}
		return "{" + strings.Join(parts, " ") + "}"
	case frames.Array:
		for _, e := range v {
			parts = append(parts, shownValue(e))
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
	return fmt.Sprintf("%c:%v", frames.Table{{Value: v}}.AppendContents(nil)[1], v)
}

// summary is what the headers of the first or last death look like.
func summary(which, reason, name, from string) string {
	return fmt.Sprintf("\nx-%[1]s-death-exchange=%[4]s\nx-%[1]s-death-queue=%[3]s\nx-%[1]s-death-reason=%[2]s", which, reason, name, from)
}

// once is the summary in version 4 of a message that died once.
func once(reason, name, from string) string {
	return summary("first", reason, name, from) + summary("last", reason, name, from)
}

var fullProperties = frames.PropertyValues{
	Flags: 0xfffc &^ frames.FlagHeaders, ContentType: "ct", ContentEncoding: "ce", DeliveryMode: 2, Priority: 7, CorrelationID: "ci",
	ReplyTo: "rt", Expiration: "50", MessageID: "mi", Timestamp: 99, Type: "ty", UserID: "ui", AppID: "ai", ClusterID: "cl",
}

// buriedCase is a message, its deaths, and its headers behind the last of
// them as 3.10.8 and 4.3.6 sent them, but for names and times.
type buriedCase struct {
	name   string
	values frames.PropertyValues
	deaths []death
	v3, v4 string
}

const told = "x-death=[{count=l:1 reason=rejected queue=a time=T:1 exchange=src routing-keys=[main]}]"

var buriedCases = []buriedCase{
	{"no properties", frames.PropertyValues{}, []death{in("a", rejected)},
		told + summary("first", "rejected", "a", "src"), told + once("rejected", "a", "src")},
	{"empty headers", headed(nil), []death{in("a", rejected)},
		told + summary("first", "rejected", "a", "src"), told + once("rejected", "a", "src")},
	{"headers are sorted, L becomes l", headed(table("z", "zz", "b", frames.LongLong(5), "x-death-", true, "y",
		table("z", frames.LongLong(1), "a", int32(2)), "B", frames.Array{frames.LongLong(3), nil}, "f", float32(1.5))), []death{in("a", rejected)},
		"B=[l:3,V:<nil>]\nb=l:5\nf=f:1.5\n" + told + "\nx-death-=t:true" + summary("first", "rejected", "a", "src") + "\ny={z=l:1 a=I:2}\nz=zz",
		"B=[l:3,V:<nil>]\nb=l:5\nf=f:1.5\n" + told + "\nx-death-=t:true" + once("rejected", "a", "src") + "\ny={z=l:1 a=I:2}\nz=zz"},
	{"duplicate keys", headed(table("k", "1", "a", "0", "k", "2")), []death{in("a", rejected)},
		"a=0\nk=1\nk=2\n" + told + summary("first", "rejected", "a", "src"), "a=0\nk=1\n" + told + once("rejected", "a", "src")},
	{"expiration", fullProperties, []death{by("dk", "a", expired)},
		"x-death=[{count=l:1 reason=expired queue=a time=T:1 exchange=src routing-keys=[main] original-expiration=50}]" + summary("first", "expired", "a", "src"),
		"x-death=[{original-expiration=50 count=l:1 reason=expired queue=a time=T:1 exchange=src routing-keys=[main]}]" + once("expired", "a", "src")},
	{"maxlen", headed(nil), []death{in("a", maxlen)},
		strings.Replace(told, "rejected", "maxlen", 1) + summary("first", "maxlen", "a", "src"),
		strings.Replace(told, "rejected", "maxlen", 1) + once("maxlen", "a", "src")},
	{"CC without key, twice", headed(table("z", "1", "CC", frames.Array{"c1", int32(4), "c2"})), []death{in("a", rejected), in("b", rejected)},
		"CC=[c1,I:4,c2]\nx-death=[{count=l:1 exchange=dlx queue=b reason=rejected routing-keys=[main,c1,c2] time=T:2},{count=l:1 reason=rejected queue=a time=T:1 exchange=src routing-keys=[main,c1,c2]}]" +
			summary("first", "rejected", "a", "src") + "\nz=1",
		"CC=[c1,I:4,c2]\nx-death=[{count=l:1 reason=rejected queue=b time=T:2 exchange=dlx routing-keys=[main,c1,c2]},{count=l:1 reason=rejected queue=a time=T:1 exchange=src routing-keys=[main,c1,c2]}]" +
			summary("first", "rejected", "a", "src") + summary("last", "rejected", "b", "dlx") + "\nz=1"},
	{"CC with key, then without", headed(table("z", "1", "CC", frames.Array{"c1"})), []death{by("dk", "a", rejected), in("b", deliveryLimit)},
		"x-death=[{count=l:1 exchange=dlx queue=b reason=delivery_limit routing-keys=[dk] time=T:2},{count=l:1 reason=rejected queue=a time=T:1 exchange=src routing-keys=[main,c1]}]" +
			summary("first", "rejected", "a", "src") + "\nz=1",
		"CC=[c1]\nx-death=[{count=l:1 reason=delivery_limit queue=b time=T:2 exchange=dlx routing-keys=[dk]},{count=l:1 reason=rejected queue=a time=T:1 exchange=src routing-keys=[main,c1]}]" +
			summary("first", "rejected", "a", "src") + summary("last", "delivery_limit", "b", "dlx") + "\nz=1"},
	{"two CC headers, key", headed(table("CC", frames.Array{"c1"}, "x", "1", "CC", frames.Array{"c2"})), []death{by("dk", "a", rejected)},
		"CC=[c2]\nx=1\n" + strings.Replace(told, "[main]", "[main,c1]", 1) + summary("first", "rejected", "a", "src"),
		"CC=[c1]\nx=1\n" + strings.Replace(told, "[main]", "[main,c1]", 1) + once("rejected", "a", "src")},
	{"retry loop", expiring(headed(table("z", "1")), "60000"), []death{by("r2", "r1", rejected), by("r1", "r2", expired), by("r2", "r1", rejected), by("r1", "r2", expired)},
		"x-death=[{count=l:2 exchange=dlx queue=r2 reason=expired routing-keys=[r2] time=T:2},{count=l:2 exchange=src original-expiration=60000 queue=r1 reason=rejected routing-keys=[main] time=T:1}]" +
			summary("first", "rejected", "r1", "src") + "\nz=1",
		"x-death=[{count=l:2 reason=expired queue=r2 time=T:2 exchange=dlx routing-keys=[r2]},{original-expiration=60000 count=l:2 reason=rejected queue=r1 time=T:1 exchange=src routing-keys=[main]}]" +
			summary("first", "rejected", "r1", "src") + summary("last", "expired", "r2", "dlx") + "\nz=1"},
	{"reasons count apart", headed(nil), []death{by("a", "a", rejected), by("a", "a", expired)},
		"x-death=[{count=l:1 exchange=dlx queue=a reason=expired routing-keys=[a] time=T:2},{count=l:1 reason=rejected queue=a time=T:1 exchange=src routing-keys=[main]}]" +
			summary("first", "rejected", "a", "src"),
		"x-death=[{count=l:1 reason=expired queue=a time=T:2 exchange=dlx routing-keys=[a]},{count=l:1 reason=rejected queue=a time=T:1 exchange=src routing-keys=[main]}]" +
			summary("first", "rejected", "a", "src") + summary("last", "expired", "a", "dlx")},
}

func TestBuriedHeaders(t *testing.T) {
	for _, c := range buriedCases {
		for i, want := range []string{c.v3, c.v4} {
			dead, _ := die(profiles[i], letter(c.values), c.deaths...)
			checkProperties(t, c.name+", profile "+profiles[i].String(), dead, c.values, want)
		}
	}
}

// checkProperties: nothing differs but the expiration and the headers.
func checkProperties(t *testing.T, name string, dead *queue.Message, published frames.PropertyValues, headers string) {
	t.Helper()
	properties := propertiesOf(dead)
	got := properties.Values()
	if diff := cmp.Diff(headers, shown(got.Headers)); diff != "" {
		t.Errorf("%s: headers (-want +got)\n%s", name, diff)
	}
	got.Headers, published.Headers, published.Expiration = nil, nil, ""
	published.Flags = published.Flags&^frames.FlagExpiration | frames.FlagHeaders
	if diff := cmp.Diff(published, got); diff != "" {
		t.Errorf("%s: properties (-want +got)\n%s", name, diff)
	}
}

// order gives the queues of x-death with their counts.
func order(m *queue.Message) string {
	properties := propertiesOf(m)
	headers, _ := properties.Headers()
	deaths, _ := headers.Lookup("x-death")
	var parts []string
	for it := deaths.ArrayIter(); it.Next(); {
		entry := frames.RawTable(it.Value().Data).Decode()
		name, _ := entry.Get("queue")
		count, _ := entry.Get("count")
		parts = append(parts, fmt.Sprint(name, count))
	}
	return strings.Join(parts, " ")
}

// TestOrderOfDeaths: the latest is first. 4.3.6 keeps the others in order,
// 3.10.8 turns them round each time.
func TestOrderOfDeaths(t *testing.T) {
	chain := []struct{ died, v3, v4 string }{
		{"0", "01", "01"},
		{"1", "11 01", "11 01"},
		{"2", "21 01 11", "21 11 01"},
		{"3", "31 11 01 21", "31 21 11 01"},
		{"4", "41 21 01 11 31", "41 31 21 11 01"},
		{"5", "51 31 11 01 21 41", "51 41 31 21 11 01"},
		{"0", "02 41 21 11 31 51", "02 51 41 31 21 11"},
		{"1", "12 51 31 21 41 02", "12 02 51 41 31 21"},
	}
	for i, p := range profiles {
		m := letter(headed(nil))
		for _, step := range chain {
			m, _ = buried(p, m, in(step.died, rejected))
			if want := [...]string{step.v3, step.v4}[i]; order(m) != want {
				t.Errorf("profile %v, died in %s: %s, not %s", p, step.died, order(m), want)
			}
		}
	}
}

// suppliedCases: what becomes of an x-death header that the publisher sent,
// after rejection in queue a, in 3.10.8. 4.3.6 replaces it in every case.
var suppliedCases = []struct {
	name    string
	headers frames.Table
	want    string
}{
	{"same pair", table("x-death", frames.Array{table("reason", "rejected", "queue", "a", "count", int32(4), "mine", "1", "time", frames.Timestamp(5))},
		"x-first-death-reason", "mine", "x-last-death-queue", "q", "x-first-death-exchange", int32(1)),
		"x-death=[{count=l:5 mine=1 queue=a reason=rejected time=T:5}]\nx-first-death-exchange=I:1\nx-first-death-reason=mine\nx-last-death-queue=q"},
	{"other pairs", table("x-death", frames.Array{table("reason", "expired", "queue", "a", "count", int64(4)), table("reason", "rejected", "queue", "o", "count", frames.LongLong(4))}),
		newDeath + ",{reason=rejected queue=o count=l:4},{reason=expired queue=a count=l:4}]"},
	{"one without count", table("x-death", frames.Array{table("queue", "a", "reason", "rejected", "z", "1")}),
		"x-death=[{count=l:1 queue=a reason=rejected z=1}]"},
	{"another without count", table("x-death", frames.Array{table("queue", "t", "reason", "rejected")}),
		newDeath + ",{queue=t reason=rejected}]"},
	{"many without count", table("x-death", frames.Array{table("reason", "rejected", "queue", "a"), table("reason", "rejected", "queue", "o"), table("queue", "a", "reason", "rejected")}),
		"x-death=[{count=l:3 queue=a reason=rejected},{count=l:1 reason=rejected queue=o}]"},
	{"groups", table("x-death", frames.Array{table("reason", "rejected", "queue", "o"), table("zz", "1", "reason", "expired", "queue", "p", "count", int64(9)),
		table("queue", "o", "reason", "rejected", "count", int64(3))}),
		newDeath + ",{zz=1 reason=expired queue=p count=l:9},{count=l:2 reason=rejected queue=o}]"},
	{"empty", table("x-death", frames.Array{}), newDeath + "]"},
	{"empty entry", table("x-death", frames.Array{frames.Table{}}), newDeath + ",{}]"},
	{"string", table("y", "1", "x-death", "str", "b", "1"), "b=1\n" + told + "\ny=1"},
	{"void", table("x-death", nil), told},
	{"table", table("x-death", table("reason", "rejected", "queue", "a")), told},
	{"reason int", table("x-death", frames.Array{table("reason", int32(4), "queue", "a", "count", int64(4))}), newDeath + ",{reason=I:4 queue=a count=l:4}]"},
	{"twice", table("x-death", frames.Array{table("reason", "rejected", "queue", "a", "count", int64(4))}, "x-death", frames.Array{}),
		"x-death=[{count=l:5 queue=a reason=rejected}]\nx-death=[]"},
	{"first death alone", table("x-first-death-reason", "mine", "x-first-death-queue", int32(4), "x-last-death-reason", "l"),
		told + summary("first", "rejected", "a", "src") + "\nx-last-death-reason=l"},
	{"keys twice", table("x-death", frames.Array{table("count", int64(3), "queue", "a", "reason", "rejected", "count", int64(8), "reason", "x")}),
		"x-death=[{count=l:4 count=l:8 queue=a reason=rejected reason=x}]"},
	{"negative count", counting(int64(-3)), recounted("-2")},
	{"count b", counting(int8(3)), recounted("4")},
	{"count T", counting(frames.Timestamp(5)), recounted("6")},
	{"count I", counting(int32(0x7fffffff)), recounted("2147483648")},
	{"count l", counting(int64(0x7fffffffffffffff)), recounted("-9223372036854775808")},
	{"count void", counting(nil), "x-death=[{count=l:1 count=V:<nil> queue=a reason=rejected}]"},
	{"foreign count of no integer", table("x-death", frames.Array{table("count", "zz", "queue", "b", "reason", "rejected"), table("queue", "d")}),
		newDeath + ",{count=l:1 queue=d},{count=zz queue=b reason=rejected}]"},
	{"bytes are strings", table("x-death", frames.Array{table("queue", []byte("a"), "reason", []byte("rejected"), "count", int64(2)),
		table("queue", "a", "reason", "rejected", "count", int64(7)), table("queue", []byte("o")), table("queue", "o", "n", "2")}),
		"x-death=[{count=l:3 queue=x:[97] reason=x:[114 101 106 101 99 116 101 100]},{count=l:2 queue=x:[111]}]"},
	{"integers are one type", table("x-death", frames.Array{table("queue", int8(4)), table("queue", int32(4)), table("queue", float64(4)), table("queue", "4")}),
		newDeath + ",{count=l:1 queue=4},{count=l:1 queue=d:4},{count=l:2 queue=b:4}]"},
	// On these RabbitMQ loses the queue process or the connection.
	{"count string", counting("4"), recounted("1")},
	{"count bool", counting(true), recounted("1")},
	{"count double", counting(3.5), recounted("1")},
	{"strings", table("x-death", frames.Array{"str"}), newDeath + "]"},
	{"string and table", table("x-death", frames.Array{"str", table("reason", "rejected", "queue", "a", "count", int64(4)), nil}), recounted("5")},
}

const newDeath = "x-death=[{count=l:1 exchange=src queue=a reason=rejected routing-keys=[main] time=T:1}"

func counting(count any) frames.Table {
	return table("x-death", frames.Array{table("count", count, "queue", "a", "reason", "rejected")})
}

func recounted(n string) string { return "x-death=[{count=l:" + n + " queue=a reason=rejected}]" }

func TestSuppliedDeaths(t *testing.T) {
	for _, c := range suppliedCases {
		dead, _ := die(compat.V3, letter(headed(c.headers)), in("a", rejected))
		checkProperties(t, c.name, dead, headed(nil), c.want)
		dead, _ = die(compat.V4, letter(headed(c.headers)), in("a", rejected))
		want := told + once("rejected", "a", "src")
		if c.name == "string" {
			want = "b=1\n" + want + "\ny=1"
		}
		checkProperties(t, c.name+", profile 4", dead, headed(nil), want)
	}
}

func TestBuriedMessage(t *testing.T) {
	m := letter(expiring(headed(table("CC", frames.Array{"c1", int32(1)})), "50"))
	m.Priority, m.Persistent, m.Expiration, m.BCC = 7, true, 50, []string{"b1"}
	long := strings.Repeat("k", 300)
	for _, p := range profiles {
		for _, c := range []struct {
			name   string
			deaths []death
			key    string
			keys   []string
			bcc    []string
		}{
			{"no key", []death{in("a", rejected)}, "main", []string{"main", "c1", "b1"}, m.BCC},
			{"twice no key", []death{in("a", rejected), in("b", rejected)}, "main", []string{"main", "c1", "b1"}, m.BCC},
			{"key", []death{by("dk", "a", rejected)}, "dk", []string{"dk"}, nil},
			{"empty key", []death{by("", "a", rejected)}, "", []string{""}, nil},
			{"key, no key", []death{by("dk", "a", rejected), in("b", rejected)}, "dk", []string{"dk"}, nil},
			{"no key, key", []death{in("b", rejected), by("dk", "a", rejected)}, "dk", []string{"dk"}, nil},
			{"long key", []death{by(long, "a", rejected)}, long[:255], []string{long}, nil},
		} {
			dead, keys := die(p, m, c.deaths...)
			if dead.Exchange != "dlx" || dead.RoutingKey != c.key || dead.Priority != 7 || !dead.Persistent || dead.Expiration != -1 || &dead.Content[0] != &m.Content[0] {
				t.Errorf("%s, profile %v: %+v", c.name, p, dead)
			}
			if diff := cmp.Diff([][]string{c.keys, c.bcc}, [][]string{keys, dead.BCC}); diff != "" {
				t.Errorf("%s, profile %v: keys (-want +got)\n%s", c.name, p, diff)
			}
		}
	}
}

// TestDeathCycle: deaths, the queue that the last one leads to, and whether
// it takes the message (asked of 3.10.8 and 4.3.6).
func TestDeathCycle(t *testing.T) {
	for _, c := range []struct {
		name   string
		sent   frames.Array // an x-death header from the publisher
		deaths []death
		target string
		v3, v4 bool
	}{
		{"ttl into itself", nil, []death{in("s", expired)}, "s", true, true},
		{"length into itself", nil, []death{in("s", maxlen)}, "s", true, true},
		{"deliveries into itself", nil, []death{in("s", deliveryLimit)}, "s", true, true},
		{"reject into itself", nil, []death{in("s", rejected)}, "s", false, false},
		{"elsewhere", nil, []death{in("s", expired)}, "t", false, false},
		{"there and back", nil, []death{in("s", expired), in("t", expired)}, "s", true, true},
		{"rejected, then ttl back", nil, []death{in("s", rejected), in("t", expired)}, "s", false, false},
		{"ttl, then rejected back", nil, []death{in("s", expired), in("t", rejected)}, "s", false, false},
		{"rejected since", nil, []death{in("s", expired), in("t", rejected), in("u", expired)}, "s", true, false},
		{"rejected long ago", nil, []death{in("u", rejected), in("s", expired), in("t", expired)}, "s", false, true},
		{"loop of a retry", nil, []death{in("s", rejected), in("t", expired), in("s", rejected), in("t", expired)}, "s", false, false},
		{"sent: was there", frames.Array{table("queue", "t", "reason", "expired")}, []death{in("s", expired)}, "t", true, false},
		{"sent: was rejected there", frames.Array{table("queue", "t", "reason", "rejected")}, []death{in("s", expired)}, "t", false, false},
		{"sent: rejected last", frames.Array{table("queue", "o", "reason", "rejected"), table("queue", "t", "reason", "expired")}, []death{in("s", expired)}, "t", true, false},
		{"sent: rejected before", frames.Array{table("queue", "t", "reason", "expired"), table("queue", "o", "reason", "rejected")}, []death{in("s", expired)}, "t", false, false},
		{"sent: no reason", frames.Array{table("queue", "t")}, []death{in("s", expired)}, "t", true, false},
		{"sent: bytes for a queue", frames.Array{table("queue", []byte("t"), "reason", "expired")}, []death{in("s", expired)}, "t", false, false},
		{"sent: bytes for a reason", frames.Array{table("queue", "t", "reason", []byte("rejected"))}, []death{in("s", expired)}, "t", true, false},
	} {
		var headers frames.Table
		if c.sent != nil {
			headers = table("x-death", c.sent)
		}
		for i, want := range []bool{c.v3, c.v4} {
			dead, _ := die(profiles[i], letter(headed(headers)), c.deaths...)
			if got := deathCycle(dead, c.deaths[len(c.deaths)-1].Reason, c.target); got != want {
				t.Errorf("%s, profile %v: cycle %v, not %v", c.name, profiles[i], got, want)
			}
		}
	}
}

// TestBlindKeys: a message knows the keys of its BCC header, and recipients do
// not.
func TestBlindKeys(t *testing.T) {
	b, err := Open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	v, _ := b.VHost("/")
	values := headed(table("CC", frames.Array{"c"}, "BCC", frames.Array{"b1", int32(1), "b2"}))
	properties, err := frames.ParseProperties(values.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	publication := Publication{RoutingKey: []byte("q"), Properties: properties}
	if _, err := v.Route(new(Router), &Client{User: "guest"}, &publication); err != nil {
		t.Fatal(err)
	}
	m := publication.Compose(new(queue.Arena), nil)
	if diff := cmp.Diff([]string{"b1", "b2"}, m.BCC); diff != "" {
		t.Errorf("BCC (-want +got)\n%s", diff)
	}
	checkProperties(t, "published", m, headed(nil), "CC=[c]")
}

func TestDeathReasons(t *testing.T) {
	for reason, want := range map[deathReason]string{rejected: "rejected", expired: "expired", maxlen: "maxlen", deliveryLimit: "delivery_limit", 99: "unknown"} {
		if reason.String() != want {
			t.Errorf("%d is %q, not %q", reason, reason, want)
		}
	}
}
