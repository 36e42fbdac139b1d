package persist

import "sync/atomic"

// counts are the store's counters.
type counts struct {
	// Guarded by Store.mu.
	appended, cancelled, settled uint64
	indexPages                   int64
	rewritten, moved             uint64

	commits, transactions, messages, largest, bodyBytes, ackPages atomic.Uint64
	gcPasses, gcFlushes, gcRewrites                               atomic.Uint64
}

// Stats are counters since Open and levels of now.
type Stats struct {
	// Commits is the number of batches written, Transactions that of Badger
	// transactions; a large group takes several.
	Commits, Transactions uint64
	// Appended, Cancelled and Settled count messages per log; Cancelled ones
	// were settled before their commit and never written, Settled ones after.
	Appended, Cancelled, Settled uint64
	// Written counts messages written, per log; LargestCommit is the most of
	// one commit.
	Written, LargestCommit uint64
	// AckPages counts lists of settled messages written, one for each index
	// page that a commit found partly settled.
	AckPages uint64
	// BodyBytes is the bytes of heads and bodies written.
	BodyBytes uint64
	// IndexPages and BodyPages are the pages on disk that are not wholly
	// settled, LiveBytes the bytes of messages on these body pages, settled
	// ones included.
	IndexPages, BodyPages, LiveBytes int64
	// DeadBytes is the bytes of messages whose pages are settled altogether
	// and that no collection has looked for yet.
	DeadBytes int64
	// GCPasses counts collections, GCFlushes those that first had Badger
	// compact, GCRewrites the value log files given back.
	GCPasses, GCFlushes, GCRewrites uint64
	// Rewritten counts index pages written anew, with others or without what
	// was settled, MovedPages body pages written for what was left on others.
	Rewritten, MovedPages uint64
	// Dropping is the number of dropped logs not cleared from disk yet.
	Dropping int
	// Backlog is Store.Backlog.
	Backlog int64
}

// Stats gives the counters.
func (s *Store) Stats() Stats {
	c := &s.counts
	st := Stats{
		Commits:       c.commits.Load(),
		Transactions:  c.transactions.Load(),
		Written:       c.messages.Load(),
		LargestCommit: c.largest.Load(),
		AckPages:      c.ackPages.Load(),
		BodyBytes:     c.bodyBytes.Load(),
		GCPasses:      c.gcPasses.Load(),
		GCFlushes:     c.gcFlushes.Load(),
		GCRewrites:    c.gcRewrites.Load(),
		Backlog:       s.Backlog(),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Appended, st.Cancelled, st.Settled = c.appended, c.cancelled, c.settled
	st.IndexPages, st.BodyPages, st.LiveBytes = c.indexPages, s.livePages, s.liveBytes
	st.DeadBytes = s.deadBytes
	st.Rewritten, st.MovedPages = c.rewritten, c.moved
	st.Dropping = len(s.dropping)
	return st
}
