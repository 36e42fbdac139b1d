package stream

import (
	"hash/fnv"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/queue"
)

// filterHeader is where a publisher says by what a message can be filtered.
const filterHeader = "x-stream-filter-value"

// The sizes of a filter set in bytes: RabbitMQ's default, and the most it
// allows.
const (
	filterBytes    = 16
	maxFilterBytes = 255
)

// filterSet is a Bloom filter of the filter values of a chunk's messages; ""
// stands for a message without one. It may say that a value is there which is
// not, so a consumer may get a chunk in vain, never miss one.
type filterSet []byte

// filterProbes is how many bits a value has.
const filterProbes = 2

// bits calls fn with the bits of a value: byte and mask.
func (s filterSet) bits(value []byte, fn func(i int, mask byte)) {
	h := fnv.New64a()
	h.Write(value)
	sum := h.Sum64()
	n := uint64(len(s)) * 8
	for probe := range uint64(filterProbes) {
		bit := (sum&0xffffffff + probe*(sum>>32|1)) % n
		fn(int(bit/8), 1<<(bit%8))
	}
}

// add puts a value into the set.
func (s filterSet) add(value []byte) {
	if len(s) == 0 {
		return
	}
	s.bits(value, func(i int, mask byte) { s[i] |= mask })
}

// mayHave says whether a value may be in the set. A set of no bytes, which a
// chunk without one has, may have everything.
func (s filterSet) mayHave(value string) bool {
	if len(s) == 0 {
		return true
	}
	has := true
	s.bits([]byte(value), func(i int, mask byte) { has = has && s[i]&mask != 0 })
	return has
}

// matches says whether a chunk with this set is to be read.
func (s filterSet) matches(r *queue.Reading) bool {
	if len(r.Filter) == 0 || r.Unfiltered && s.mayHave("") {
		return true
	}
	for _, value := range r.Filter {
		if s.mayHave(value) {
			return true
		}
	}
	return false
}

// filterValue reads a message's filter value, "" when it has none. One that is
// not a string counts as none.
func filterValue(properties []byte) []byte {
	if len(properties) < 2 || properties[0]&byte(frames.FlagHeaders>>8) == 0 {
		return nil // the usual case: no headers
	}
	p, err := frames.ParseProperties(properties)
	if err != nil {
		return nil
	}
	headers, _ := p.Headers()
	v, ok := headers.Lookup(filterHeader)
	if !ok || v.Type != 'S' {
		return nil
	}
	return v.Data
}
