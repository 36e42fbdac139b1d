package persist

import (
	"slices"
	"sync/atomic"
)

// bodyPageBytes is the most bytes of messages on one body page. A larger
// message gets pages of its own with consecutive ids, this many bytes on each
// but the last.
const bodyPageBytes = 4 << 20

// bodyPage is a body page that is on disk, being written, or placed by the
// batch that is being sealed.
type bodyPage struct {
	// Immutable once its batch is sealed.
	id    uint64 // of the first part
	parts uint32 // keys b id ... b id+parts-1

	// verified spares repeated checksums while many queues recover from one
	// page.
	verified atomic.Bool

	// Guarded by Store.mu.
	size   int64 // bytes of messages
	refs   int32 // live index entries that point here
	total  int32 // the most there ever were
	queued bool  // stands in a batch's list of pages that may go
	gone   bool  // its delete was handed to a commit; never to be referred to
	sparse bool  // stands in Store.sparse
	// users are the sealed index pages that refer to this page; dead ones
	// linger.
	users []*indexPage
	// moved says where messages went that a rewrite has copied.
	moved map[messageSpan]messagePlace
}

// messageSpan is where a message's bytes are on a page of one part.
type messageSpan struct{ off, size uint32 }

// messagePlace is where a message's bytes begin.
type messagePlace struct {
	page *bodyPage
	off  uint32
}

// usedBy notes that an index page refers to this page. Called with Store.mu
// held.
func (page *bodyPage) usedBy(p *indexPage) {
	if n := len(page.users); n > 0 && page.users[n-1] == p {
		return
	}
	if len(page.users) == cap(page.users) {
		page.users = slices.DeleteFunc(page.users, func(p *indexPage) bool { return p.dead })
	}
	page.users = append(page.users, p)
}

// partsOf is the number of parts of a page with size bytes.
func partsOf(size int64) uint32 {
	if size <= bodyPageBytes {
		return 1
	}
	return uint32((size + bodyPageBytes - 1) / bodyPageBytes)
}

// placement is one message that is to be written on a page.
type placement struct {
	record *Record
	page   *bodyPage
}

// bodyPlan collects what a batch writes to body pages. It is filled under
// Store.mu while the batch is sealed and read by the committer afterwards.
type bodyPlan struct {
	pages  []*bodyPage
	places []placement // in order of pages, then offset
	bytes  int64
}

func (p *bodyPlan) reset() {
	p.pages, p.places, p.bytes = recycled(p.pages), recycled(p.places), 0
}

// place gives a record its place. Called with Store.mu held.
func (p *bodyPlan) place(s *Store, r *Record) {
	size := r.size()
	var page *bodyPage
	if n := len(p.pages); n > 0 {
		page = p.pages[n-1]
	}
	if page == nil || page.size+size > bodyPageBytes {
		page = s.newBodyPage(partsOf(size))
		p.pages = append(p.pages, page)
	}
	r.page, r.off = page, uint32(page.size)
	page.size += size
	p.bytes += size
	p.places = append(p.places, placement{r, page})
}

// newBodyPage takes the next ids. Called with Store.mu held.
func (s *Store) newBodyPage(parts uint32) *bodyPage {
	page := &bodyPage{id: s.pageIDs.take(uint64(parts)), parts: parts}
	s.register(page)
	return page
}

// register makes a page known. Called with Store.mu held.
func (s *Store) register(page *bodyPage) {
	for part := range uint64(page.parts) {
		s.bodies[page.id+part] = page
	}
}

// retire ends a page whose delete is handed to a commit. Called with Store.mu
// held.
func (s *Store) retire(page *bodyPage) {
	page.gone = true
	for part := range uint64(page.parts) {
		delete(s.bodies, page.id+part)
	}
	s.livePages--
	s.liveBytes -= page.size
	if s.deadBytes += page.size; s.deadBytes >= valueLogBytes {
		s.rouse()
	}
}

// refer and unrefer count one live index entry on a page. Called with Store.mu
// held.
func (page *bodyPage) refer() {
	page.refs++
	page.total = max(page.total, page.refs)
}

func (s *Store) unrefer(page *bodyPage, b *batch) {
	page.refs--
	if page.refs < 0 {
		panic("persist: body page released more often than referred to")
	}
	if page.refs == 0 && !page.queued {
		page.queued = true
		b.orphans = append(b.orphans, page)
		b.count(int(page.parts), bodyDeleteBytes*int64(page.parts))
	}
	s.noteSparse(page)
}
