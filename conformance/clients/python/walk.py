"""What the Python programs share: the driver's contract and the test bodies.

The contract is in the README one folder up: AMQP_URI, COMPAT and RESTART come from
the environment, one line is printed a step, the first failure ends the program.
"""

import asyncio
import importlib.metadata
import os
import subprocess
import sys
import time
import traceback

# Bounds each wait for something the broker is to send; seconds.
PATIENCE = 30

URI = os.environ["AMQP_URI"]
RESTART = os.environ["RESTART"]
COMPAT = os.environ["COMPAT"]
if COMPAT not in ("3", "4"):
    sys.exit(f"COMPAT is {COMPAT!r}, want 3 or 4")

MIB = 1 << 20


def prefix(client):
    """A name for this run's queues and exchanges that no other run uses."""
    return f"clients.{client}.{os.getpid()}.{time.time_ns()}"


def pattern(size):
    """A body that differs from itself at each shift up to 251 bytes."""
    unit = bytes(range(251))
    return (unit * (size // 251 + 1))[:size]


def check(condition, *what):
    """Fail the step unless the condition holds; unlike assert, under -O too."""
    if not condition:
        raise AssertionError(" ".join(str(w) for w in what) or "a check failed")


def equal(got, want, what):
    check(got == want, f"{what} is {got!r}, want {want!r}")


def restart_broker():
    """Block until the broker has gone and come back."""
    subprocess.run(["sh", "-c", RESTART], check=True, timeout=100, stdout=subprocess.DEVNULL)


def _failed(name, error):
    text = " ".join(f"{type(error).__name__}: {error}".split())
    print(f"FAIL {name}: {text}", flush=True)
    traceback.print_exc()
    # A client's background threads must not keep a failed program alive.
    sys.stderr.flush()
    os._exit(1)


def take(package, steps, on_failure=lambda: None):
    """Run (name, function) pairs in order; on_failure cleans up after a failed one."""
    print("client", package, importlib.metadata.version(package), flush=True)
    for name, step in steps:
        try:
            step()
        except Exception as error:
            on_failure()
            _failed(name, error)
        print("ok", name, flush=True)


async def take_async(package, steps):
    """Run (name, coroutine function) pairs in order, each within 60 s."""
    print("client", package, importlib.metadata.version(package), flush=True)
    for name, step in steps:
        try:
            await asyncio.wait_for(step(), 60)
        except Exception as error:
            _failed(name, error)
        print("ok", name, flush=True)
