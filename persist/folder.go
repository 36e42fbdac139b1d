package persist

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/table"
)

// formatFile says, beside Badger's files, that the folder holds a store and in
// which format. It is read before Badger touches anything, and keeps a store
// whose files went missing from looking like a new one.
const formatFile = "WARREN"

// prepareFolder makes the folder, proves that it can be written and says
// whether it is a store's already.
func prepareFolder(dir string) (known bool, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return false, fmt.Errorf("make folder %s: %w; check the path and its owner", dir, err)
	}
	probe, err := os.CreateTemp(dir, "writable-*.tmp")
	if err != nil {
		return false, fmt.Errorf("write to folder %s: %w; it has to be writable for this user", dir, err)
	}
	if err := errors.Join(probe.Close(), os.Remove(probe.Name())); err != nil {
		return false, fmt.Errorf("write to folder %s: %w", dir, err)
	}
	if known, err = readFormatFile(dir); err != nil {
		return false, err
	}
	if inUse(dir) { // its files are changing; Badger will refuse it
		return known, nil
	}
	return known, checkFiles(dir, known)
}

// readFormatFile says whether there is a format file, and refuses another
// format than ours.
func readFormatFile(dir string) (known bool, err error) {
	path := filepath.Join(dir, formatFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", path, err)
	}
	var version int
	if _, err := fmt.Sscanf(string(text), "warren store, format %d", &version); err != nil || version < 1 {
		return false, fmt.Errorf("%w: %s does not say which format the store has; restore it from a backup", ErrCorrupt, path)
	}
	return true, checkVersion(dir, uint64(version))
}

// writeFormatFile marks the folder as a store's, once the database is one.
func writeFormatFile(dir string, known bool) error {
	if known {
		return nil
	}
	path := filepath.Join(dir, formatFile)
	f, err := os.CreateTemp(dir, formatFile+"-*.tmp")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = fmt.Fprintf(f, "warren store, format %d\n", formatVersion)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(f.Name()))
	}
	return nil
}

// checkVersion refuses a format that this version does not read.
func checkVersion(dir string, version uint64) error {
	if version > formatVersion {
		return fmt.Errorf("%w: %s has format %d, this version reads %d; use the version that wrote it, or a newer one",
			ErrNewerFormat, dir, version, formatVersion)
	}
	if version >= 1 && version < formatVersion {
		return fmt.Errorf("%w: %s has format %d, this version reads %d only; use the version that wrote it, or move the folder away to start empty",
			ErrOlderFormat, dir, version, formatVersion)
	}
	if version < 1 {
		return fmt.Errorf("%w: %s has format %d, which never was", ErrCorrupt, dir, version)
	}
	return nil
}

// checkFiles refuses a folder in which Badger would quietly start anew, or
// would end the process instead of returning an error.
func checkFiles(dir string, known bool) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read folder %s: %w", dir, err)
	}
	manifest, data := false, ""
	inUse := tablesInUse(dir)
	for _, e := range entries {
		switch filepath.Ext(e.Name()) {
		case ".sst":
			if id, ok := table.ParseFileID(e.Name()); ok && inUse[id] {
				if err := checkTable(filepath.Join(dir, e.Name())); err != nil {
					return err
				}
			}
			data = e.Name()
		case ".vlog", ".mem":
			data = e.Name()
		}
		manifest = manifest || e.Name() == badger.ManifestFilename
	}
	if !manifest && (data != "" || known) {
		if data == "" {
			data = formatFile
		}
		return fmt.Errorf("%w: %s has %s but no %s; restore the folder from a backup, or move it away to start empty",
			ErrCorrupt, dir, data, badger.ManifestFilename)
	}
	return nil
}

// tablesInUse lists the tables that the manifest names. Others were being
// written, or not removed yet, when the process ended: Badger removes them. Of a
// manifest that cannot be read Badger says so itself.
func tablesInUse(dir string) map[uint64]bool {
	f, err := os.Open(filepath.Join(dir, badger.ManifestFilename))
	if err != nil {
		return nil
	}
	defer f.Close()
	m, _, err := badger.ReplayManifestFile(f, 0, badger.DefaultOptions(dir))
	if err != nil {
		return nil
	}
	inUse := make(map[uint64]bool, len(m.Tables))
	for id := range m.Tables {
		inUse[id] = true
	}
	return inUse
}

// checkTable refuses a table that was cut short, for which Badger panics on a
// goroutine of its own. From the end of the file: the length of a checksum, the
// checksum, the length of the index, the index. Whether they are right, Badger
// checks itself.
func checkTable(path string) error {
	damaged := func(what string) error {
		return fmt.Errorf("%w: %s %s; restore the folder from a backup", ErrCorrupt, path, what)
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open %s: %w; it has to be readable for this user", path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	at := info.Size()
	for _, part := range []string{"checksum", "index"} {
		var length [4]byte
		if at -= 4; at < 0 {
			return damaged("is cut short")
		}
		if _, err := f.ReadAt(length[:], at); err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		n := int64(binary.BigEndian.Uint32(length[:]))
		if n == 0 || n > at {
			return damaged("has no " + part + " at its end")
		}
		at -= n
	}
	return nil
}

// valueLogSize is the size of all value log files but the newest, which is
// preallocated and never collected.
func valueLogSize(dir string) (size int64) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.vlog"))
	if err != nil || len(paths) == 0 {
		return 0
	}
	for _, path := range paths[:len(paths)-1] { // sorted, and numbered with zeros before
		if info, err := os.Stat(path); err == nil {
			size += info.Size()
		}
	}
	return size
}

// lockOwner names the process in Badger's lock file, when it can be read.
func lockOwner(dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, "LOCK"))
	if err != nil || len(text) > 32 {
		return ""
	}
	return " (" + strings.TrimSpace(string(text)) + ")"
}

// removeEmpty removes value log files and memtable logs without a byte in
// them. Badger makes such a file before it gives it a size, and empties one, of
// which nothing is needed any more, before it removes it; a process that is
// killed in between leaves it behind, and Badger does not open it. Nothing is
// done in a folder that somebody uses, who may just be making one.
func removeEmpty(dir string) {
	if inUse(dir) {
		return
	}
	for _, pattern := range []string{"*.vlog", "*.mem"} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			continue
		}
		for _, path := range paths {
			if info, err := os.Stat(path); err == nil && info.Size() == 0 {
				_ = os.Remove(path) // Badger will say what is wrong with it
			}
		}
	}
}
