package stream

const crashChildEnv = "WARREN_STREAM_CRASH_CHILD"

func runCrashChild() {}
