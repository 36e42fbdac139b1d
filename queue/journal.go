package queue

import "github.com/warrenmq/warren/persist"

// Journal is where a durable queue's persistent messages are kept safe: the
// store's log of this queue, or later a replicated group. Append and Settle
// join the open batch and never wait for the disk; the message's record
// reports when it is safe.
type Journal interface {
	Append(seq uint64, r *persist.Record, m persist.Meta)
	Settle(seqs ...uint64)
	// SaveReturns keeps how often messages came back, until they are settled.
	SaveReturns(all ...persist.Returns)
	// AppendIn and SettleIn do the same as parts of a group that is committed
	// as one.
	AppendIn(g *persist.Group, seq uint64, r *persist.Record, m persist.Meta)
	SettleIn(g *persist.Group, seqs ...uint64)
}

// storeJournal is a Journal on a local store.
type storeJournal struct{ log *persist.Log }

// StoreJournal makes the journal of a queue whose log is in the local store.
func StoreJournal(l *persist.Log) Journal { return storeJournal{l} }

func (j storeJournal) Append(seq uint64, r *persist.Record, m persist.Meta) {
	j.log.Append(seq, r, m)
}
func (j storeJournal) Settle(seqs ...uint64)              { j.log.Settle(seqs...) }
func (j storeJournal) SaveReturns(all ...persist.Returns) { j.log.SaveReturns(all...) }
func (j storeJournal) AppendIn(g *persist.Group, seq uint64, r *persist.Record, m persist.Meta) {
	g.Append(j.log, seq, r, m)
}
func (j storeJournal) SettleIn(g *persist.Group, seqs ...uint64) { g.Settle(j.log, seqs...) }

// Read implements pageSource.
func (j storeJournal) Read(seqs []uint64, fn func(*persist.StoredMessage) error) error {
	return j.log.Read(seqs, fn)
}

// meta is what the journal keeps beside the payload.
func meta(e *Entry) persist.Meta {
	return persist.Meta{Priority: e.Priority, Expiry: e.Expiry}
}
