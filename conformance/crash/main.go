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
	flag.BoolVar(&o.verbose, "v", false, "a line for each kill")
	flag.Parse()
	summary, err := run(o)
	text, _ := json.Marshal(summary)
	fmt.Println(string(text))
	if err != nil {
		fmt.Fprintln(os.Stderr, "crash:", err)
		os.Exit(1)
	}
}
