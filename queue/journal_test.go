package queue

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/warrenmq/warren/persist"
)

// openStore opens the store in a folder; the test closes it if nobody did.
func openStore(t testing.TB, dir string) *persist.Store {
	t.Helper()
	s, err := persist.Open(persist.Options{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// durable makes a queue on a log of the store and recovers it, as the broker
// does at a start.
func durable(t testing.TB, s *persist.Store, id uint64, maxPriority int) *Queue {
	t.Helper()
	log := s.Log(id)
	q := New(Config{
		Name: fmt.Sprint("q", id), ID: id, Durable: true, MaxPriority: maxPriority, Journal: StoreJournal(log), Pump: newPump(t),
	})
	if err := q.Recover(log, !s.CleanStart()); err != nil {
		t.Fatal(err)
	}
	return q
}

// receipts is a persist.Waiter that counts what it is told.
type receipts struct {
	mu     sync.Mutex
	stored map[uint64]int
	failed error
}

func newReceipts() *receipts { return &receipts{stored: map[uint64]int{}} }

func (r *receipts) Stored(token uint64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stored[token]++
	if err != nil {
		r.failed = err
	}
}

func (r *receipts) Flush() {}

// wait waits until each token was told, once and without an error.
func (r *receipts) wait(t testing.TB, tokens ...uint64) {
	t.Helper()
	for _, token := range tokens {
		eventually(t, fmt.Sprint("receipt ", token), func() bool {
			time.Sleep(100 * time.Microsecond)
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.stored[token] > 0
		})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed != nil {
		t.Fatal(r.failed)
	}
	for token, n := range r.stored {
		if n != 1 {
			t.Fatalf("receipt %d was told %d times", token, n)
		}
	}
}

// barrier waits until everything submitted is on disk.
func barrier(t testing.TB, s *persist.Store) {
	t.Helper()
	r := newReceipts()
	s.Barrier(r, 1)
	r.wait(t, 1)
}

// persistent makes a message for durable queues.
func persistent(body string, priority uint8) *Message {
	m := text(body)
	m.Exchange, m.RoutingKey, m.Properties = "x", "key."+body, []byte{0x10, 0, 2}
	m.Persistent, m.Priority = true, priority
	return m
}

// publishAll gives one message to several queues, as a channel does.
func publishAll(s *persist.Store, m *Message, w persist.Waiter, token uint64, queues ...*Queue) {
	r := m.Track(w, token)
	r.Hold()
	for _, q := range queues {
		q.Publish(m)
	}
	r.Release(s)
}

// waiting describes the messages that wait, in order, and takes them.
func waiting(t testing.TB, q *Queue) []string {
	t.Helper()
	var all []string
	for {
		e, _, ok, err := q.Get(false)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return all
		}
		m := e.Message
		if m.Exchange != "x" || m.RoutingKey != "key."+string(m.Content) || !bytes.Equal(m.Properties, []byte{0x10, 0, 2}) || m.Expiration != -1 || !m.Persistent {
			t.Fatalf("a message has changed: %+v", m)
		}
		mark := ""
		if e.Redelivered {
			mark = "r"
		}
		all = append(all, fmt.Sprintf("%s/%d%s%d", m.Content, e.Priority, mark, e.Deliveries))
	}
}

// expectWaiting compares what waits.
func expectWaiting(t testing.TB, q *Queue, want ...string) {
	t.Helper()
	if diff := gocmp.Diff(want, waiting(t, q)); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", q.Name, diff)
	}
}

// copyFolder copies an open store's files as they are, which is what a kill
// at this moment leaves. It starts again when the store has made or dropped
// files meanwhile.
func copyFolder(t testing.TB, from string) string {
	t.Helper()
	for range 100 {
		to := t.TempDir()
		before := fileNames(t, from)
		for _, name := range before {
			if err := copySparse(filepath.Join(from, name), filepath.Join(to, name)); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
		manifest, err := os.ReadFile(filepath.Join(from, "MANIFEST"))
		if err != nil {
			t.Fatal(err)
		}
		copied, err := os.ReadFile(filepath.Join(to, "MANIFEST"))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(manifest, copied) && slices.Equal(before, fileNames(t, from)) {
			return to
		}
	}
	t.Fatal("the store's files change all the time")
	return ""
}

func fileNames(t testing.TB, dir string) []string {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		if !f.IsDir() { // transient pages, which no start looks at
			names = append(names, f.Name())
		}
	}
	return names
}

// copySparse copies a file without its holes, most of which a value log is.
func copySparse(from, to string) error {
	const seekData, seekHole = 3, 4 // Linux
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	for at := int64(0); at < info.Size(); {
		data, err := in.Seek(at, seekData)
		if errors.Is(err, syscall.ENXIO) {
			break // a hole up to the end
		}
		if err != nil {
			return err
		}
		if at, err = in.Seek(data, seekHole); err != nil {
			return err
		}
		if _, err := io.Copy(io.NewOffsetWriter(out, data), io.NewSectionReader(in, data, at-data)); err != nil {
			return err
		}
	}
	return out.Truncate(info.Size())
}

// stop saves the marks and closes, as the broker does.
func stop(t testing.TB, s *persist.Store, queues ...*Queue) {
	t.Helper()
	for _, q := range queues {
		if marks := q.Marks(); len(marks) > 0 {
			s.Log(q.ID).SaveMarks(marks)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// give lets the client have what waits, then takes its deliveries.
func give(t testing.TB, c *client, n int) []Entry {
	t.Helper()
	c.grant(n)
	quiet(c.q)
	got := c.take()
	if len(got) != n {
		t.Fatalf("%s got %d deliveries, want %d", c.Tag, len(got), n)
	}
	return got
}

func TestDurableQueueOverACleanStop(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	q := durable(t, s, 7, 5)
	r := newReceipts()
	for i, priority := range []uint8{1, 5, 9, 0, 5, 1} {
		publishAll(s, persistent(fmt.Sprint(i), priority), r, uint64(i), q)
	}
	q.Publish(text("transient"))
	r.wait(t, 0, 1, 2, 3, 4, 5)

	c := consume(t, q, "c", 0)
	got := give(t, c, 3) // 1, 2, 4: priority 5 and what counts as 5
	q.Settle(got[:1])
	q.Requeue(got[1:])
	again := give(t, c, 1) // 2
	q.Requeue(again)
	q.RemoveConsumer(&c.Consumer)
	stop(t, s, q)

	s = openStore(t, dir)
	if !s.CleanStart() {
		t.Fatal("the stop does not count as clean")
	}
	q = durable(t, s, 7, 5)
	if n := q.Counts(); n.Ready != 5 || n.ReadyBytes != 5 {
		t.Fatalf("recovered: %+v", n)
	}
	publishAll(s, persistent("new", 5), r, 10, q) // takes a number behind all others
	r.wait(t, 10)
	expectWaiting(t, q, "2/5r2", "4/5r1", "new/50", "0/10", "5/10", "3/00")
}

func TestDurableQueueAfterAKill(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	q := durable(t, s, 7, 0)
	r := newReceipts()
	for i := range 6 {
		publishAll(s, persistent(fmt.Sprint(i), 0), r, uint64(i), q)
	}
	q.Publish(text("transient"))
	r.wait(t, 0, 1, 2, 3, 4, 5)
	c := consume(t, q, "c", 0)
	got := give(t, c, 3)
	q.Settle([]Entry{got[1]})
	if e, _, _, _ := q.Get(true); string(e.Message.Content) != "3" {
		t.Fatalf("get: %s", e.Message.Content)
	}
	barrier(t, s)
	killed := openStore(t, copyFolder(t, dir))
	if killed.CleanStart() {
		t.Fatal("the copy of an open store counts as cleanly stopped")
	}
	expectWaiting(t, durable(t, killed, 7, 0), "0/0r0", "2/0r0", "4/0r0", "5/0r0")
}

// What a consumer without acknowledgement took, what was purged, and what was
// acknowledged is not there any more; confirms come all the same.
func TestSettledMessagesLeaveTheJournal(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	q := durable(t, s, 7, 0)
	r := newReceipts()
	noAck := newClient(q, "no-ack", unlimited)
	noAck.NoAck = true
	if err := q.AddConsumer(&noAck.Consumer); err != nil {
		t.Fatal(err)
	}
	q.Resume(&noAck.Consumer)
	for i := range 10 {
		publishAll(s, persistent(fmt.Sprint(i), 0), r, uint64(i), q)
	}
	q.RemoveConsumer(&noAck.Consumer)
	for i := range 600 {
		publishAll(s, persistent(fmt.Sprint(i), 0), r, uint64(100+i), q)
	}
	noAck = newClient(q, "no-ack again", 300) // waits in a backlog
	noAck.NoAck = true
	if err := q.AddConsumer(&noAck.Consumer); err != nil {
		t.Fatal(err)
	}
	q.Resume(&noAck.Consumer)
	quiet(q)
	if count, journaled := q.Purge(); count != 300 || !journaled {
		t.Fatalf("purge: %d, %v", count, journaled)
	}
	for i := range 10 {
		r.wait(t, uint64(i))
	}
	r.wait(t, 699)
	publishAll(s, persistent("last", 0), r, 1000, q)
	r.wait(t, 1000)
	q.RemoveConsumer(&noAck.Consumer)
	barrier(t, s)
	expectWaiting(t, durable(t, openStore(t, copyFolder(t, dir)), 7, 0), "last/0r0")
}

// A message in several queues is confirmed once, is one message after a
// restart too, and each queue settles it for itself.
func TestOneMessageInSeveralQueues(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	a, b := durable(t, s, 1, 0), durable(t, s, 2, 9)
	transient := New(Config{Name: "t", ID: 3, Pump: newPump(t)})
	r := newReceipts()
	publishAll(s, persistent("m", 3), r, 1, a, b, transient)
	publishAll(s, persistent("only a", 0), r, 2, a, transient)
	publishAll(s, persistent("nowhere durable", 0), r, 3, transient)
	r.wait(t, 1, 2, 3)
	if n := transient.Counts(); n.Ready != 3 {
		t.Fatalf("the transient queue has %d", n.Ready)
	}
	stop(t, s, a, b)

	s = openStore(t, dir)
	a, b = durable(t, s, 1, 0), durable(t, s, 2, 9)
	ea, _, _, _ := a.Get(false)
	eb, _, _, _ := b.Get(false)
	if string(ea.Message.Content) != "m" || string(eb.Message.Content) != "m" || ea.Priority != 0 || eb.Priority != 3 {
		t.Fatalf("recovered %+v and %+v", ea, eb)
	}
	a.Settle([]Entry{ea})
	b.Requeue([]Entry{eb})
	stop(t, s, a, b)

	s = openStore(t, dir)
	b = durable(t, s, 2, 9)
	again := New(Config{Name: "again", ID: 1, Journal: StoreJournal(s.Log(1))})
	if err := again.Recover(s.Log(1), true); err != nil {
		t.Fatal(err)
	}
	expectWaiting(t, again, "only a/0r0") // what may have been delivered is marked
	expectWaiting(t, b, "m/3r1")
}

// A publish to a queue that has gone is confirmed; a deleted queue's log is
// dropped with everything in it.
func TestDeletedDurableQueue(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	q := durable(t, s, 7, 0)
	r := newReceipts()
	for i := range 5 {
		publishAll(s, persistent(fmt.Sprint(i), 0), r, uint64(i), q)
	}
	e, _, _, _ := q.Get(false)
	if _, err := q.Delete(false, false); err != nil {
		t.Fatal(err)
	}
	dropped := make(chan error, 1)
	s.Update(nil, nil, []*persist.Log{s.Log(7)}, func(err error) { dropped <- err })
	publishAll(s, persistent("late", 0), r, 10, q)
	q.Settle([]Entry{e})
	if err := <-dropped; err != nil {
		t.Fatal(err)
	}
	r.wait(t, 0, 1, 2, 3, 4, 10)
	expectWaiting(t, durable(t, openStore(t, copyFolder(t, dir)), 7, 0))
}

// Recovered messages take their place by the queue's priorities of now, and a
// stored head that is damaged is an error.
func TestStoredHead(t *testing.T) {
	m := persistent("body", 7)
	m.Expiration = 1234
	m.Dead, m.CCDone, m.BCC = true, true, []string{"b", "", string(bytes.Repeat([]byte("k"), 300))}
	head := m.AppendHead(nil)
	if len(head) != m.HeadSize() {
		t.Fatalf("head of %d bytes, announced %d", len(head), m.HeadSize())
	}
	back, err := new(restorer).message(head, m.Content)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(m, back, gocmp.AllowUnexported(Message{})); diff != "" {
		t.Fatal(diff)
	}
	for n := range len(head) - len(m.Properties) {
		if _, err := new(restorer).message(head[:n], nil); err == nil {
			t.Fatalf("a head of %d bytes is accepted", n)
		}
	}
	names := []string{"", "x", string(bytes.Repeat([]byte("n"), 255))}
	for _, name := range names {
		m := &Message{Exchange: name, RoutingKey: name, Expiration: -1}
		back, err := new(restorer).message(m.AppendHead(nil), nil)
		if err != nil || back.Exchange != name || back.RoutingKey != name || back.Expiration != -1 || back.Persistent {
			t.Fatalf("names of %d bytes: %+v, %v", len(name), back, err)
		}
	}
	if !slices.Equal(back.AppendHead(nil), head) {
		t.Fatal("a recovered message has another head")
	}
}
