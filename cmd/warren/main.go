// Command warren is the broker and its tools in one binary.
package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/urfave/cli/v2"
)

// version is set by release builds (-ldflags -X main.version=...).
var version = "0.1.0-dev"

func main() {
	app := &cli.App{
		Name:            "warren",
		Usage:           "an AMQP 0-9-1 broker that RabbitMQ clients connect to unchanged",
		Version:         versionText(),
		HideHelpCommand: true,
		Commands:        []*cli.Command{serveCommand(), benchCommand(), storeCommand()},
	}
	if err := app.Run(os.Args); err != nil {
		// One line, whatever libraries put into their errors.
		fmt.Fprintln(os.Stderr, "warren:", strings.ReplaceAll(err.Error(), "\n", "; "))
		os.Exit(1)
	}
}

// versionText adds the commit, where the build knows it.
func versionText() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				return version + " (" + s.Value[:12] + ")"
			}
		}
	}
	return version
}
