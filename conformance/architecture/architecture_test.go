// Package architecture holds the checks of the repository's own rules: which
// room may import which, and that time has one source.
package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/warrenmq/warren/"

// arrows is the table of ARCHITECTURE.md: a room and the rooms it may import.
// A room includes its sub-packages unless they have a row of their own.
var arrows = map[string][]string{
	"frames":          {},
	"exchange":        {"frames"},
	"persist":         {},
	"queue":           {"frames", "persist"},
	"amqp/auth":       {"persist", "frames"},
	"amqp/broker":     {"exchange", "queue", "persist", "frames", "amqp/auth"},
	"amqp":            {"amqp/broker", "amqp/auth", "queue", "frames"},
	"amqp/management": {"amqp/broker", "amqp/auth", "queue", "frames"},
	"amqp/amqptest":   {"amqp", "amqp/broker", "amqp/management", "queue", "persist", "frames"},
	"persist/cluster": {"persist", "frames"},
	"cmd/warren":      {"amqp", "amqp/broker", "amqp/auth", "amqp/management", "persist", "queue", "exchange", "frames", "conformance"},
	"conformance":     {"amqp/amqptest", "amqp", "amqp/broker", "amqp/auth", "frames", "queue"},
}

// timeless are the rooms in which only queue/clock.go may read or wait for
// time, so that tests can move it.
var timeless = []string{"frames", "exchange", "queue", "amqp"}

// clockFunctions are package time's functions that read a clock or start a
// timer.
var clockFunctions = map[string]bool{
	"Now": true, "Since": true, "Until": true, "After": true, "AfterFunc": true,
	"NewTimer": true, "NewTicker": true, "Tick": true, "Sleep": true,
}

// deadlines are methods of sockets that wait on the machine's clock.
var deadlines = map[string]bool{"SetDeadline": true, "SetReadDeadline": true, "SetWriteDeadline": true}

type source struct {
	path string // slashes, from the root
	room string
	file *ast.File
}

// sources parses every Go file of the rooms that is not a test.
func sources(t *testing.T) (*token.FileSet, []source) {
	t.Helper()
	set := token.NewFileSet()
	var all []source
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		rel = filepath.ToSlash(rel)
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && rel != "." || d.Name() == "testdata" || d.Name() == "node_modules" || rel == "conformance/clients") {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		all = append(all, source{rel, roomOf(filepath.ToSlash(filepath.Dir(rel))), f})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 {
		t.Fatalf("found only %d source files: is this the repository?", len(all))
	}
	return set, all
}

// roomOf finds the longest row that a folder belongs to.
func roomOf(dir string) string {
	for d := dir; d != "."; d = filepath.ToSlash(filepath.Dir(d)) {
		if _, ok := arrows[d]; ok {
			return d
		}
	}
	return ""
}

func TestImportArrows(t *testing.T) {
	_, all := sources(t)
	for _, s := range all {
		if s.room == "" {
			t.Errorf("%s belongs to no room", s.path)
			continue
		}
		for _, i := range s.file.Imports {
			path, _ := strconv.Unquote(i.Path.Value)
			rel, ours := strings.CutPrefix(path, module)
			if !ours {
				continue
			}
			if to := roomOf(rel); to != s.room && !contains(arrows[s.room], to) {
				t.Errorf("%s (room %s) imports %s: no arrow to %q", s.path, s.room, path, to)
			}
		}
	}
}

// TestOneClock: every timer and every reading of time goes through
// queue.Clock.
func TestOneClock(t *testing.T) {
	set, all := sources(t)
	for _, s := range all {
		if s.path == "queue/clock.go" || !timelessRoom(s.path) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" && clockFunctions[sel.Sel.Name] {
				t.Errorf("%s: time.%s: use queue.Clock", set.Position(sel.Pos()), sel.Sel.Name)
			}
			if deadlines[sel.Sel.Name] {
				t.Errorf("%s: %s: use a timer of queue.Clock", set.Position(sel.Pos()), sel.Sel.Name)
			}
			return true
		})
	}
}

func timelessRoom(path string) bool {
	for _, room := range timeless {
		if strings.HasPrefix(path, room+"/") {
			return true
		}
	}
	return false
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}
