package main

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/warrenmq/warren/cmd/warren/internal/store"
)

func storeCommand() *cli.Command {
	dir := &cli.StringFlag{Name: "data-dir", Value: "warren-data", EnvVars: []string{"WARREN_DATA_DIR"}, Usage: "the broker's data folder `DIR`"}
	return &cli.Command{
		Name:  "store",
		Usage: "look after the data folder of a broker that does not run",
		Subcommands: []*cli.Command{
			{
				Name: "check", Usage: "read everything and verify it; each problem is a line, and the exit code 1",
				Flags: []cli.Flag{dir},
				Action: func(c *cli.Context) error {
					return withArgs(c, 0, "", func() error { return store.Check(c.String("data-dir"), os.Stdout, storeLog()) })
				},
			},
			{
				Name: "stats", Usage: "show what fills it",
				Flags: []cli.Flag{dir, &cli.BoolFlag{Name: "json", Usage: "as one JSON object"}},
				Action: func(c *cli.Context) error {
					return withArgs(c, 0, "", func() error { return storeStats(c.String("data-dir"), c.Bool("json")) })
				},
			},
			{
				Name: "export", ArgsUsage: "FILE", Usage: "write all definitions and messages to FILE as JSON lines; - is standard output",
				Flags: []cli.Flag{dir},
				Action: func(c *cli.Context) error {
					return withArgs(c, 1, "FILE", func() error {
						return store.Export(c.String("data-dir"), c.Args().First(), os.Stdout, storeLog())
					})
				},
			},
			{
				Name: "import", ArgsUsage: "FILE", Usage: "make a data folder, which must be new or empty, of an export",
				Flags: []cli.Flag{dir},
				Action: func(c *cli.Context) error {
					return withArgs(c, 1, "FILE", func() error {
						return store.Import(c.String("data-dir"), c.Args().First(), os.Stdout, storeLog())
					})
				},
			},
		},
	}
}

// withArgs runs an action with so many arguments.
func withArgs(c *cli.Context, n int, names string, run func() error) error {
	if c.NArg() != n {
		return fmt.Errorf("usage: warren store %s [--data-dir DIR] %s", c.Command.Name, names)
	}
	return run()
}

func storeStats(dir string, asJSON bool) error {
	report, err := store.Measure(dir, storeLog())
	if err != nil {
		return err
	}
	if asJSON {
		return report.WriteJSON(os.Stdout)
	}
	return report.WriteText(os.Stdout)
}

// storeLog keeps what is printed apart from what is said besides.
func storeLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
