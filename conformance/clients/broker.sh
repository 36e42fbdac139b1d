# shellcheck shell=bash
# Starts, restarts and stops Warren for the scripts here. To be sourced, not run.
#
#   broker_build            sets WARREN_BIN, unless it is set
#   broker_start FOLDER COMPAT [PORT] [SIGNAL]
#                           starts Warren with its files in FOLDER, waits until clients
#                           can connect, sets AMQP_URI and RESTART
#   broker_stop             stops it; fails unless it ended cleanly
#
# A loop in the background is the broker's parent, so that FOLDER/restart, which any
# client program may run, needs no more than signals and files:
#
#   FOLDER/ready    what --ready-file writes; gone while the broker is down
#   FOLDER/again    made by FOLDER/restart: start again after the coming exit
#   FOLDER/exits    the exit codes, one a line
#   FOLDER/gone     made when the broker has ended and will not start again
#   FOLDER/log      output of all runs

# broker_build: build Warren from this checkout.
broker_build() {
  if [ -n "${WARREN_BIN:-}" ]; then return; fi
  WARREN_BIN=$CACHE/bin/warren
  (cd "$HERE/../.." && go build -buildvcs=false -o "$WARREN_BIN" ./cmd/warren)
}

# broker_loop FOLDER COMPAT PORT: run the broker, again and again if asked to.
broker_loop() {
  local folder=$1 compat=$2 port=$3 code
  while :; do
    rm -f "$folder/again"
    code=0
    # The other listeners would take ports that someone else may have.
    WARREN_MANAGEMENT=off WARREN_PROMETHEUS=off "$WARREN_BIN" serve --data-dir "$folder/data" \
      --listen "127.0.0.1:$port" --compat "$compat" --ready-file "$folder/ready" >>"$folder/log" 2>&1 || code=$?
    echo "$code" >>"$folder/exits"
    [ -e "$folder/again" ] || break
    port=$(cat "$folder/port") # the one taken by the first run
  done
  touch "$folder/gone"
}

# broker_value FILE NAME: a string or number out of the one JSON object in FILE.
broker_value() {
  sed -n "s/.*\"$2\": *\"\{0,1\}\([^\",}]*\).*/\1/p" "$1"
}

# broker_log FOLDER: what its log says last, or the begin of a crash.
broker_log() {
  grep -m 1 -A 40 -E '^(panic|fatal error|SIG[A-Z]+|WARNING: DATA RACE)' "$1/log" || tail -n 20 "$1/log"
}

# broker_await FOLDER: wait until clients can connect; fail if that takes over 30 s.
broker_await() {
  local tries
  for ((tries = 0; tries < 600; tries++)); do
    if [ -s "$1/ready" ]; then return 0; fi
    if [ -e "$1/gone" ]; then break; fi
    sleep 0.05
  done
  echo "the broker did not get ready within 30 s; exit codes: $(cat "$1/exits" 2>/dev/null || echo none)" >&2
  broker_log "$1" >&2
  return 1
}

# broker_write_restart FOLDER SIGNAL: the command that client programs run.
broker_write_restart() {
  local folder=$1 signal=$2
  {
    echo '#!/bin/bash'
    echo 'set -eu'
    declare -f broker_value broker_log broker_await
    echo "folder=$folder"
    echo 'pid=$(broker_value "$folder/ready" pid)'
    echo 'rm -f "$folder/ready"'
    echo 'touch "$folder/again"'
    echo "kill -$signal \"\$pid\""
    echo 'broker_await "$folder"'
  } >"$folder/restart"
  chmod +x "$folder/restart"
}

# broker_start FOLDER COMPAT [PORT] [SIGNAL]
broker_start() {
  BROKER_FOLDER=$1
  BROKER_SIGNAL=${4:-TERM}
  mkdir -p "$BROKER_FOLDER"
  broker_write_restart "$BROKER_FOLDER" "$BROKER_SIGNAL"
  broker_loop "$BROKER_FOLDER" "$2" "${3:-0}" &
  BROKER_LOOP=$!
  broker_await "$BROKER_FOLDER"
  local address
  address=$(broker_value "$BROKER_FOLDER/ready" amqp)
  echo "${address##*:}" >"$BROKER_FOLDER/port"
  AMQP_URI=amqp://guest:guest@127.0.0.1:${address##*:}
  RESTART=$BROKER_FOLDER/restart
}

# broker_stop: end the broker by TERM. Fails, and says why, unless each of its runs ended
# as it was asked to: with exit code 0, or by the restarts' KILL.
broker_stop() {
  local pid clean=0
  pid=$(broker_value "$BROKER_FOLDER/ready" pid)
  if kill -TERM "$pid" 2>/dev/null; then wait "$BROKER_LOOP"; fi
  [ "$BROKER_SIGNAL" != KILL ] || clean='0|137'
  if [ -s "$BROKER_FOLDER/exits" ] && ! grep -vqxE "$clean" "$BROKER_FOLDER/exits"; then return 0; fi
  echo "the broker's exit codes: $(tr '\n' ' ' <"$BROKER_FOLDER/exits")"
  broker_log "$BROKER_FOLDER"
  return 1
}
