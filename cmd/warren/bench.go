package main

import (
	"encoding/json"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/warrenmq/warren/cmd/warren/internal/bench"
)

func benchCommand() *cli.Command {
	return &cli.Command{
		Name:      "bench",
		Usage:     "measure any AMQP 0-9-1 broker",
		ArgsUsage: "[-- COMMAND ...]",
		Description: "Prints one JSON object. Compare brokers in turns on a quiet machine, and CPU time a message\n" +
			"before rates: it hardly moves with what else runs.\n\nScenarios:\n" + bench.Scenarios(),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "uri", Value: "amqp://guest:guest@127.0.0.1:5672/", Usage: "the broker's `ADDRESS`"},
			&cli.StringFlag{Name: "scenario", Value: "autoack", Usage: "`NAME` of a scenario"},
			&cli.IntFlag{Name: "size", Value: 16, Usage: "body size in `BYTES`"},
			&cli.DurationFlag{Name: "duration", Value: 5 * time.Second, Usage: "measured `TIME`"},
			&cli.DurationFlag{Name: "warm", Value: time.Second, Usage: "`TIME` before that"},
			&cli.IntFlag{Name: "n", Usage: "`COUNT` of queues, bindings or connections; 0 is the scenario's own"},
			&cli.IntFlag{Name: "pid", Usage: "the broker's `PROCESS`, for CPU time and memory (Linux)"},
		},
		Action: func(c *cli.Context) error {
			r, err := bench.Run(bench.Config{
				URI: c.String("uri"), Scenario: c.String("scenario"), Size: c.Int("size"), Duration: c.Duration("duration"),
				Warm: c.Duration("warm"), N: c.Int("n"), PID: c.Int("pid"), Exec: c.Args().Slice(),
			})
			if err != nil {
				return err
			}
			return json.NewEncoder(os.Stdout).Encode(r)
		},
	}
}
