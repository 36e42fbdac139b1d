package persist

import (
	"errors"
	"math"
	"slices"

	"github.com/dgraph-io/badger/v4"
)

// Rewriting gives back what pages hold of settled messages, and turns many
// small index pages into few.
//
// A body page of which at most a sparsePart-th of the messages is left is
// copied: what is left goes to a new page, once however many queues have it,
// and the index pages that refer to it are written anew, without their settled
// messages. Index pages with little on them are written anew together with
// their neighbours. All of one step is one commit: the new pages, the deletes
// of the old ones, and the settled positions as they are by then.
//
// The background goroutine reads the old pages without a lock, then changes the
// pages in memory under Store.mu, in the same moment as the writes join the
// open batch. All that was settled by then is in this batch or an earlier one,
// so that nothing goes ahead of a group it belongs to. Until the commit has
// ended, memory is ahead of the disk: Store.moving keeps readers out.
const (
	// sparsePart: a page is sparse when at most one in so many is left.
	sparsePart = 4
	// rewriteEntries and rewritePages bound a step, like bodyPageBytes of
	// bodies.
	rewriteEntries = 4096
	rewritePages   = 1024
	// rewriteSteps bounds the steps of one look.
	rewriteSteps = 256
)

// rewriteLimits say what is worth a rewrite.
type rewriteLimits struct {
	bodyBytes int64 // of a body page
	entries   int32 // of an index page by itself
	small     int32 // most messages left on an index page that is merged
	run       int   // neighbours that are, at least
}

var defaultRewriteLimits = rewriteLimits{bodyBytes: 32 << 10, entries: 256, small: 512, run: 8}

// noteSparse puts a body page on the list for the next look when little is
// left on it. Called with Store.mu held.
func (s *Store) noteSparse(page *bodyPage) {
	if page.sparse || !s.isSparse(page) {
		return
	}
	page.sparse = true
	s.sparse = append(s.sparse, page)
}

func (s *Store) isSparse(page *bodyPage) bool {
	return page.refs > 0 && sparsePart*page.refs <= page.total && page.parts == 1 && page.size >= s.opts.rewrite.bodyBytes
}

// sparse says whether few messages of a sealed index page are left.
func (p *indexPage) sparse() bool {
	return p.live > 0 && p.n >= p.log.store.opts.rewrite.entries && sparsePart*p.live <= p.n
}

// noteSmall puts a log on the list for the next look when it has at least so
// many pages. Called with Store.mu held.
func (l *Log) noteSmall(pages int) {
	if l.merging || len(l.pages)-l.dead < max(pages, 1) {
		return
	}
	l.merging = true
	l.store.merging = append(l.store.merging, l)
}

// lookAgain is the number of pages from which another look is worth it. Called
// with Store.mu held.
func (l *Log) lookAgain() int { return len(l.pages) - l.dead + 2*l.store.opts.rewrite.run }

// rewriter is the background goroutine's state of rewriting.
type rewriter struct {
	// Found at the last look, to be done at the next: most pages are only on
	// their way to being settled altogether.
	bodies []*bodyPage
	logs   []*Log

	runs    []*pageRun
	encoder pageEncoder
}

// pageRun is neighbours of one log that become one page, or as few as hold
// what is left.
type pageRun struct {
	log  *Log
	old  []*indexPage
	base uint64 // first of old[0]
	// By message; those that were left when the pages were read.
	entries []storedEntry // seqOff counts from base
	from    []oldPosition // where it stood
	bodies  []*bodyPage   // from dropSettled on
}

// oldPosition is a position on a page of a run.
type oldPosition struct{ page, at int }

// run is one look. It ends early when the store does.
func (r *rewriter) run(s *Store) {
	s.recoverMu.Lock()
	recovering := len(s.unrecovered) > 0
	s.recoverMu.Unlock()
	if recovering {
		return
	}
	steps := 0
	for ; len(r.bodies) > 0 && steps < rewriteSteps; steps++ {
		if s.clearStep(); !r.moveBodies(s) {
			return
		}
	}
	for ; len(r.logs) > 0 && steps < rewriteSteps; steps++ {
		if s.clearStep(); !r.mergePages(s) {
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(r.bodies) == 0 {
		r.bodies, s.sparse = s.sparse, nil
	}
	if len(r.logs) == 0 {
		r.logs, s.merging = s.merging, nil
	}
}

// onDisk says whether nothing happens to a page any more but acks: it is on
// disk, and its log lives. Called with Store.mu held.
func (p *indexPage) onDisk() bool {
	return !p.dead && p.batch == nil && p.entries == nil && !p.log.dropped
}

// moveBodies rewrites some of the sparse body pages and says whether the
// background may go on.
func (r *rewriter) moveBodies(s *Store) bool {
	r.runs = r.runs[:0]
	moving, taken := make(map[*bodyPage]bool), make(map[*indexPage]bool)
	s.mu.Lock()
	bytes, entries := int64(0), 0
	for len(r.bodies) > 0 && entries < rewriteEntries && len(r.runs) < rewritePages {
		page := r.bodies[len(r.bodies)-1]
		left := page.size * int64(page.refs) / int64(max(page.total, 1))
		if bytes += left; bytes > bodyPageBytes/2 && len(moving) > 0 {
			break
		}
		r.bodies = r.bodies[:len(r.bodies)-1]
		if page.sparse = false; page.gone || !s.isSparse(page) {
			continue
		}
		for _, p := range page.users {
			if p.onDisk() && !taken[p] {
				taken[p] = true
				r.runs = append(r.runs, &pageRun{log: p.log, old: []*indexPage{p}})
				entries += int(p.live)
			}
		}
		moving[page] = true
	}
	s.mu.Unlock()
	return r.rewrite(s, moving)
}

// mergePages rewrites index pages of one log and says whether the background
// may go on.
func (r *rewriter) mergePages(s *Store) bool {
	r.runs = r.runs[:0]
	s.mu.Lock()
	entries, pages := 0, 0
	for len(r.logs) > 0 && entries < rewriteEntries && pages < rewritePages {
		l := r.logs[len(r.logs)-1]
		n, all := l.collectRuns(&r.runs, rewriteEntries-entries)
		for _, run := range r.runs[len(r.runs)-n:] {
			pages += len(run.old)
			for _, p := range run.old {
				entries += int(p.live)
			}
		}
		if !all {
			break // the rest is for the next step
		}
		r.logs = r.logs[:len(r.logs)-1]
		l.merging = false
		l.mergeAt = l.lookAgain()
	}
	s.mu.Unlock()
	return r.rewrite(s, nil)
}

// collectRuns adds the runs of l that are worth it, of so many messages in all,
// and says how many they are and whether that is all there is to do. Called
// with Store.mu held.
func (l *Log) collectRuns(runs *[]*pageRun, most int) (n int, all bool) {
	limits := &l.store.opts.rewrite
	var run []*indexPage
	live, total := 0, 0
	end := func() {
		// A large one in front is left alone until what follows weighs as much:
		// otherwise it would be copied again and again.
		for len(run) > 1 && 2*int(run[0].live) > live && !run[0].sparse() {
			live, total = live-int(run[0].live), total-int(run[0].n)
			run = run[1:]
		}
		if len(run) >= limits.run || live > 0 && sparsePart*live <= total && total >= int(limits.entries) {
			*runs = append(*runs, &pageRun{log: l, old: slices.Clone(run)})
			most -= live
			n++
		}
		run, live, total = run[:0], 0, 0
	}
	for _, p := range l.pages {
		if p.dead {
			continue
		}
		small := p.onDisk() && p.live <= limits.small
		fits := small && (len(run) == 0 || p.lastSeq()-run[0].first <= math.MaxUint32)
		if !fits || live+int(p.live) > 2*int(limits.small) || len(run) == rewritePages {
			if end(); most <= 0 {
				return n, false
			}
		}
		if small {
			run = append(run, p)
			live, total = live+int(p.live), total+int(p.n)
		}
	}
	end()
	return n, true
}

// lastSeq is the seq of the last message of a sealed page.
func (p *indexPage) lastSeq() uint64 {
	if p.seqs != nil {
		return p.first + uint64(p.seqs[p.n-1])
	}
	return p.first + uint64(p.n) - 1
}

// rewrite does one step: r.runs, with the messages on the body pages of moving
// copied to a new one. It says whether the background may go on.
func (r *rewriter) rewrite(s *Store, moving map[*bodyPage]bool) bool {
	if len(r.runs) == 0 {
		return !s.stopping()
	}
	var plan *movePlan
	if len(moving) > 0 {
		plan = &movePlan{moving: make(map[uint64]*bodyPage), at: make(map[oldPlace]uint32), buf: beginFrame(nil)}
		for page := range moving {
			plan.moving[page.id] = page
		}
	}
	err := s.db.View(func(txn *badger.Txn) error {
		for _, run := range r.runs {
			if err := run.read(s, txn); err != nil {
				return err
			}
		}
		if plan == nil {
			return nil
		}
		return plan.read(s, txn, r.runs)
	})
	if err != nil {
		// Mostly a page that was settled meanwhile.
		if !errors.Is(err, errMissing) {
			s.opts.Logger.Warn("rewriting pages failed", "dir", s.opts.Dir, "error", err)
			r.giveUp(s)
		}
		return !s.stopping()
	}
	s.moving.Lock()
	defer s.moving.Unlock()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return false
	}
	b := r.apply(s, plan)
	if b == nil {
		s.mu.Unlock()
		return !s.stopping()
	}
	return s.waitFor(b)
}

// giveUp leaves what is left of this look to a later one.
func (r *rewriter) giveUp(s *Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, page := range r.bodies {
		page.sparse = false
	}
	for _, l := range r.logs {
		l.merging, l.mergeAt = false, l.lookAgain()
	}
	r.bodies, r.logs = nil, nil
}

// read reads the messages of a run that are left.
func (run *pageRun) read(s *Store, txn *badger.Txn) error {
	run.base = run.old[0].first // changes only by a rewrite
	for k, p := range run.old {
		entries, err := s.readEntries(txn, appendPageKey(nil, prefixIndex, run.log.id, p.first))
		if err != nil {
			return err
		}
		if len(entries) != int(p.n) {
			return errMissing
		}
		s.mu.Lock()
		acked := p.acked.clone()
		s.mu.Unlock()
		for i := range entries {
			if !acked.has(i) {
				e := entries[i]
				e.seqOff += uint32(p.first - run.base)
				run.entries = append(run.entries, e)
				run.from = append(run.from, oldPosition{k, i})
			}
		}
	}
	return nil
}

// oldPlace is a message's place before a move.
type oldPlace struct {
	page uint64
	messageSpan
}

// movePlan collects what moves to a new body page.
type movePlan struct {
	moving map[uint64]*bodyPage
	at     map[oldPlace]uint32 // where it begins on the new page
	buf    []byte              // the new page's frame, without its end
}

func placeOf(e *storedEntry) oldPlace {
	return oldPlace{e.page, messageSpan{e.off, uint32(e.size())}}
}

// read copies the bytes of all messages of the runs that move, as far as they
// fit one page; the others stay where they are.
func (m *movePlan) read(s *Store, txn *badger.Txn, runs []*pageRun) error {
	for _, run := range runs {
		for from := 0; from < len(run.entries); {
			to := from + 1
			for to < len(run.entries) && run.entries[to].page == run.entries[from].page {
				to++
			}
			if page := m.moving[run.entries[from].page]; page != nil {
				if err := m.copyRun(s, txn, page, run.entries[from:to]); err != nil {
					return err
				}
			}
			from = to
		}
	}
	return nil
}

func (m *movePlan) copyRun(s *Store, txn *badger.Txn, page *bodyPage, run []storedEntry) error {
	return s.readPart(txn, page, 0, func(payload []byte) error {
		for i := range run {
			e := &run[i]
			at := placeOf(e)
			end := int64(e.off) + e.size()
			if _, known := m.at[at]; known || int64(len(m.buf)-1)+e.size() > bodyPageBytes {
				continue
			}
			if end > int64(len(payload)) {
				return errShort
			}
			m.at[at] = uint32(len(m.buf) - 1)
			m.buf = append(m.buf, payload[e.off:end]...)
		}
		return nil
	})
}
