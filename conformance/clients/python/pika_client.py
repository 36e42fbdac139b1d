"""Conformance program of pika's blocking connection."""

import datetime
import decimal

import pika
import pika.exceptions
from pika.compat import long

import walk
from walk import check, equal

PERSISTENT = pika.DeliveryMode.Persistent.value


class Program:
    """One walk through the steps; each builds on the state of those before."""

    def __init__(self):
        prefix = walk.prefix("pika")
        self.exchange, self.queue = prefix + ".exchange", prefix + ".queue"
        self.connection = self.channel = None

    def connect(self):
        self.connection = pika.BlockingConnection(pika.URLParameters(walk.URI))
        self.open_channel()
        for name in ("publisher_confirms_supported", "basic_nack_supported", "consumer_cancel_notify_supported"):
            check(getattr(self.connection, name), name, "is not announced")

    def open_channel(self):
        """A channel in confirm mode; basic_publish then blocks for the confirm."""
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()

    def declare(self):
        for _ in range(2):  # the second time the same arguments must be accepted
            self.channel.exchange_declare(self.exchange, "topic", durable=True)
            method = self.channel.queue_declare(self.queue, durable=True).method
            equal((method.queue, method.message_count, method.consumer_count), (self.queue, 0, 0), "declare-ok")
        name = self.channel.queue_declare("", exclusive=True).method.queue
        check(name.startswith("amq.gen-"), "server-named queue is called", name)

    def bind(self):
        for key in ("order.*.created", "audit.#", "gone.#"):
            self.channel.queue_bind(self.queue, self.exchange, key)
        self.channel.queue_unbind(self.queue, self.exchange, "gone.#")

    def want_depth(self, depth):
        method = self.channel.queue_declare(self.queue, passive=True).method
        equal(method.message_count, depth, "queue depth")

    def publish(self, body, key=None, exchange="", mandatory=True, **properties):
        """Publish and wait for the confirm; a return or a nack raises."""
        self.channel.basic_publish(
            exchange, key or self.queue, body,
            pika.BasicProperties(delivery_mode=PERSISTENT, **properties), mandatory=mandatory,
        )

    def get_back(self, body):
        method, properties, got = self.channel.basic_get(self.queue, auto_ack=True)
        check(method is not None, "get found no message")
        check(got == body, f"got a body of {len(got)} bytes that differs from the {len(body)} sent")
        equal(method.message_count, 0, "get-ok's message count")
        return properties

    def publish_confirm(self):
        for i in range(100):
            self.publish(b"order %d" % i, f"order.{i}.created", self.exchange)
        # What no binding matches is confirmed too.
        self.publish(b"order 100", "order.100.paid", self.exchange, mandatory=False)
        self.want_depth(100)

    def consume(self, count):
        """The next deliveries of the queue, one by one; silence raises."""
        deliveries = self.channel.consume(self.queue, inactivity_timeout=walk.PATIENCE)
        for _ in range(count):
            method, properties, body = next(deliveries)
            check(method is not None, f"no delivery in {walk.PATIENCE} s")
            yield method, properties, body

    def consume_ack(self):
        self.channel.basic_qos(prefetch_count=10)
        for i, (method, _, body) in enumerate(self.consume(100)):
            equal(body, b"order %d" % i, f"delivery {i}")
            equal((method.redelivered, method.exchange), (False, self.exchange), f"delivery {i}")
            if i % 10 == 9:  # the full window at once
                self.channel.basic_ack(method.delivery_tag, multiple=True)
        equal(self.channel.cancel(), 0, "messages requeued by cancel")
        self.want_depth(0)

    def nack_requeue(self):
        for body in (b"back", b"away", b"kept"):
            self.publish(body)
        self.channel.basic_qos(prefetch_count=1)
        expected = [
            (b"back", False, lambda tag: self.channel.basic_nack(tag, requeue=True)),
            (b"back", True, self.channel.basic_ack),
            (b"away", False, lambda tag: self.channel.basic_reject(tag, requeue=False)),
            (b"kept", False, self.channel.basic_ack),
        ]
        for (method, _, got), (body, redelivered, settle) in zip(self.consume(len(expected)), expected):
            equal((got, method.redelivered), (body, redelivered), "delivery")
            settle(method.delivery_tag)
        self.channel.cancel()
        self.want_depth(0)

    def get(self):
        self.publish(b"first")
        self.publish(b"second")
        method, _, body = self.channel.basic_get(self.queue)
        equal((body, method.message_count, method.redelivered), (b"first", 1, False), "get-ok")
        self.channel.basic_ack(method.delivery_tag)
        self.get_back(b"second")
        equal(self.channel.basic_get(self.queue), (None, None, None), "get on the empty queue")

    def mandatory_return(self):
        try:
            self.publish(b"undeliverable", "nowhere", self.exchange, message_id="m-1", headers={"k": "v"})
        except pika.exceptions.UnroutableError as error:
            [returned] = error.messages
        else:
            raise AssertionError("confirmed, but not returned before")
        method, properties = returned.method, returned.properties
        equal((method.reply_code, method.reply_text, method.exchange, method.routing_key),
              (312, "NO_ROUTE", self.exchange, "nowhere"), "return")
        equal((returned.body, properties.message_id, properties.headers), (b"undeliverable", "m-1", {"k": "v"}),
              "returned message")

    def headers(self):
        # Each field type that the library writes: t I l D S x T V, F and A.
        fields = {
            "true": True, "false": False, "int": -320000, "long": long(-64000000000000), "small long": long(7),
            "decimal": decimal.Decimal("314.15"), "string": "snöwman ☃", "empty": "",
            "bytes": b"\x00\x01\xfe\xff", "none": None,
            "time": datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.timezone.utc),
        }
        sent = dict(fields, table=dict(fields), array=[1, "two", False, None, {"deep": [long(3)]}])
        properties = dict(
            content_type="application/json", content_encoding="identity", priority=7, correlation_id="c-1",
            reply_to="replies", message_id="m-2", timestamp=1600000000, type="kind", app_id="conformance",
        )
        self.publish(b"{}", headers=sent, **properties)
        got = self.get_back(b"{}")
        for key, value in sent.items():
            equal(got.headers.get(key), value, f"header {key}")
            # pika reads I as int and l as its own long, so this tells them apart.
            check(type(got.headers[key]) is type(value), f"header {key} is a {type(got.headers[key])}")
        equal(len(got.headers), len(sent), "number of headers")
        for key, value in dict(properties, delivery_mode=PERSISTENT).items():
            equal(getattr(got, key), value, key)

    def body_12mib(self):
        body = walk.pattern(12 * walk.MIB)
        self.publish(body)
        self.get_back(body)

    def body_20mib(self):
        body = walk.pattern(20 * walk.MIB)
        if walk.COMPAT == "3":
            self.publish(body)
            self.get_back(body)
            return
        channel = self.connection.channel()
        channel.confirm_delivery()
        try:
            channel.basic_publish("", self.queue, body)
        except pika.exceptions.ChannelClosedByBroker as error:
            equal((error.reply_code, error.reply_text),
                  (406, "PRECONDITION_FAILED - message size 20971520 is larger than configured max size 16777216"),
                  "close")
        else:
            raise AssertionError("the oversized message was taken")
        self.want_depth(0)  # the other channel and the connection still work

    def channel_error(self):
        channel = self.connection.channel()
        try:
            channel.queue_declare(self.queue + ".absent", passive=True)
        except pika.exceptions.ChannelClosedByBroker as error:
            equal(error.reply_code, 404, "reply code")
            check(error.reply_text.startswith(f"NOT_FOUND - no queue '{self.queue}.absent'"), error.reply_text)
        else:
            raise AssertionError("the absent queue was found")
        check(channel.is_closed and self.channel.is_open and self.connection.is_open, "more than one channel closed")
        self.open_channel()
        self.publish(b"after the error")
        self.get_back(b"after the error")

    def restart(self):
        self.publish(b"survivor", "audit.restart", self.exchange, message_id="m-3", headers={"n": 1})
        walk.restart_broker()
        try:
            # The first call only reads the broker's close, the second one says so.
            for _ in range(2):
                self.connection.process_data_events(time_limit=walk.PATIENCE)
            raise AssertionError("the connection outlived the restart")
        except pika.exceptions.ConnectionClosedByBroker as error:
            equal(error.reply_code, 320, "the closing connection's reply code")
        except pika.exceptions.AMQPConnectionError:
            pass  # a broker that is killed says nothing
        parameters = pika.URLParameters(walk.URI)
        parameters.connection_attempts, parameters.retry_delay = 60, 0.5
        self.connection = pika.BlockingConnection(parameters)
        self.open_channel()
        properties = self.get_back(b"survivor")
        equal((properties.message_id, properties.headers, properties.delivery_mode),
              ("m-3", {"n": 1}, PERSISTENT), "properties after the restart")
        # The durable binding must have survived too.
        self.publish(b"routed", "order.x.created", self.exchange)
        self.get_back(b"routed")

    def delete(self):
        self.publish(b"left behind")
        equal(self.channel.queue_delete(self.queue).method.message_count, 1, "delete-ok's message count")
        self.channel.exchange_delete(self.exchange)
        try:
            self.channel.exchange_declare(self.exchange, "topic", passive=True)
            raise AssertionError("the deleted exchange is still there")
        except pika.exceptions.ChannelClosedByBroker as error:
            equal(error.reply_code, 404, "reply code")
        self.connection.close()


def main():
    p = Program()
    walk.take("pika", [
        ("connect", p.connect), ("declare", p.declare), ("bind", p.bind),
        ("publish-confirm", p.publish_confirm), ("consume-ack", p.consume_ack),
        ("nack-requeue", p.nack_requeue), ("get", p.get), ("mandatory-return", p.mandatory_return),
        ("headers", p.headers), ("body-12MiB", p.body_12mib), ("body-20MiB", p.body_20mib),
        ("channel-error", p.channel_error), ("restart", p.restart), ("delete", p.delete),
    ])


if __name__ == "__main__":
    main()
