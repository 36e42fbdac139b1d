package broker

import (
	"cmp"
	"slices"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
	"github.com/warrenmq/warren/queue"
)

// deathReason is why a queue dead-lettered a message.
type deathReason uint8

// The reasons.
const (
	rejected      deathReason = iota // basic.reject or basic.nack without requeue
	expired                          // its time to live ended
	maxlen                           // the queue's length limit
	deliveryLimit                    // a quorum queue's limit of deliveries
)

// String gives RabbitMQ's word, as x-death shows it.
func (r deathReason) String() string {
	switch r {
	case rejected:
		return "rejected"
	case expired:
		return "expired"
	case maxlen:
		return "maxlen"
	case deliveryLimit:
		return "delivery_limit"
	}
	return "unknown"
}

// death describes one dead-lettering.
type death struct {
	// Queue is the queue the message died in.
	Queue  string
	Reason deathReason
	// At is message time, seconds since 1970 (UTC).
	At int64
	// Exchange is the dead-letter exchange.
	Exchange string
	// Key is the queue's x-dead-letter-routing-key; HasKey says that it has one.
	Key    string
	HasKey bool
}

// The headers of dead-lettered messages.
const (
	headerDeath      = "x-death"
	headerFirstDeath = "x-first-death-"
	headerLastDeath  = "x-last-death-"
	headerCC         = "CC"
)

// buried makes the message that is published to the dead-letter exchange, and
// the routing keys to route it by; the first is its RoutingKey, of which more
// than the 255 bytes that a client can be shown are cut. It has the old one's
// body, and properties that tell of the death: x-death and its kin among the
// headers, which dead-lettering sorts, and no expiration. m is not changed.
// Any goroutine. (RabbitMQ 3.10.8 and 4.3.6, every case asked of both.)
//
// Where RabbitMQ loses its queue process over an x-death header from a
// publisher, elements that are no table are left out here, and a count that is
// no integer starts again.
func buried(p compat.Profile, m *queue.Message, d death) (dead *queue.Message, keys []string) {
	dead = &queue.Message{
		Exchange: d.Exchange, RoutingKey: m.RoutingKey, Content: m.Content,
		Priority: m.Priority, Persistent: m.Persistent, Expiration: -1,
		Dead: true, CCDone: m.CCDone || d.HasKey,
	}
	properties := propertiesOf(m)
	raw, _ := properties.Headers()
	headers := raw.Decode()
	withoutLongLong(headers)
	copied := copiedKeys(m, headers)
	headers = withDeath(p, m, headers, d, d.entry(p, m, &properties, copied))
	if d.HasKey {
		dead.RoutingKey = d.Key[:min(len(d.Key), 255)]
		keys = []string{d.Key}
		if compat.DeathKeyRemovesCC.In(p) {
			headers = unset(headers, headerCC)
		}
	} else {
		dead.BCC = m.BCC
		keys = slices.Concat([]string{m.RoutingKey}, copied, m.BCC)
	}
	mortal, err := frames.ParseProperties(properties.AppendWithout(nil, frames.FlagExpiration))
	if err != nil {
		panic("broker: properties do not survive the loss of one: " + err.Error())
	}
	dead.Properties = mortal.AppendWithHeaders(nil, headers)
	return dead, keys
}

// deathCycle says whether a message that died for reason must not go to the
// queue called target: it died there before, or just now, and no death since
// was a consumer's doing. dead is what buried made. Any goroutine. (RabbitMQ's
// page on dead letter exchanges, section "Automatic Dead Letter Cycles";
// verified on 3.10.8 and 4.3.6.)
//
// "Since" is as far as x-death tells: see compat.LaterDeathsRearranged.
func deathCycle(dead *queue.Message, reason deathReason, target string) bool {
	if reason == rejected {
		return false
	}
	properties := propertiesOf(dead)
	headers, _ := properties.Headers()
	deaths, _ := headers.Lookup(headerDeath)
	for it := deaths.ArrayIter(); it.Next(); {
		entry := frames.RawTable(it.Value().Data)
		if why, _ := entry.Lookup("reason"); why.Type == 'S' && string(why.Data) == "rejected" {
			return false
		}
		if where, _ := entry.Lookup("queue"); where.Type == 'S' && string(where.Data) == target {
			return true
		}
	}
	return false
}

// propertiesOf reads the properties of a message. They were checked when it
// was published.
func propertiesOf(m *queue.Message) frames.Properties {
	properties, err := frames.ParseProperties(m.Properties)
	if err != nil {
		panic("broker: a message with malformed properties: " + err.Error())
	}
	return properties
}

// copiedKeys are the routing keys of the CC header, as long as they count.
func copiedKeys(m *queue.Message, headers frames.Table) (keys []string) {
	if m.CCDone {
		return nil
	}
	value, _ := headers.Get(headerCC)
	array, _ := value.(frames.Array)
	for _, v := range array {
		if key, ok := v.(string); ok {
			keys = append(keys, key)
		}
	}
	return keys
}

// entry is what x-death says of the first death of its queue and reason.
func (d *death) entry(p compat.Profile, m *queue.Message, properties *frames.Properties, copied []string) frames.Table {
	routingKeys := frames.Array{m.RoutingKey}
	for _, key := range copied {
		routingKeys = append(routingKeys, key)
	}
	entry := frames.Table{
		{Key: "count", Value: int64(1)},
		{Key: "reason", Value: d.Reason.String()},
		{Key: "queue", Value: d.Queue},
		{Key: "time", Value: frames.Timestamp(d.At)},
		{Key: "exchange", Value: m.Exchange},
		{Key: "routing-keys", Value: routingKeys},
	}
	if ms, ok := properties.Expiration(); ok {
		at := len(entry)
		if compat.ExpirationBeforeDeath.In(p) {
			at = 0
		}
		entry = slices.Insert(entry, at, frames.Field{Key: "original-expiration", Value: string(ms)})
	}
	return entry
}

// withDeath gives headers that tell of a death, sorted by their keys. entry is
// what x-death says if the queue and reason are not in it yet.
func withDeath(p compat.Profile, m *queue.Message, headers frames.Table, d death, entry frames.Table) frames.Table {
	sortByKey(headers)
	if compat.DeathDropsDuplicates.In(p) {
		headers = slices.CompactFunc(headers, func(a, b frames.Field) bool { return a.Key == b.Key })
	}
	told, ok := headers.Get(headerDeath)
	if !m.Dead && !compat.PublisherDeathsCount.In(p) {
		told, ok = nil, false
	}
	if !ok {
		headers = withDeathSummary(headers, headerFirstDeath, m, d)
	}
	deaths := frames.Array{entry}
	if earlier, isArray := told.(frames.Array); isArray {
		deaths = withEntry(p, earlier, entry)
	}
	headers = set(headers, headerDeath, deaths)
	if compat.LastDeathHeaders.In(p) {
		headers = withDeathSummary(headers, headerLastDeath, m, d)
	}
	sortByKey(headers)
	return headers
}

// withDeathSummary sets the three headers of the first or the last death.
func withDeathSummary(headers frames.Table, prefix string, m *queue.Message, d death) frames.Table {
	headers = set(headers, prefix+"reason", d.Reason.String())
	headers = set(headers, prefix+"queue", d.Queue)
	return set(headers, prefix+"exchange", m.Exchange)
}

// deathPair is what x-death has one entry for. The values of a publisher may
// be of any type.
type deathPair struct{ queue, reason any }

func pairOf(entry frames.Table) deathPair {
	q, _ := entry.Get("queue")
	reason, _ := entry.Get("reason")
	return deathPair{term(q), term(reason)}
}

// term makes a value that compares as Erlang's do: strings by their bytes,
// integers and timestamps as int64, whatever their types in the table were; a
// void is as good as absent.
func term(v any) any {
	switch v := v.(type) {
	case string, nil, bool, float64, frames.Decimal:
		return v
	case []byte:
		return string(v)
	case float32:
		return float64(v)
	case frames.Timestamp:
		return int64(v)
	case frames.Array, frames.Table:
		return [1]string{string(frames.Table{{Value: v}}.AppendContents(nil))}
	}
	n, _ := integer(v)
	return n
}

// withEntry puts the entry of a death before those of earlier ones, or counts
// it in the one for the same queue and reason.
func withEntry(p compat.Profile, earlier frames.Array, entry frames.Table) frames.Array {
	tables := make([]frames.Table, 0, len(earlier)+1)
	for _, v := range earlier {
		if t, ok := v.(frames.Table); ok {
			tables = append(tables, t)
		}
	}
	if compat.LaterDeathsRearranged.In(p) && len(tables) > 1 {
		tables = grouped(tables)
	}
	pair := pairOf(entry)
	if i := slices.IndexFunc(tables, func(t frames.Table) bool { return pairOf(t) == pair }); i >= 0 {
		entry = counted(tables[i])
		tables = slices.Delete(tables, i, i+1)
	}
	if compat.LaterDeathsRearranged.In(p) {
		sortByKey(entry)
	}
	deaths := make(frames.Array, 0, len(tables)+1)
	deaths = append(deaths, entry)
	for _, t := range tables {
		deaths = append(deaths, t)
	}
	return deaths
}

// grouped leaves one entry for each queue and reason, the first, and gives it
// the number of them as its count if it has none. The order is turned round:
// so is it in RabbitMQ 3.10.8, whose cycle rule goes by it.
func grouped(tables []frames.Table) []frames.Table {
	number := make(map[deathPair]int64, len(tables))
	var kept []frames.Table
	for _, t := range tables {
		pair := pairOf(t)
		if number[pair]++; number[pair] == 1 {
			kept = append(kept, t)
		}
	}
	slices.Reverse(kept)
	for i, t := range kept {
		if count, _ := t.Get("count"); count == nil {
			kept[i] = slices.Insert(t, 0, frames.Field{Key: "count", Value: number[pairOf(t)]})
		}
	}
	return kept
}

// counted adds one death to an entry.
func counted(entry frames.Table) frames.Table {
	count, _ := entry.Get("count")
	if count == nil {
		return slices.Insert(entry, 0, frames.Field{Key: "count", Value: int64(1)})
	}
	n, _ := term(count).(int64)
	return set(entry, "count", n+1)
}

// set replaces the value of the first field with the key, or appends one.
func set(t frames.Table, key string, value any) frames.Table {
	for i := range t {
		if t[i].Key == key {
			t[i].Value = value
			return t
		}
	}
	return append(t, frames.Field{Key: key, Value: value})
}

// unset takes out the first field with the key.
func unset(t frames.Table, key string) frames.Table {
	if i := slices.IndexFunc(t, func(f frames.Field) bool { return f.Key == key }); i >= 0 {
		return slices.Delete(t, i, i+1)
	}
	return t
}

// sortByKey sorts a table bytewise; fields with the same key stay in order.
func sortByKey(t frames.Table) {
	slices.SortStableFunc(t, func(a, b frames.Field) int { return cmp.Compare(a.Key, b.Key) })
}

// withoutLongLong turns values of type L into the same ones of type l, in
// place and at any depth: RabbitMQ decodes headers to change them, and knows
// only one of the two when it encodes them again.
func withoutLongLong(t frames.Table) {
	for i := range t {
		t[i].Value = withoutLongLongValue(t[i].Value)
	}
}

func withoutLongLongValue(v any) any {
	switch v := v.(type) {
	case frames.LongLong:
		return int64(v)
	case frames.Table:
		withoutLongLong(v)
	case frames.Array:
		for i := range v {
			v[i] = withoutLongLongValue(v[i])
		}
	}
	return v
}
