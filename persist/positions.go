package persist

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
)

// positions is a set of positions on an index page. The zero value is empty
// and, for pages of up to 64 messages, never allocates.
type positions struct {
	word uint64   // of a page of up to 64 messages
	more []uint64 // of a larger one
}

func (s *positions) has(i int) bool {
	if s.more == nil {
		return i < 64 && s.word&(1<<i) != 0
	}
	return s.more[i/64]&(1<<(i%64)) != 0
}

// add puts a position of a page of n messages into the set.
func (s *positions) add(i, n int) {
	if n <= 64 {
		s.word |= 1 << i
		return
	}
	if s.more == nil {
		s.more = make([]uint64, (n+63)/64)
	}
	s.more[i/64] |= 1 << (i % 64)
}

func (s *positions) count() int {
	n := bits.OnesCount64(s.word)
	for _, w := range s.more {
		n += bits.OnesCount64(w)
	}
	return n
}

func (s *positions) isEmpty() bool { return s.count() == 0 }

func (s *positions) clone() positions { return positions{s.word, slices.Clone(s.more)} }

// First byte of an encoded set.
const (
	acksBitmap = 0 // bit i%8 of byte i/8 is position i
	acksRuns   = 1 // in turn: how many are not in the set, how many are; varints
)

// appendAcks encodes the settled positions of a page of n messages: as runs,
// because queues are mostly settled in order, or as a bitmap where that is
// shorter.
func appendAcks(dst []byte, s *positions, n int) []byte {
	start := len(dst)
	dst = append(dst, acksRuns)
	at := 0
	for i := 0; i < n; i++ {
		if !s.has(i) {
			continue
		}
		from := i
		for i+1 < n && s.has(i+1) {
			i++
		}
		dst = binary.AppendUvarint(dst, uint64(from-at))
		dst = binary.AppendUvarint(dst, uint64(i+1-from))
		at = i + 1
		if len(dst)-start > 1+(n+7)/8 {
			return appendAckBits(dst[:start], s, n)
		}
	}
	return dst
}

func appendAckBits(dst []byte, s *positions, n int) []byte {
	dst = append(dst, acksBitmap)
	for i := 0; i < n; i += 8 {
		word := s.word
		if s.more != nil {
			word = s.more[i/64]
		}
		dst = append(dst, byte(word>>(i%64)))
	}
	return dst
}

// parseAcks gives the settled positions on a page of n messages.
func parseAcks(payload []byte, n int) (s positions, err error) {
	if len(payload) == 0 {
		return s, errShort
	}
	beyond := func(i int) error {
		return fmt.Errorf("position %d is settled on a page of %d messages", i, n)
	}
	kind, payload := payload[0], payload[1:]
	switch kind {
	case acksBitmap:
		if len(payload) != (n+7)/8 {
			return s, errShort
		}
		for i := range 8 * len(payload) {
			switch set := payload[i/8]&(1<<(i%8)) != 0; {
			case set && i >= n:
				return s, beyond(i)
			case set:
				s.add(i, n)
			}
		}
	case acksRuns:
		at := 0
		for len(payload) > 0 {
			gap, k := binary.Uvarint(payload)
			run, m := binary.Uvarint(payload[max(k, 0):])
			if k <= 0 || m <= 0 {
				return s, errShort
			}
			payload = payload[k+m:]
			if gap > uint64(n-at) || run > uint64(n-at)-gap {
				return s, beyond(n)
			}
			for at += int(gap); run > 0; run-- {
				s.add(at, n)
				at++
			}
		}
	default:
		return s, fmt.Errorf("a list of settled messages of kind %d is not known", kind)
	}
	return s, nil
}
