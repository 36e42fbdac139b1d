"""Conformance program of aio-pika."""

import asyncio
import datetime
import decimal

import aio_pika
from aio_pika import DeliveryMode, ExchangeType, Message
from aio_pika.exceptions import ChannelNotFoundEntity, ChannelPreconditionFailed, PublishError, QueueEmpty

import walk
from walk import check, equal


def persistent(body, **properties):
    return Message(body, delivery_mode=DeliveryMode.PERSISTENT, **properties)


class Program:
    """One walk through the steps; each builds on the state of those before."""

    def __init__(self):
        prefix = walk.prefix("aio-pika")
        self.exchange_name, self.queue_name = prefix + ".exchange", prefix + ".queue"
        self.connection = self.channel = self.exchange = self.queue = None

    async def connect(self):
        self.connection = await aio_pika.connect(walk.URI, client_properties={"connection_name": "conformance"})
        await self.open_channel()

    async def open_channel(self):
        """A channel in confirm mode whose publish raises for a returned message."""
        self.channel = await self.connection.channel(publisher_confirms=True, on_return_raises=True)

    async def declare(self):
        for _ in range(2):  # the second time the same arguments must be accepted
            self.exchange = await self.channel.declare_exchange(self.exchange_name, ExchangeType.TOPIC, durable=True)
            self.queue = await self.channel.declare_queue(self.queue_name, durable=True)
            result = self.queue.declaration_result
            equal((result.queue, result.message_count, result.consumer_count), (self.queue_name, 0, 0), "declare-ok")
        named = await self.channel.declare_queue(exclusive=True)
        check(named.declaration_result.queue.startswith("amq.gen-"), "server-named queue is called", named.name)

    async def bind(self):
        for key in ("order.*.created", "audit.#", "gone.#"):
            await self.queue.bind(self.exchange, key)
        await self.queue.unbind(self.exchange, "gone.#")

    async def want_depth(self, depth):
        queue = await self.channel.declare_queue(self.queue_name, passive=True)
        equal(queue.declaration_result.message_count, depth, "queue depth")

    async def publish(self, message, key=None, exchange=None, **kwargs):
        """Publish and wait for the confirm; a return or a nack raises."""
        exchange = exchange or self.channel.default_exchange
        confirm = await exchange.publish(message, key or self.queue_name, **kwargs)
        equal(confirm.name, "Basic.Ack", "confirm")

    async def get_back(self, body):
        message = await self.queue.get(no_ack=True)
        check(message.body == body, f"got a body of {len(message.body)} bytes that differs from the {len(body)} sent")
        equal(message.message_count, 0, "get-ok's message count")
        return message

    async def publish_confirm(self):
        await asyncio.gather(*(
            self.publish(persistent(b"order %d" % i), f"order.{i}.created", self.exchange) for i in range(100)
        ))
        # What no binding matches is confirmed too.
        await self.publish(persistent(b"order 100"), "order.100.paid", self.exchange, mandatory=False)
        await self.want_depth(100)

    async def consume_ack(self):
        await self.channel.set_qos(prefetch_count=10)
        bodies = set()
        async with self.queue.iterator(timeout=walk.PATIENCE) as deliveries:
            for i in range(100):
                message = await anext(deliveries)
                bodies.add(message.body)
                equal((message.redelivered, message.exchange), (False, self.exchange_name), f"delivery {i}")
                equal(message.routing_key, "order.%d.created" % int(message.body.split()[1]), f"delivery {i}")
                if i % 10 == 9:  # the full window at once
                    await message.ack(multiple=True)
        # Publishing concurrently, the program does not know the order.
        equal(bodies, {b"order %d" % i for i in range(100)}, "bodies")
        await self.want_depth(0)

    async def nack_requeue(self):
        for body in (b"back", b"away", b"kept"):
            await self.publish(persistent(body))
        await self.channel.set_qos(prefetch_count=1)
        expected = [
            (b"back", False, lambda m: m.nack(requeue=True)),
            (b"back", True, lambda m: m.ack()),
            (b"away", False, lambda m: m.reject(requeue=False)),
            (b"kept", False, lambda m: m.ack()),
        ]
        async with self.queue.iterator(timeout=walk.PATIENCE) as deliveries:
            for body, redelivered, settle in expected:
                message = await anext(deliveries)
                equal((message.body, message.redelivered), (body, redelivered), "delivery")
                await settle(message)
        await self.want_depth(0)

    async def get(self):
        await self.publish(persistent(b"first"))
        await self.publish(persistent(b"second"))
        message = await self.queue.get()
        equal((message.body, message.message_count, message.redelivered), (b"first", 1, False), "get-ok")
        await message.ack()
        await self.get_back(b"second")
        try:
            await self.queue.get()
            raise AssertionError("get found a message on the empty queue")
        except QueueEmpty:
            pass

    async def mandatory_return(self):
        message = persistent(b"undeliverable", message_id="m-1", headers={"k": "v"})
        try:
            await self.publish(message, "nowhere", self.exchange)
            raise AssertionError("confirmed, but not returned before")
        except PublishError as error:
            returned = error.message
        method, properties = returned.delivery, returned.header.properties
        equal((method.reply_code, method.reply_text, method.exchange, method.routing_key),
              (312, "NO_ROUTE", self.exchange_name, "nowhere"), "return")
        equal((returned.body, properties.message_id, properties.headers), (b"undeliverable", "m-1", {"k": "v"}),
              "returned message")

    async def headers(self):
        # Each field type that the library writes: t b s u I i l D f S T F A x V.
        fields = {
            "true": True, "false": False, "int8": -8, "int16": -1600, "uint16": 60000, "int32": -320000,
            "uint32": 4000000000, "int64": -64000000000000, "decimal": decimal.Decimal("314.15"), "float": 0.5,
            "string": "snöwman ☃", "empty": "", "bytes": bytearray(b"\x00\x01\xfe\xff"), "none": None,
            "time": datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.timezone.utc),
        }
        sent = dict(fields, table=dict(fields), array=[1, "two", False, None, {"deep": [70000]}])
        properties = dict(
            content_type="application/json", content_encoding="identity", priority=7, correlation_id="c-1",
            reply_to="replies", message_id="m-2", type="kind", app_id="conformance",
            timestamp=datetime.datetime(2020, 9, 13, 12, 26, 40, tzinfo=datetime.timezone.utc),
        )
        await self.publish(persistent(b"{}", headers=sent, **properties))
        got = await self.get_back(b"{}")
        for key, value in sent.items():
            equal(got.headers.get(key), value, f"header {key}")
        equal(len(got.headers), len(sent), "number of headers")
        for key, value in dict(properties, delivery_mode=DeliveryMode.PERSISTENT).items():
            equal(getattr(got, key), value, key)

    async def body_12mib(self):
        body = walk.pattern(12 * walk.MIB)
        await self.publish(persistent(body))
        await self.get_back(body)

    async def body_20mib(self):
        body = walk.pattern(20 * walk.MIB)
        if walk.COMPAT == "3":
            await self.publish(persistent(body))
            await self.get_back(body)
            return
        channel = await self.connection.channel(publisher_confirms=True)
        try:
            await channel.default_exchange.publish(Message(body), self.queue_name)
            raise AssertionError("the oversized message was taken")
        except ChannelPreconditionFailed as error:
            text = "PRECONDITION_FAILED - message size 20971520 is larger than configured max size 16777216"
            check(text in str(error), error)
        await self.want_depth(0)  # the other channel and the connection still work

    async def channel_error(self):
        channel = await self.connection.channel()
        try:
            await channel.declare_queue(self.queue_name + ".absent", passive=True)
            raise AssertionError("the absent queue was found")
        except ChannelNotFoundEntity as error:
            check(f"NOT_FOUND - no queue '{self.queue_name}.absent'" in str(error), error)
        check(channel.is_closed and not self.channel.is_closed and not self.connection.is_closed,
              "more than one channel closed")
        await self.reopen()
        await self.publish(persistent(b"after the error"))
        await self.get_back(b"after the error")

    async def reopen(self):
        """A new channel, with queue and exchange as seen through it."""
        await self.open_channel()
        self.queue = await self.channel.get_queue(self.queue_name)
        self.exchange = await self.channel.get_exchange(self.exchange_name)

    async def restart(self):
        await self.publish(persistent(b"survivor", message_id="m-3", headers={"n": 1}), "audit.restart", self.exchange)
        # A second connection is left to the library to bring back, with a consumer
        # on an exclusive queue, which goes with its connection.
        robust = await aio_pika.connect_robust(walk.URI, reconnect_interval=0.5)
        deliveries = asyncio.Queue()
        channel = await robust.channel()
        exclusive = await channel.declare_queue(self.queue_name + ".exclusive", exclusive=True)
        await exclusive.bind(self.exchange_name, "order.x.created")
        await exclusive.consume(deliveries.put, no_ack=True)
        reconnected, lost = asyncio.Event(), asyncio.Event()
        robust.reconnect_callbacks.add(lambda *_: reconnected.set())
        self.connection.close_callbacks.add(lambda *_: lost.set())
        await asyncio.to_thread(walk.restart_broker)
        await asyncio.wait_for(lost.wait(), walk.PATIENCE)
        await asyncio.wait_for(reconnected.wait(), walk.PATIENCE)

        self.connection = await aio_pika.connect(walk.URI)
        await self.reopen()
        message = await self.get_back(b"survivor")
        equal((message.message_id, message.headers, message.delivery_mode), ("m-3", {"n": 1}, DeliveryMode.PERSISTENT),
              "properties after the restart")
        # The durable binding must have survived too.
        await self.publish(persistent(b"routed"), "order.x.created", self.exchange)
        await self.get_back(b"routed")
        recovered = await asyncio.wait_for(deliveries.get(), walk.PATIENCE)
        equal(recovered.body, b"routed", "the recovered consumer's message")
        await robust.close()

    async def delete(self):
        await self.publish(persistent(b"left behind"))
        result = await self.queue.delete(if_unused=False, if_empty=False)
        equal(result.message_count, 1, "delete-ok's message count")
        await self.exchange.delete()
        try:
            await self.channel.get_exchange(self.exchange_name)
            raise AssertionError("the deleted exchange is still there")
        except ChannelNotFoundEntity:
            pass
        await self.connection.close()


def main():
    p = Program()
    asyncio.run(walk.take_async("aio-pika", [
        ("connect", p.connect), ("declare", p.declare), ("bind", p.bind),
        ("publish-confirm", p.publish_confirm), ("consume-ack", p.consume_ack),
        ("nack-requeue", p.nack_requeue), ("get", p.get), ("mandatory-return", p.mandatory_return),
        ("headers", p.headers), ("body-12MiB", p.body_12mib), ("body-20MiB", p.body_20mib),
        ("channel-error", p.channel_error), ("restart", p.restart), ("delete", p.delete),
    ]))


if __name__ == "__main__":
    main()
