package persist

const crashChildEnv = "WARREN_PERSIST_CRASH_CHILD"

func runCrashChild() {}
