"""The Celery application that the worker and the conformance program share."""

import os
import signal
import time

import celery

app = celery.Celery("conformance")
app.conf.update(
    broker_url=os.environ["AMQP_URI"],
    result_backend="rpc://",
    task_default_queue=os.environ["CELERY_QUEUE"],
    task_acks_late=True,
    worker_concurrency=2,
    broker_connection_retry_on_startup=False,
)


@app.task
def add(a, b):
    return a + b


@app.task
def moment():
    """The time at which the worker ran this, in seconds since 1970."""
    return time.time()


@app.task(bind=True)
def hang_once(self, started):
    """Say so on the FIFO `started` and hang, until run as a redelivery."""
    if self.request.delivery_info["redelivered"]:
        return "redelivered"
    with open(started, "w") as fifo:
        fifo.write("started\n")
    signal.pause()  # until the whole worker is killed
