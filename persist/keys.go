package persist

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// First byte of every key.
const (
	prefixAck     = 'a'
	prefixBody    = 'b'
	prefixDef     = 'd'
	prefixPiece   = 'e'
	prefixReturns = 'c'
	prefixRedo    = 'g'
	prefixIndex   = 'i'
	prefixCounter = 'n'
	prefixMarks   = 'r'
	prefixStream  = 's'
	prefixDrop    = 'x'

	prefixChunkData = 't'
)

// formatVersion is the layout that this code reads and writes. 1 had index pages
// of at most 31 messages of 32 bytes each; no release wrote it.
const formatVersion = 2

var (
	counterFormat = []byte("nformat") // the layout's version
	counterClean  = []byte("nclean")  // there while the last stop was clean
	counterPage   = []byte("npage")   // first page id not reserved yet
	counterQueue  = []byte("nqueue")  // first queue id not reserved yet
	counterFiller = []byte("nfiller") // and a number: see fillMemtable
	counterSynced = []byte("nsynced") // first body page not known to be synced; see lost.go
	counterRedo   = []byte("nredo")   // number of the last redo list that was done
)

// appendPageKey appends the key of an index page or, with prefixAck, of its
// acks.
func appendPageKey(dst []byte, prefix byte, queue, first uint64) []byte {
	dst = append(dst, prefix)
	dst = binary.BigEndian.AppendUint64(dst, queue)
	return binary.BigEndian.AppendUint64(dst, first)
}

// parsePageKey is the inverse of appendPageKey.
func parsePageKey(key []byte) (queue, first uint64, ok bool) {
	if len(key) != 17 {
		return 0, 0, false
	}
	return binary.BigEndian.Uint64(key[1:]), binary.BigEndian.Uint64(key[9:]), true
}

// appendIDKey appends a key of one prefix and one number: b page, x queue.
func appendIDKey(dst []byte, prefix byte, id uint64) []byte {
	dst = append(dst, prefix)
	return binary.BigEndian.AppendUint64(dst, id)
}

// parseIDKey is the inverse of appendIDKey.
func parseIDKey(key []byte) (id uint64, ok bool) {
	if len(key) != 9 {
		return 0, false
	}
	return binary.BigEndian.Uint64(key[1:]), true
}

// appendMarksKey appends r queue chunk.
func appendMarksKey(dst []byte, queue uint64, chunk uint32) []byte {
	dst = appendIDKey(dst, prefixMarks, queue)
	return binary.BigEndian.AppendUint32(dst, chunk)
}

// appendRedoKey appends g number part.
func appendRedoKey(dst []byte, number uint64, part uint32) []byte {
	dst = appendIDKey(dst, prefixRedo, number)
	return binary.BigEndian.AppendUint32(dst, part)
}

// parseRedoKey is the inverse of appendRedoKey.
func parseRedoKey(key []byte) (number uint64, part uint32, ok bool) {
	if len(key) != 13 {
		return 0, 0, false
	}
	return binary.BigEndian.Uint64(key[1:]), binary.BigEndian.Uint32(key[9:]), true
}

// Key names a definition. VHost and Name may hold any bytes.
type Key struct {
	Kind        byte
	VHost, Name string
}

// MaxKeyBytes is the most that Key.VHost and Key.Name may hold together.
const MaxKeyBytes = 32 << 10

// check refuses what Badger could not take.
func (k Key) check() error {
	if n := len(k.VHost) + len(k.Name); n > MaxKeyBytes {
		return fmt.Errorf("definition key of %d bytes: at most %d are possible", n, MaxKeyBytes)
	}
	return nil
}

// appendTo appends d kind vhost name. The length before the vhost makes the
// border between the two unambiguous whatever bytes they hold.
func (k Key) appendTo(dst []byte) []byte {
	dst = append(dst, prefixDef, k.Kind)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(k.VHost)))
	dst = append(dst, k.VHost...)
	return append(dst, k.Name...)
}

// appendPieceKey appends the key of a continuation of the definition with key
// def: the same with another prefix, and a number.
func appendPieceKey(dst, def []byte, piece int) []byte {
	dst = append(append(dst, prefixPiece), def[1:]...)
	return binary.BigEndian.AppendUint16(dst, uint16(piece))
}

// definitionOf is the inverse of appendPieceKey.
func definitionOf(piece []byte) (def []byte, n int, ok bool) {
	end := len(piece) - 2
	if end < 4 {
		return nil, 0, false
	}
	def = append([]byte{prefixDef}, piece[1:end]...)
	return def, int(binary.BigEndian.Uint16(piece[end:])), true
}

// parseKey is the inverse of appendTo.
func parseKey(key []byte) (Key, bool) {
	if len(key) < 4 || key[0] != prefixDef {
		return Key{}, false
	}
	n := int(binary.BigEndian.Uint16(key[2:]))
	if len(key) < 4+n {
		return Key{}, false
	}
	return Key{Kind: key[1], VHost: string(key[4 : 4+n]), Name: string(key[4+n:])}, true
}

// Every value is framed: one byte for its layout, its payload, and a CRC-32C
// over key, layout byte and payload. The key is in it so that a value found
// under another's key is noticed too.
const (
	frameLayout   = 1
	frameOverhead = 1 + crc32.Size
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errChecksum and its fellows say what is wrong with a value; readError adds
// where.
var (
	errShort    = errors.New("the value is cut short")
	errChecksum = errors.New("checksum mismatch")
)

// beginFrame starts a framed value at the end of dst; the payload is appended
// next, then endFrame called with the length dst had here.
func beginFrame(dst []byte) []byte { return append(dst, frameLayout) }

// endFrame closes the frame that begins at dst[start].
func endFrame(dst []byte, start int, key []byte) []byte {
	return binary.BigEndian.AppendUint32(dst, frameSum(key, dst[start:]))
}

func frameSum(key, framed []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, framed)
}

// appendFrame appends a whole framed value.
func appendFrame(dst, key, payload []byte) []byte {
	start := len(dst)
	return endFrame(append(beginFrame(dst), payload...), start, key)
}

// openFrame checks a value and returns its payload, which aliases value.
func openFrame(key, value []byte) ([]byte, error) {
	payload, err := peelFrame(value)
	if err != nil {
		return nil, err
	}
	end := len(value) - crc32.Size
	if binary.BigEndian.Uint32(value[end:]) != frameSum(key, value[:end]) {
		return nil, errChecksum
	}
	return payload, nil
}

// peelFrame is openFrame without the checksum.
func peelFrame(value []byte) ([]byte, error) {
	if len(value) < frameOverhead {
		return nil, errShort
	}
	if value[0] != frameLayout {
		return nil, fmt.Errorf("value layout %d is not known", value[0])
	}
	return value[1 : len(value)-crc32.Size], nil
}
