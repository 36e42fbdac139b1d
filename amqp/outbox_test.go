package amqp

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/queue"
)

// gate is a socket that lets write calls through only when the test says so.
type gate struct {
	net.Conn // nil: only Write and Close are called

	mu     sync.Mutex
	opened sync.Cond
	passes int // write calls that may go on; negative: all
	got    []byte
	writes []int // bytes of each call
	err    error // what writes fail with once the gate is open
}

func newGate() *gate {
	g := &gate{}
	g.opened.L = &g.mu
	return g
}

func (g *gate) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.passes == 0 {
		g.opened.Wait()
	}
	if g.passes > 0 {
		g.passes--
	}
	if g.err != nil {
		return 0, g.err
	}
	g.got = append(g.got, b...)
	g.writes = append(g.writes, len(b))
	return len(b), nil
}

func (g *gate) Close() error { return nil }

func (g *gate) pass(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.passes = n
	g.opened.Broadcast()
}

// left is how many bytes of a lane were not handed to the writer.
func (l *lane) left() int {
	n := len(l.buf) - l.start
	for _, c := range l.chunks[l.head:] {
		n += len(c.bytes)
	}
	return n
}

// sent is one method with its content.
type sent struct {
	kind string
	n    uint64
	sum  uint32 // of the body
}

// outboxTest appends frames that carry a number each, and knows the order in
// which every channel's must come out.
type outboxTest struct {
	o        outbox
	budget   budget
	gate     *gate
	closed   chan error
	channels []*channel
	want     map[uint16][]sent
	appended int
	next     uint64
	// controls: of each control frame that may overtake, the most bytes that
	// may stand before it in the stream.
	controls map[uint64]int
}

func newOutboxTest(frameMax uint32) *outboxTest {
	x := &outboxTest{gate: newGate(), closed: make(chan error, 1), want: map[uint16][]sent{}, controls: map[uint64]int{}}
	x.o.init(x.gate, &x.budget, new(late))
	x.o.frameMax.Store(frameMax)
	x.o.onRoom = func([]*consumer) {}
	x.o.onClosed = func(err error) { x.closed <- err }
	for id := uint16(1); id <= 4; id++ {
		x.channels = append(x.channels, &channel{id: id})
	}
	return x
}

// beforeBulk is how many bytes the writer was given, and the control bytes that
// wait: all that stands before bulk frames that were not handed over.
func (x *outboxTest) beforeBulk() int {
	x.o.mu.Lock()
	defer x.o.mu.Unlock()
	return x.appended - x.o.bulk.left()
}

// reply appends a method on a channel whose deliveries it must not overtake.
func (x *outboxTest) reply(ch *channel) {
	x.next++
	x.o.mu.Lock()
	overtakes := ch.position.end <= x.o.bulkOut
	x.o.mu.Unlock()
	x.o.ack(&ch.position, ch.id, x.next, false, false)
	x.appended += ackFrame
	if overtakes {
		// Asked for only now: the writer may have gone on since before.
		x.controls[x.next] = x.beforeBulk() - ackFrame
	}
	x.want[ch.id] = append(x.want[ch.id], sent{"ack", x.next, 0})
}

// ackFrame is the size of a basic.ack.
const ackFrame = frames.Overhead + 4 + 8 + 1

// deliver appends a delivery if there is room, content a get-ok.
func (x *outboxTest) deliver(ch *channel, size int) {
	m := x.message(size)
	c := &consumer{ch: ch, Consumer: queue.Consumer{Tag: "tag"}}
	if x.o.deliver(c, x.next+1, &queue.Entry{Message: m}) {
		x.note(ch, "deliver", frames.AppendDeliver(nil, ch.id, "tag", x.next+1, false, "x", "key"), m)
	}
}

func (x *outboxTest) content(ch *channel, size int) {
	m := x.message(size)
	method := frames.AppendGetOk(nil, ch.id, x.next+1, false, "x", "key", 0)
	x.o.sendContent(&ch.position, ch.id, method, m)
	x.note(ch, "get-ok", method, m)
}

func (x *outboxTest) message(size int) *queue.Message {
	from := int(x.next % 4093) // a body of its own
	return &queue.Message{Exchange: "x", RoutingKey: "key", Properties: []byte{0, 0}, Content: noise[from : from+size]}
}

// noise is what bodies are cut from.
var noise = func() []byte {
	b := make([]byte, 1<<19)
	rand.NewChaCha8([32]byte{}).Read(b)
	return b
}()

func (x *outboxTest) note(ch *channel, kind string, method []byte, m *queue.Message) {
	wire := frames.AppendHeaderFrame(method, ch.id, uint64(len(m.Content)), m.Properties)
	wire = frames.AppendBodyFrames(wire, ch.id, m.Content, x.o.frameMax.Load())
	x.appended += len(wire)
	x.next++
	x.want[ch.id] = append(x.want[ch.id], sent{kind, x.next, crc32.ChecksumIEEE(m.Content)})
}

// finish lets everything out and checks the stream.
func (x *outboxTest) finish(t interface{ Fatalf(string, ...any) }) {
	x.gate.pass(-1)
	x.o.closeWhenWritten()
	if err := <-x.closed; err != nil {
		t.Fatalf("outbox ended with %v", err)
	}
	if n := x.budget.queued.Load(); n != 0 || x.o.queued != 0 {
		t.Fatalf("%d bytes count as queued, %d in the budget", x.o.queued, n)
	}
	if len(x.gate.got) != x.appended {
		t.Fatalf("%d bytes came out, %d went in", len(x.gate.got), x.appended)
	}
	got := x.parse(t)
	for id, want := range x.want {
		if !slices.Equal(got[id], want) {
			for i := range want {
				if i >= len(got[id]) || got[id][i] != want[i] {
					t.Fatalf("channel %d, frame %d of %d (%d came): got %.1v, want %v", id, i, len(want), len(got[id]), got[id][min(i, len(got[id])):], want[i])
				}
			}
		}
	}
}

// parse reads the stream as a client does, each channel for itself, and checks
// where control frames stand.
func (x *outboxTest) parse(t interface{ Fatalf(string, ...any) }) map[uint16][]sent {
	r := frames.NewReader(bytes.NewReader(x.gate.got))
	r.SetLimit(0)
	got := map[uint16][]sent{}
	type open struct {
		sent
		due    uint64
		header bool
	}
	contents := map[uint16]*open{}
	at := 0
	for {
		f, err := r.Next()
		if err == io.EOF {
			return got
		}
		if err != nil {
			t.Fatalf("the stream is broken at %d: %v", at, err)
		}
		c := contents[f.Channel]
		switch {
		case f.Type == frames.TypeMethod && c == nil:
			m, err := frames.DecodeMethod(f.Payload)
			if err != nil {
				t.Fatalf("method at %d: %v", at, err)
			}
			switch m := m.(type) {
			case *frames.BasicAck:
				if most, ok := x.controls[m.DeliveryTag]; ok && at > most {
					t.Fatalf("ack %d stands at %d, only %d bytes were before it", m.DeliveryTag, at, most)
				}
				got[f.Channel] = append(got[f.Channel], sent{"ack", m.DeliveryTag, 0})
			case *frames.BasicDeliver:
				contents[f.Channel] = &open{sent: sent{"deliver", m.DeliveryTag, 0}}
			case *frames.BasicGetOk:
				contents[f.Channel] = &open{sent: sent{"get-ok", m.DeliveryTag, 0}}
			}
		case f.Type == frames.TypeHeader && c != nil && !c.header:
			h, err := frames.ParseContentHeader(f.Payload)
			if err != nil {
				t.Fatalf("header at %d: %v", at, err)
			}
			c.due, c.header = h.BodySize, true
		case f.Type == frames.TypeBody && c != nil && c.header && c.due >= uint64(len(f.Payload)):
			if most := int(x.o.frameMax.Load()) - frames.Overhead; len(f.Payload) > most {
				t.Fatalf("body frame of %d octets, frame-max allows %d", len(f.Payload), most)
			}
			c.due -= uint64(len(f.Payload))
			c.sum = crc32.Update(c.sum, crc32.IEEETable, f.Payload)
		default:
			t.Fatalf("frame of type %d on channel %d at %d is out of place", f.Type, f.Channel, at)
		}
		if c := contents[f.Channel]; c != nil && c.header && c.due == 0 {
			got[f.Channel] = append(got[f.Channel], c.sent)
			delete(contents, f.Channel)
		}
		at += frames.Overhead + len(f.Payload)
	}
}

// TestOutboxModel: whatever is appended while the socket takes what it likes,
// each channel's frames come out whole and in order, and a control frame waits
// for no more than the write call under way when nothing of its own channel is
// before it.
func TestOutboxModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := newOutboxTest(rapid.SampledFrom([]uint32{4096, 131072, 1 << 20}).Draw(t, "frame-max"))
		channel := func(t *rapid.T) *channel {
			return x.channels[rapid.IntRange(0, len(x.channels)-1).Draw(t, "channel")]
		}
		size := rapid.OneOf(rapid.IntRange(0, 100), rapid.IntRange(copyLimit-2, copyLimit+2), rapid.IntRange(0, 150_000),
			rapid.SampledFrom([]int{131064, 131065, largeChunk, 270_000}))
		bursts := 0
		t.Repeat(map[string]func(*rapid.T){
			"reply": func(t *rapid.T) { x.reply(channel(t)) },
			"replies": func(t *rapid.T) {
				if bursts++; bursts > 1 {
					return // one is enough, and takes long
				}
				for range writeBound/ackFrame + 100 {
					x.reply(x.channels[3])
				}
			},
			"deliver": func(t *rapid.T) { x.deliver(channel(t), size.Draw(t, "size")) },
			"deliveries": func(t *rapid.T) {
				ch, n := channel(t), size.Draw(t, "size")
				for range 5 {
					x.deliver(ch, n)
				}
			},
			"content": func(t *rapid.T) { x.content(channel(t), size.Draw(t, "size")) },
			"batch": func(t *rapid.T) {
				x.o.hold()
				for range 5 {
					x.reply(channel(t))
					x.deliver(channel(t), size.Draw(t, "size"))
				}
				x.o.release()
			},
			"write": func(t *rapid.T) { x.gate.pass(rapid.IntRange(1, 5).Draw(t, "calls")) },
		})
		x.finish(t)
	})
}

// TestOutboxWholeFrames is the case that broke streams: the bound of a write
// falls between a body frame's header and its payload, and a control frame
// comes next.
func TestOutboxWholeFrames(t *testing.T) {
	x := newOutboxTest(131072)
	x.o.hold()
	x.deliver(x.channels[0], 100)
	for range 7 {
		x.deliver(x.channels[0], 131064)
	}
	x.o.release()
	for i := range 20 {
		x.reply(x.channels[1])
		x.gate.pass(1 + i%2)
	}
	x.finish(t)
	for _, n := range x.gate.writes {
		if n > writeBound {
			t.Errorf("a write call of %d bytes", n)
		}
	}
}

// TestOutboxRepliesBeforeDeliveries: replies that do not fit into one write are
// not overtaken by later deliveries of their channel.
func TestOutboxRepliesBeforeDeliveries(t *testing.T) {
	x := newOutboxTest(131072)
	x.o.hold()
	for range 3 * writeBound / ackFrame {
		x.reply(x.channels[0])
	}
	x.deliver(x.channels[0], 10)
	x.o.release()
	x.finish(t)
}

// TestOutboxLimits: above the limit consumers lose credit, once each, and get
// it back when half is written; a consumer that ended does not.
func TestOutboxLimits(t *testing.T) {
	x := newOutboxTest(131072)
	resumed := make(chan []*consumer, 1)
	x.o.onRoom = func(c []*consumer) { resumed <- c }
	ch := x.channels[0]
	var all []*consumer
	for i := range 50 {
		all = append(all, &consumer{ch: ch, Consumer: queue.Consumer{Tag: fmt.Sprint(i)}})
	}
	m := x.message(10_000)
	taken := 0
	for x.o.deliver(all[0], 1, &queue.Entry{Message: m}) {
		taken++
	}
	if bytes := taken * len(m.Content); bytes < outboxLimit-len(m.Content) || bytes > outboxLimit+len(m.Content) {
		t.Errorf("%d bytes were taken", bytes)
	}
	if x.o.mustWait() {
		t.Error("the reader has to wait at the first limit already")
	}
	for _, c := range append(all, all...) {
		if x.o.deliver(c, 1, &queue.Entry{Message: m}) {
			t.Fatal("a delivery was taken above the limit")
		}
	}
	for i, c := range all {
		if i%3 == 0 {
			x.o.forget(c)
			x.o.forget(c)
		}
	}
	for x.o.sendContent(&ch.position, ch.id, nil, m); !x.o.mustWait(); {
		x.o.sendContent(&ch.position, ch.id, nil, m)
	}
	x.gate.pass(-1)
	x.o.waitForRoom()
	got := map[*consumer]int{}
	for _, c := range <-resumed {
		got[c]++
	}
	for i, c := range all {
		if want := min(i%3, 1); got[c] != want {
			t.Errorf("consumer %d was resumed %d times, want %d", i, got[c], want)
		}
	}
	x.o.close()
	<-x.closed
	if n := x.budget.queued.Load(); n != 0 {
		t.Errorf("%d bytes in the budget of a closed outbox", n)
	}
}

// TestOutboxScarce: beyond the budget of all, each connection has little.
func TestOutboxScarce(t *testing.T) {
	x := newOutboxTest(131072)
	x.budget.queued.Add(budgetBytes + 1)
	m := x.message(1000)
	c := &consumer{ch: x.channels[0]}
	taken := 0
	for x.o.deliver(c, 1, &queue.Entry{Message: m}) {
		taken += len(m.Content)
	}
	if taken > outboxLimitScarce {
		t.Errorf("%d bytes were taken", taken)
	}
	x.o.close()
	<-x.closed
	x.gate.pass(-1) // the write under way
}

// TestOutboxBrokenSocket: a failed write ends the outbox with its cause, wakes
// the reader, and later appends are dropped.
func TestOutboxBrokenSocket(t *testing.T) {
	x := newOutboxTest(131072)
	x.gate.err = io.ErrShortWrite
	ch := x.channels[0]
	for !x.o.mustWait() {
		x.o.sendContent(&ch.position, ch.id, nil, x.message(100_000))
	}
	woken := make(chan struct{})
	go func() { x.o.waitForRoom(); close(woken) }()
	x.gate.pass(-1)
	if err := <-x.closed; err != io.ErrShortWrite {
		t.Errorf("ended with %v", err)
	}
	<-woken
	x.o.sendContent(&ch.position, ch.id, nil, x.message(100))
	x.o.sendLast(&frames.ConnectionCloseOk{})
	if x.o.deliver(&consumer{ch: ch}, 1, &queue.Entry{Message: x.message(1)}) {
		t.Error("a closed outbox takes deliveries")
	}
	if n := x.budget.queued.Load(); n != 0 {
		t.Errorf("%d bytes in the budget", n)
	}
}

// TestOutboxRestsWithoutMemory: what a busy moment needed is given back.
func TestOutboxRestsWithoutMemory(t *testing.T) {
	x := newOutboxTest(131072)
	x.gate.pass(-1)
	for range 10 {
		x.content(x.channels[0], 200_000)
		x.reply(x.channels[1])
	}
	x.finish(t)
	for _, l := range []*lane{&x.o.control, &x.o.bulk} {
		if l.buf != nil || cap(l.chunks) > 64 {
			t.Errorf("an idle lane holds %d octets and %d chunks", cap(l.buf), cap(l.chunks))
		}
	}
	for _, b := range x.o.iov[:cap(x.o.iov)] {
		if b != nil {
			t.Fatal("an idle writer refers to what it wrote")
		}
	}
}
