package persist

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

// badgerLogger passes Badger's messages on and watches for the failures that
// Badger only logs.
type badgerLogger struct {
	logger *slog.Logger

	mu sync.Mutex
	// Guarded by mu.
	skipped []string    // tables left out while opening
	failed  error       // a failure seen before onFail was set
	onFail  func(error) // set once the store runs
}

// fatalMessages are beginnings of messages after which what was confirmed may
// not be on disk. The first: the value log could not be synced although the
// commit succeeded. The second: a memtable could not be made a table; Badger
// tries again for ever, but a sync that failed once proves nothing when it
// succeeds the second time.
var fatalMessages = []string{
	"Error while curlf sync",
	"error flushing memtable to disk",
}

// Errorf implements badger.Logger.
func (l *badgerLogger) Errorf(format string, args ...any) {
	text := logText(format, args)
	if table, ok := strings.CutPrefix(text, "Ignoring table "); ok {
		l.mu.Lock()
		l.skipped = append(l.skipped, table)
		l.mu.Unlock()
	}
	for _, fatal := range fatalMessages {
		if strings.HasPrefix(text, fatal) {
			l.fail(fmt.Errorf("badger: %s", text))
			return
		}
	}
	l.logger.Error("badger: " + text)
}

// fail reports a failure, now or when watch is called.
func (l *badgerLogger) fail(err error) {
	l.mu.Lock()
	report := l.onFail
	if l.failed == nil {
		l.failed = err
	}
	l.mu.Unlock()
	if report != nil {
		report(err)
	}
}

// watch sets who is told of failures, and tells at once if there was one.
func (l *badgerLogger) watch(report func(error)) {
	l.mu.Lock()
	l.onFail = report
	err := l.failed
	l.mu.Unlock()
	if err != nil {
		report(err)
	}
}

// skippedTables are the files that Badger left out because they are damaged.
func (l *badgerLogger) skippedTables() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.skipped
}

// Warningf implements badger.Logger.
func (l *badgerLogger) Warningf(format string, args ...any) {
	l.logger.Warn("badger: " + logText(format, args))
}

// Infof implements badger.Logger. What Badger finds worth telling is detail to
// a broker's operator.
func (l *badgerLogger) Infof(format string, args ...any) {
	l.logger.Debug("badger: " + logText(format, args))
}

// Debugf implements badger.Logger.
func (l *badgerLogger) Debugf(string, ...any) {}

func logText(format string, args []any) string {
	if len(args) == 0 {
		return strings.TrimSpace(format)
	}
	return strings.TrimSpace(fmt.Sprintf(format, args...))
}
