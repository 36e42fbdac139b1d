// Command gen writes frames/methods_gen.go from frames/methods.txt.
//
// It is run by "go generate ./frames" with the frames folder as working directory; a test in this
// package fails when the checked-in file is not what it would write.
package main

import (
	"bytes"
	"fmt"
	"os"
)

func main() {
	if err := run("methods.txt", "methods_gen.go"); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// run reads the definition in from and writes the Go file to.
func run(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("read the definition: %w", err)
	}
	methods, err := parse(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("parse %s: %w", from, err)
	}
	code, err := generate(methods)
	if err != nil {
		return fmt.Errorf("generate from %s: %w", from, err)
	}
	if err := os.WriteFile(to, code, 0o644); err != nil {
		return fmt.Errorf("write the generated file: %w", err)
	}
	return nil
}
