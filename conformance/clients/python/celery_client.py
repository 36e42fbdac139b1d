"""Conformance program of Celery: a real worker in a child process, and its caller."""

import datetime
import os
import queue
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time

import walk
from walk import check, equal

NAME = walk.prefix("celery")
os.environ["CELERY_QUEUE"] = NAME

import celery  # noqa: E402  (reads CELERY_QUEUE by way of celery_app)
from celery_app import add, app, hang_once, moment  # noqa: E402


class Program:
    """One walk through the steps; the worker lives through all but one of them."""

    def __init__(self):
        self.worker = None
        self.node = None  # the worker's node name
        self.starts = 0

    def start_worker(self):
        """Start a worker and wait until it says that it is ready."""
        self.starts += 1
        self.node = f"{NAME}.{self.starts}@localhost"
        self.worker = subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "celery_app", "worker", "-n", self.node, "-l", "INFO"],
            cwd=os.path.dirname(os.path.abspath(__file__)), start_new_session=True, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        ready = queue.Queue()
        threading.Thread(target=self.follow, args=(self.worker.stdout, ready), daemon=True).start()
        check(ready.get(timeout=60), "the worker ended before it was ready")

    @staticmethod
    def follow(log, ready):
        """Pass the worker's log on, less its line a task; say when it is ready, or ended."""
        for line in log:
            if " ready." in line:
                ready.put(True)
            if "Task celery_app.add" not in line:
                sys.stderr.write(line)
        ready.put(False)

    def ping(self):
        """What `celery inspect ping` does: a broadcast, and a reply queue."""
        replies = app.control.inspect(destination=[self.node], timeout=walk.PATIENCE, limit=1).ping()
        equal(replies, {self.node: {"ok": "pong"}}, "replies")

    def tasks(self):
        results = [add.delay(i, i) for i in range(1000)]
        for i, result in enumerate(results):
            equal(result.get(timeout=60), 2 * i, f"task {i}")

    def eta(self):
        eta = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=2)
        late = moment.apply_async(eta=eta).get(timeout=walk.PATIENCE) - eta.timestamp()
        check(0 <= late < 10, f"the task ran {late} s after its time")

    def group(self):
        results = celery.group(add.s(i, 100) for i in range(10)).apply_async()
        equal(results.get(timeout=walk.PATIENCE), [100 + i for i in range(10)], "results")

    def acks_late(self):
        """A task whose worker is killed is not acked yet: the next worker gets it."""
        with tempfile.TemporaryDirectory() as folder:
            started = os.path.join(folder, "started")
            os.mkfifo(started)
            fifo = os.open(started, os.O_RDWR)  # both ends, so that neither open blocks
            result = hang_once.delay(started)
            readable, _, _ = select.select([fifo], [], [], walk.PATIENCE)
            os.close(fifo)
            check(readable, f"the task did not start in {walk.PATIENCE} s")
            os.killpg(self.worker.pid, signal.SIGKILL)
            self.worker.wait(walk.PATIENCE)
            self.start_worker()
            equal(result.get(timeout=60), "redelivered", "result")

    def stop(self):
        """A warm shutdown leaves nothing behind: everything was acked."""
        self.worker.send_signal(signal.SIGTERM)
        equal(self.worker.wait(60), 0, "the worker's exit code")
        with app.connection_for_write() as connection:
            channel = connection.channel()
            equal(channel.queue_declare(NAME, passive=True).message_count, 0, "messages left in the queue")
            channel.queue_delete(NAME)
            channel.exchange_delete(NAME)

    def kill(self):
        """Leave no worker behind a failed step."""
        if self.worker and self.worker.poll() is None:
            os.killpg(self.worker.pid, signal.SIGKILL)


def main():
    p = Program()

    def terminated(*_):
        p.kill()  # the worker is in a session of its own
        os._exit(1)

    signal.signal(signal.SIGTERM, terminated)  # the driver's time limit
    walk.take("celery", [
        ("worker", p.start_worker), ("inspect-ping", p.ping), ("tasks-1000", p.tasks), ("eta", p.eta),
        ("group", p.group), ("acks-late", p.acks_late), ("stop", p.stop),
    ], on_failure=p.kill)


if __name__ == "__main__":
    main()
