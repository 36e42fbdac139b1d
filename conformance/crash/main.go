package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	var o options
	flag.IntVar(&o.kills, "kills", 50, "how many times to kill the broker")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "seed of all choices but the machine's own")
	flag.StringVar(&o.tags, "tags", "crashpoints", "build tags of the broker; crashpoints has half of the kills come at a commit point")
	flag.StringVar(&o.folder, "folder", "", "an empty folder to work in, kept; a temporary one by default")
	flag.DurationVar(&o.grace, "grace", 200*time.Millisecond, "how long an acknowledgement that the broker has may still come back; more on a machine that is busy")
	flag.BoolVar(&o.verbose, "v", false, "a line for each kill")
	mutants := flag.Bool("mutants", false, "run brokers that break a promise each, of which every one must be found out")
	flag.Parse()
	if *mutants {
		if err := findMutants(o); err != nil {
			fmt.Fprintln(os.Stderr, "crash:", err)
			os.Exit(1)
		}
		return
	}
	summary, err := run(o)
	text, _ := json.Marshal(summary)
	fmt.Println(string(text))
	if err != nil {
		fmt.Fprintln(os.Stderr, "crash:", err)
		os.Exit(1)
	}
}
