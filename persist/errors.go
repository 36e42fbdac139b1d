package persist

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Errors that Open, Recover and Definitions wrap.
var (
	// ErrInUse: another process, or another Store of this one, has the folder.
	ErrInUse = errors.New("the folder is in use")
	// ErrNewerFormat: a newer version of this program wrote the folder.
	ErrNewerFormat = errors.New("the folder has a newer format")
	// ErrOlderFormat: an older version wrote the folder, in a format that is not
	// read any more.
	ErrOlderFormat = errors.New("the folder has an older format")
	// ErrCorrupt: something in the folder is damaged, missing or not a store's.
	ErrCorrupt = errors.New("the store is damaged")
)

// corrupt says which value of the store is damaged, and how.
func (s *Store) corrupt(key []byte, err error) error {
	return fmt.Errorf("%w: read %s in %s: %w; restore the folder from a backup, or move it away to start empty",
		ErrCorrupt, keyName(key), s.opts.Dir, err)
}

// keyName says what a key stands for.
func keyName(key []byte) string {
	if len(key) == 0 {
		return "an empty key"
	}
	switch key[0] {
	case prefixIndex, prefixAck:
		what := map[byte]string{prefixIndex: "index page", prefixAck: "settled messages of index page"}[key[0]]
		if queue, first, ok := parsePageKey(key); ok {
			return fmt.Sprintf("%s %d of queue %d", what, first, queue)
		}
	case prefixBody:
		if id, ok := parseIDKey(key); ok {
			return fmt.Sprintf("body page %d", id)
		}
	case prefixStream:
		if id, ok := parseIDKey(key); ok {
			return fmt.Sprintf("beginning of stream %d", id)
		}
		if queue, first, ok := parsePageKey(key); ok {
			return fmt.Sprintf("summary of chunk %d of stream %d", first, queue)
		}
	case prefixChunkData:
		if queue, first, part, ok := parsePartKey(key); ok {
			return fmt.Sprintf("part %d of chunk %d of stream %d", part, first, queue)
		}
	case prefixDrop:
		if id, ok := parseIDKey(key); ok {
			return fmt.Sprintf("mark of dropped queue %d", id)
		}
	case prefixDef:
		if k, ok := parseKey(key); ok {
			return fmt.Sprintf("definition %q of kind %d in vhost %q", k.Name, k.Kind, k.VHost)
		}
	case prefixPiece:
		if def, n, ok := definitionOf(key); ok {
			return fmt.Sprintf("continuation %d of %s", n, keyName(def))
		}
	case prefixReturns:
		if queue, seq, ok := parsePageKey(key); ok {
			return fmt.Sprintf("returns of message %d of queue %d", seq, queue)
		}
	case prefixMarks:
		if len(key) == 13 {
			return fmt.Sprintf("delivery marks of queue %d", binary.BigEndian.Uint64(key[1:]))
		}
	case prefixCounter:
		return fmt.Sprintf("counter %q", key[1:])
	case prefixRedo:
		if number, part, ok := parseRedoKey(key); ok {
			return fmt.Sprintf("part %d of redo list %d", part, number)
		}
	}
	return fmt.Sprintf("unknown key %q", key)
}
