package persist

import (
	"os"
	"path/filepath"
)

// rollFiller is the value written to fill a value log file up.
const rollFiller = bodyPageBytes

// rollHead makes room when the disk is low and the messages that took it are
// gone: Badger collects all value log files but the newest, so what is dead in
// that one would never come back while publishers, who would fill it up, are
// held. It is filled up with pages that nothing refers to, for which FreeFloor
// has left room, and collected afterwards. Called with gcMu held.
func (s *Store) rollHead() {
	free, err := s.FreeSpace()
	if err != nil || free >= FreeFloor || free < valueLogBytes+2*commitReserve {
		return
	}
	s.mu.Lock()
	live := s.liveBytes
	s.mu.Unlock()
	head := valueLogHead(s.opts.Dir)
	taken := allocated(head)
	if taken < valueLogBytes/4 || live > taken/2 {
		return
	}
	filler := make([]byte, rollFiller)
	var deletes []rawOp
	for range valueLogBytes/rollFiller + 1 {
		if valueLogHead(s.opts.Dir) != head {
			break
		}
		s.mu.Lock()
		id := s.pageIDs.take(1)
		s.mu.Unlock()
		key := appendIDKey(nil, prefixBody, id)
		deletes = append(deletes, rawOp{key: key, delete: true})
		if !s.writeRaw([]rawOp{{key: key, value: appendFrame(nil, key, filler)}}) {
			return // what was written is swept by the next Open
		}
	}
	if s.writeRaw(deletes) {
		s.opts.Logger.Info("the newest value log file was closed, to collect it", "dir", s.opts.Dir)
		s.flushDeletes()
	}
}

// valueLogHead is the path of the newest value log file.
func valueLogHead(dir string) string {
	paths, err := filepath.Glob(filepath.Join(dir, "*.vlog"))
	if err != nil || len(paths) == 0 {
		return ""
	}
	return paths[len(paths)-1] // sorted, and numbered with zeros before
}

// allocated is how much of the disk a file takes, in bytes; files of the value
// log are sparse. 0 where that is not known.
func allocated(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return blocksOf(info)
}
