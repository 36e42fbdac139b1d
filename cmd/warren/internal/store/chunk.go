package store

import (
	"errors"
	"fmt"

	"github.com/warrenmq/warren/persist"
)

// chunk is a run of messages of a stream.
type chunk struct {
	Log   uint64 `json:"log"`   // the queue's id
	First uint64 `json:"first"` // offset of the first message
	// Summary is what the queue keeps of the chunk besides.
	Summary  []byte    `json:"summary"`
	Messages []content `json:"messages"`
}

func fromChunk(log uint64, c persist.StoredChunk) (chunk, error) {
	l := chunk{Log: log, First: c.First, Summary: c.Summary}
	err := c.EachMessage(func(head, body []byte) error {
		l.Messages = append(l.Messages, describe(head, body))
		return nil
	})
	return l, err
}

// stored is the inverse of fromChunk.
func (l *chunk) stored() (persist.Chunk, chunkSource, error) {
	if len(l.Messages) == 0 {
		return persist.Chunk{}, nil, errors.New("a chunk has messages")
	}
	if len(l.Summary) > persist.MaxSummaryBytes {
		return persist.Chunk{}, nil, fmt.Errorf("a summary of %d bytes: at most %d are possible", len(l.Summary), persist.MaxSummaryBytes)
	}
	source := make(chunkSource, len(l.Messages))
	for i := range l.Messages {
		head, err := l.Messages[i].head()
		if err != nil {
			return persist.Chunk{}, nil, fmt.Errorf("message %d of the chunk: %w", i, err)
		}
		source[i] = &record{head: head, body: l.Messages[i].Body}
	}
	if source.Size() > persist.MaxRecordBytes {
		return persist.Chunk{}, nil, fmt.Errorf("the chunk is larger than %d bytes", persist.MaxRecordBytes)
	}
	return persist.Chunk{First: l.First, Count: uint32(len(source)), Summary: l.Summary}, source, nil
}

// chunkSource is a persist.ChunkSource.
type chunkSource []*record

// Message implements persist.ChunkSource.
func (s chunkSource) Message(i int) persist.Payload { return s[i] }

// Size implements persist.ChunkSource.
func (s chunkSource) Size() (n int64) {
	for _, r := range s {
		n += int64(len(r.head)) + int64(len(r.body))
	}
	return n
}

// chunk checks a line.
func (v *validator) chunk(l *chunk) error {
	v.totals.Chunks++
	next, seen := v.offsets[l.Log]
	if _, messages := v.seqs[l.Log]; messages || l.Log == 0 || l.Log >= 1<<63 {
		return fmt.Errorf("log %d is no stream", l.Log)
	}
	if seen && l.First != next || l.First >= 1<<62 {
		return fmt.Errorf("the chunk at %d of log %d is out of order", l.First, l.Log)
	}
	v.offsets[l.Log] = l.First + uint64(len(l.Messages))
	_, _, err := l.stored()
	return err
}

// chunk writes a line.
func (i *importer) chunk(l *chunk) error {
	c, source, err := l.stored()
	if err != nil {
		return err
	}
	i.skip(l.Log)
	done := make(chan error, 1)
	if err := i.store.Log(l.Log).Stream().Append(c, source, func(err error) { done <- err }); err != nil {
		return err
	}
	return <-done
}
