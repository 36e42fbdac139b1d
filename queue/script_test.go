package queue

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what happens into testdata instead of comparing; read the difference before committing it")

// TestScripts plays testdata/*.txt: commands, a line of dashes, what they
// print, an empty line. Deliveries are printed in the order they happen, as
// "consumer <- message". testdata/README.md lists the commands.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			script, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			played, blocks := playScript(t, script)
			if blocks == 0 {
				t.Fatal("the script has no commands")
			}
			if *update {
				if err := os.WriteFile(file, played, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// playScript runs every block and gives the script as it would have to be.
func playScript(t *testing.T, script []byte) (played []byte, blocks int) {
	s := &stage{t: t, pump: newPump(t), clock: NewClock(), clients: map[string]*scriptClient{}}
	defer s.clock.Stop()
	var out bytes.Buffer
	lines := bufio.NewScanner(bytes.NewReader(script))
	for number := 1; lines.Scan(); number++ {
		line := lines.Text()
		fmt.Fprintln(&out, line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "---"):
			blocks++
			want, n := expectation(lines)
			got := s.printed.String()
			s.printed.Reset()
			if got != want && !*update {
				t.Errorf("line %d: printed\n%swant\n%s", number, got, want)
			}
			fmt.Fprintln(&out, got)
			number += n
		default:
			s.run(number, strings.Fields(line))
		}
	}
	if s.printed.Len() > 0 {
		t.Errorf("printed behind the last block:\n%s", s.printed.String())
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), blocks
}

// expectation reads up to the next empty line.
func expectation(lines *bufio.Scanner) (want string, n int) {
	for lines.Scan() {
		n++
		if lines.Text() == "" {
			return want, n
		}
		want += lines.Text() + "\n"
	}
	return want, n
}

// stage is a queue and its clients while a script plays.
type stage struct {
	t       *testing.T
	pump    *Pump
	clock   *Clock
	q       *Queue
	clients map[string]*scriptClient
	got     []Entry // by basic.get
	printed bytes.Buffer
}

// scriptClient is a consumer with a prefetch limit.
type scriptClient struct {
	Consumer
	stage    *stage
	prefetch int
	unacked  []Entry
	starved  bool
}

func (c *scriptClient) Deliver(_ *Consumer, e *Entry) bool {
	if c.prefetch > 0 && len(c.unacked) >= c.prefetch && !c.NoAck {
		c.starved = true
		return false
	}
	c.stage.printEntry(c.Tag, e)
	if !c.NoAck {
		c.unacked = append(c.unacked, *e)
	}
	return true
}

func (c *scriptClient) Cancelled(*Consumer) { c.stage.print("%s cancelled by the server", c.Tag) }

func (s *stage) print(format string, a ...any) { fmt.Fprintf(&s.printed, format+"\n", a...) }

func (s *stage) printEntry(to string, e *Entry) {
	mark := ""
	if e.Redelivered {
		mark = " redelivered"
	}
	s.print("%s <- %s%s", to, e.Message.Content, mark)
}

// scriptArgs are the words of a command: names, and options "name=value" or
// plain words that the command knows.
type scriptArgs struct {
	names   []string
	options map[string]string
}

func splitArgs(words []string, flags ...string) scriptArgs {
	a := scriptArgs{options: map[string]string{}}
	for _, w := range words {
		if name, value, ok := strings.Cut(w, "="); ok {
			a.options[name] = value
		} else if slices.Contains(flags, w) {
			a.options[w] = ""
		} else {
			a.names = append(a.names, w)
		}
	}
	return a
}

func (a scriptArgs) has(option string) bool { _, ok := a.options[option]; return ok }

func (a scriptArgs) number(option string) int {
	n, _ := strconv.Atoi(a.options[option]) // absent is 0
	return n
}

// run does one command.
func (s *stage) run(line int, words []string) {
	a := splitArgs(words[1:], "auto-delete", "exclusive", "no-ack", "if-unused", "if-empty", "single-active")
	commands := map[string]func(scriptArgs) error{
		"queue": s.queue, "publish": s.publish, "consume": s.consume, "cancel": s.cancel, "ack": s.ack,
		"requeue": s.requeue, "get": s.get, "purge": s.purge, "delete": s.delete, "count": s.count,
		"advance": s.advance, "levels": s.levels, "active": s.active,
	}
	command, ok := commands[words[0]]
	if !ok {
		s.t.Fatalf("line %d: unknown command %q", line, words[0])
	}
	if err := command(a); err != nil {
		s.print("error: %v", err)
	}
	quiet(s.q)
}

func (s *stage) queue(a scriptArgs) error {
	rules := NoRules()
	if a.has("max-length") {
		rules.MaxLength = int64(a.number("max-length"))
	}
	s.extraRules(a, &rules)
	s.q = New(Config{
		Name: "q", ID: 1, MaxPriority: a.number("max-priority"), AutoDelete: a.has("auto-delete"), Pump: s.pump, Rules: &rules,
		Aging: int64(a.number("aging")) * 1000, Clock: s.clock,
	})
	clear(s.clients)
	s.got = nil
	return nil
}

func (s *stage) publish(a scriptArgs) error {
	for _, name := range a.names {
		m := text(name)
		m.Priority = uint8(a.number("priority"))
		if s.q.Publish(m) != Taken {
			return ErrDeleted
		}
	}
	return nil
}

func (s *stage) consume(a scriptArgs) error {
	c := &scriptClient{stage: s, prefetch: a.number("prefetch"), Consumer: Consumer{
		Tag: a.names[0], NoAck: a.has("no-ack"), Exclusive: a.has("exclusive"), Priority: a.number("priority"),
	}}
	c.Sink = c
	if err := s.q.AddConsumer(&c.Consumer); err != nil {
		return err
	}
	s.clients[c.Tag] = c
	s.q.Resume(&c.Consumer)
	return nil
}

func (s *stage) cancel(a scriptArgs) error {
	if s.q.RemoveConsumer(&s.clients[a.names[0]].Consumer) && s.q.DeleteIfAbandoned() {
		s.print("queue deleted")
	}
	return nil
}

// settleAs takes deliveries out of a client's hands, or out of those that
// "get" has, and returns its credit after done.
func (s *stage) settleAs(a scriptArgs, done func([]Entry)) error {
	c, unacked := s.clients[a.names[0]], &s.got
	if c != nil {
		unacked = &c.unacked
	}
	var chosen []Entry
	for _, name := range a.names[1:] {
		i := slices.IndexFunc(*unacked, func(e Entry) bool { return string(e.Message.Content) == name })
		if i < 0 {
			return fmt.Errorf("%s does not have %s", a.names[0], name)
		}
		chosen = append(chosen, (*unacked)[i])
		*unacked = slices.Delete(*unacked, i, i+1)
	}
	done(chosen)
	if c != nil && c.starved {
		c.starved = false
		s.q.Resume(&c.Consumer)
	}
	return nil
}

func (s *stage) ack(a scriptArgs) error     { return s.settleAs(a, s.q.Settle) }
func (s *stage) requeue(a scriptArgs) error { return s.settleAs(a, s.q.Requeue) }

func (s *stage) get(a scriptArgs) error {
	for range max(1, a.number("times")) {
		e, left, ok, err := s.q.Get(a.has("no-ack"))
		if err != nil {
			return err
		}
		if !ok {
			s.print("get-empty")
			continue
		}
		s.printEntry("get", &e)
		s.print("%d left", left)
		if !a.has("no-ack") {
			s.got = append(s.got, e)
		}
	}
	return nil
}

func (s *stage) purge(scriptArgs) error {
	n, _ := s.q.Purge()
	s.print("%d purged", n)
	return nil
}

func (s *stage) delete(a scriptArgs) error {
	n, err := s.q.Delete(a.has("if-unused"), a.has("if-empty"))
	if err == nil {
		s.print("deleted with %d", n)
	}
	return err
}

func (s *stage) count(scriptArgs) error {
	n := s.q.Counts()
	s.print("%d ready, %d unacked, %d consumers", n.Ready, n.Unacked, n.Consumers)
	return nil
}

// TestScriptErrors keeps the player honest: a wrong expectation must be seen.
func TestScriptErrors(t *testing.T) {
	if err := (&stage{q: New(Config{}), clients: map[string]*scriptClient{}}).ack(scriptArgs{names: []string{"get", "a"}}); err == nil || errors.Is(err, ErrDeleted) {
		t.Fatalf("an ack of nothing: %v", err)
	}
}
