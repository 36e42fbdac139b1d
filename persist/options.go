package persist

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

// SyncPolicy says when a commit is forced to the disk.
type SyncPolicy uint8

const (
	// SyncAlways syncs every commit before its waiters are told. Survives
	// power loss.
	SyncAlways SyncPolicy = iota
	// SyncInterval tells waiters once the operating system has the bytes and
	// syncs once every Options.SyncInterval. Survives a killed process; power
	// loss may take about the last interval.
	SyncInterval
	// SyncNever leaves syncing to the operating system. Survives a killed
	// process.
	SyncNever
)

// String gives the policy's name as the command line spells it.
func (p SyncPolicy) String() string {
	switch p {
	case SyncAlways:
		return "always"
	case SyncInterval:
		return "interval"
	case SyncNever:
		return "never"
	}
	return fmt.Sprintf("SyncPolicy(%d)", uint8(p))
}

// ParseSyncPolicy is the inverse of SyncPolicy.String.
func ParseSyncPolicy(name string) (SyncPolicy, error) {
	for p := SyncAlways; p <= SyncNever; p++ {
		if p.String() == name {
			return p, nil
		}
	}
	return 0, fmt.Errorf("unknown sync policy %q: give always, interval or never", name)
}

// Options configures a Store. Only Dir is required.
type Options struct {
	// Dir is the store's folder; it is made when it is not there.
	Dir string
	// Logger gets what an operator should know. Default slog.Default.
	Logger *slog.Logger
	// Sync is the sync policy. Default SyncAlways.
	Sync SyncPolicy
	// SyncInterval is the longest time between two syncs under the policy of
	// that name. Default 1 s.
	SyncInterval time.Duration
	// GCInterval is the time between two passes that give disk space back.
	// Default 30 s. A pass also runs after every 64 MiB of bodies written.
	GCInterval time.Duration
	// RewriteInterval is the time between two looks for pages with little left
	// on them. What has little left at two of them in a row is rewritten.
	// Default 5 s.
	RewriteInterval time.Duration
	// LazyDelay is how long settles, and appends of records without a waiter,
	// may wait for company before they are committed. Nobody waits for these,
	// and a message settled meanwhile needs no disk at all. Default 50 ms.
	LazyDelay time.Duration
	// OnFatal is called once, with no lock held and on a goroutine of the
	// store's, when a commit or a sync failed. Nothing is written after that
	// and every waiter gets the error; the caller stops the node. It must not
	// call Close before it returns.
	OnFatal func(error)

	// probe, when a test sets it, is called by the committer at named points;
	// its error is the commit's.
	probe func(point string) error
	// rewrite is set by tests to have little rewritten.
	rewrite rewriteLimits
	// freeSpace, when a test sets it, says what is free instead of the system.
	freeSpace func(dir string) (uint64, error)
}

const (
	defaultSyncInterval = time.Second
	defaultGCInterval   = 30 * time.Second
	defaultRewrite      = 5 * time.Second
	defaultLazyDelay    = 50 * time.Millisecond
)

// withDefaults fills what is not set.
func (o Options) withDefaults() (Options, error) {
	if o.Dir == "" {
		return o, fmt.Errorf("open store: no folder given")
	}
	if o.Sync > SyncNever {
		return o, fmt.Errorf("open store: unknown sync policy %d", o.Sync)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.SyncInterval <= 0 {
		o.SyncInterval = defaultSyncInterval
	}
	if o.GCInterval <= 0 {
		o.GCInterval = defaultGCInterval
	}
	if o.rewrite == (rewriteLimits{}) {
		o.rewrite = defaultRewriteLimits
	}
	if o.RewriteInterval <= 0 {
		o.RewriteInterval = defaultRewrite
	}
	if o.LazyDelay <= 0 {
		o.LazyDelay = defaultLazyDelay
	}
	if o.freeSpace == nil {
		o.freeSpace = freeSpace
	}
	return o, nil
}

const (
	// valueThreshold is the size from which Badger keeps a value in its value
	// log, where compaction does not copy it and where it counts 14 bytes
	// towards the size of a transaction. A commit of a few small messages stays
	// below it: then the value log has nothing to sync, which is most of the
	// time a lone confirm takes.
	valueThreshold = 4 << 10
	// memTableBytes is small because pages write few keys: value log files are
	// collected only after a memtable with the tombstones was flushed and
	// compacted. It also bounds what is replayed after a kill.
	memTableBytes = 2 << 20
	memTables     = 3
	// valueLogBytes is the size of one value log file: all are open and mapped,
	// so not smaller; the newest is never collected, so not larger.
	valueLogBytes = 64 << 20
)

// badgerOptions is the one way this package opens Badger.
func badgerOptions(o Options, logger badger.Logger) badger.Options {
	return badger.DefaultOptions(o.Dir).
		WithLogger(logger).
		WithSyncWrites(o.Sync == SyncAlways).
		WithMemTableSize(memTableBytes).
		WithNumMemtables(memTables).
		WithNumLevelZeroTables(2).
		WithNumLevelZeroTablesStall(8).
		WithBaseTableSize(2 << 20).
		WithValueThreshold(valueThreshold).
		WithValueLogFileSize(valueLogBytes).
		WithNumCompactors(2).
		WithNumVersionsToKeep(1).
		WithDetectConflicts(false).
		WithMetricsEnabled(false).
		// Uncompressed tables are mapped; the page cache is the cache.
		WithCompression(options.None).
		WithBlockCacheSize(0).
		// A table is verified when it is opened. Badger leaves a damaged one
		// out and only logs that; badgerLogger turns it into an error of Open.
		WithChecksumVerificationMode(options.OnTableRead)
}
