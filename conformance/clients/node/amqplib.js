// Conformance program of amqplib's promise API.

import assert from 'node:assert/strict';
import amqp from 'amqplib';
import { COMPAT, event, Inbox, MIB, pattern, prefix, restartBroker, soon, URI, walk } from './walk.js';

const name = prefix('amqplib');
const exchange = `${name}.exchange`;
const queue = `${name}.queue`;
const persistent = { deliveryMode: 2 };

// Replaced by the steps that lose them.
let connection;
let channel;

async function connect() {
  connection = await amqp.connect(URI, { clientProperties: { connection_name: 'conformance-amqplib' } });
  connection.on('error', () => {}); // the steps that provoke one look at its close event
  const { capabilities } = connection.connection.serverProperties;
  for (const capability of ['publisher_confirms', 'basic.nack', 'consumer_cancel_notify']) {
    assert.equal(capabilities[capability], true, capability);
  }
  channel = await connection.createConfirmChannel();
}

async function declare() {
  for (let i = 0; i < 2; i++) { // the second time the same arguments must be accepted
    await channel.assertExchange(exchange, 'topic', { durable: true });
    const ok = await channel.assertQueue(queue, { durable: true });
    assert.deepEqual(ok, { queue, messageCount: 0, consumerCount: 0 });
  }
  const named = await channel.assertQueue('', { exclusive: true });
  assert.match(named.queue, /^amq\.gen-/);
}

async function bind() {
  for (const key of ['order.*.created', 'audit.#', 'gone.#']) await channel.bindQueue(queue, exchange, key);
  await channel.unbindQueue(queue, exchange, 'gone.#');
}

async function wantDepth(depth) {
  assert.equal((await channel.checkQueue(queue)).messageCount, depth, 'queue depth');
}

// Publishes one message and waits for its confirm.
async function publish(body, options = persistent, to = '', key = queue) {
  channel.publish(to, key, Buffer.from(body), options);
  await soon(channel.waitForConfirms(), 'confirm');
}

async function getBack(body) {
  const message = await channel.get(queue, { noAck: true });
  assert.ok(message, 'get found no message');
  assert.ok(message.content.equals(Buffer.from(body)), `the body of ${message.content.length} bytes differs`);
  assert.equal(message.fields.messageCount, 0);
  return message;
}

async function publishConfirm() {
  for (let i = 0; i < 100; i++) channel.publish(exchange, `order.${i}.created`, Buffer.from(`order ${i}`), persistent);
  channel.publish(exchange, 'order.100.paid', Buffer.from('order 100'), persistent); // no binding matches
  await soon(channel.waitForConfirms(), 'confirms');
  await wantDepth(100);
}

async function consumeAck() {
  await channel.prefetch(10);
  const inbox = new Inbox();
  const { consumerTag } = await channel.consume(queue, inbox.put);
  for (let i = 0; i < 100; i++) {
    const message = await inbox.take();
    assert.equal(message.content.toString(), `order ${i}`);
    assert.equal(message.fields.redelivered, false);
    assert.equal(message.fields.exchange, exchange);
    if (i % 10 === 9) channel.ack(message, true); // the full window at once
  }
  await channel.cancel(consumerTag);
  await wantDepth(0);
}

async function nackRequeue() {
  for (const body of ['back', 'away', 'kept']) await publish(body);
  await channel.prefetch(1);
  const inbox = new Inbox();
  const { consumerTag } = await channel.consume(queue, inbox.put);
  for (const [body, redelivered, settle] of [
    ['back', false, (m) => channel.nack(m, false, true)],
    ['back', true, (m) => channel.ack(m)],
    ['away', false, (m) => channel.reject(m, false)],
    ['kept', false, (m) => channel.ack(m)],
  ]) {
    const message = await inbox.take();
    assert.deepEqual([message.content.toString(), message.fields.redelivered], [body, redelivered]);
    settle(message);
  }
  await channel.cancel(consumerTag);
  await wantDepth(0);
}

async function get() {
  await publish('first');
  await publish('second');
  const message = await channel.get(queue);
  assert.equal(message.content.toString(), 'first');
  assert.equal(message.fields.messageCount, 1);
  channel.ack(message);
  await getBack('second');
  assert.equal(await channel.get(queue), false);
}

async function mandatoryReturn() {
  const order = [];
  const returned = event(channel, 'return');
  channel.once('return', () => order.push('return')); // at once, as a promise would come too late to tell
  const options = { mandatory: true, messageId: 'm-1', headers: { k: 'v' } };
  await new Promise((resolve, reject) => {
    channel.publish(exchange, 'nowhere', Buffer.from('undeliverable'), options, (error) => {
      order.push('confirm');
      if (error) reject(error); else resolve();
    });
  });
  const { fields, properties, content } = await returned;
  assert.deepEqual(order, ['return', 'confirm']);
  assert.deepEqual(fields, { replyCode: 312, replyText: 'NO_ROUTE', exchange, routingKey: 'nowhere' });
  assert.deepEqual([content.toString(), properties.messageId, { ...properties.headers }],
    ['undeliverable', 'm-1', { k: 'v' }]);
}

async function headers() {
  // Each field type that the library writes: t b B s u I i l f d D S x T V, F and A.
  const typed = (type, value) => ({ '!': type, value });
  const fields = {
    yes: true, no: false, int8: -8, uint8: typed('uint8', 200), int16: -1600, uint16: typed('uint16', 60000),
    int32: -320000, uint32: typed('uint32', 4000000000), int64: -64000000000000, float: typed('float', 0.5),
    double: -2.25, string: 'snöwman ☃', empty: '', bytes: Buffer.from([0, 1, 0xfe, 0xff]), none: null,
  };
  const special = {
    timestamp: typed('timestamp', 1700000000), decimal: typed('decimal', { places: 2, digits: 31415 }),
  };
  const sent = {
    ...fields, ...special, table: { ...fields, ...special }, array: [1, 'two', false, null, { deep: [70000] }],
  };
  // Numbers come back without the wrapping that chose their type.
  const plain = { ...fields, uint8: 200, uint16: 60000, uint32: 4000000000, float: 0.5 };
  const want = { ...sent, ...plain, table: { ...plain, ...special } };
  const options = {
    contentType: 'application/json', contentEncoding: 'identity', deliveryMode: 2, priority: 7,
    correlationId: 'c-1', replyTo: 'replies', messageId: 'm-2', timestamp: 1600000000, type: 'kind',
    appId: 'conformance',
  };
  await publish('{}', { ...options, headers: sent });
  const { properties } = await getBack('{}');
  assert.deepEqual(properties.headers, want);
  for (const [key, value] of Object.entries(options)) assert.equal(properties[key], value, key);
}

async function body12MiB() {
  const body = pattern(12 * MIB);
  await publish(body);
  await getBack(body);
}

async function body20MiB() {
  const body = pattern(20 * MIB);
  if (COMPAT === '3') {
    await publish(body);
    await getBack(body);
    return;
  }
  const other = await connection.createConfirmChannel();
  const failed = event(other, 'error');
  other.publish('', queue, body);
  const error = await failed;
  assert.equal(error.code, 406);
  assert.match(error.message, /PRECONDITION_FAILED - message size 20971520 is larger than configured max size 16777216/);
  await wantDepth(0); // the other channel and the connection still work
}

async function channelError() {
  const other = await connection.createChannel();
  other.on('error', () => {}); // looked at by way of the rejected call
  await assert.rejects(other.checkQueue(`${queue}.absent`), (error) => {
    assert.equal(error.code, 404);
    assert.ok(error.message.includes(`NOT_FOUND - no queue '${queue}.absent'`), error.message);
    return true;
  });
  channel = await connection.createConfirmChannel();
  await publish('after the error');
  await getBack('after the error');
}

async function restart() {
  await publish('survivor', { ...persistent, messageId: 'm-3', headers: { n: 1 } }, exchange, 'audit.restart');
  // A second connection is left to the library to bring back; its setup runs again.
  const inbox = new Inbox();
  const recovering = await amqp.connect(URI, {
    recovery: {
      initialDelay: 200,
      maxDelay: 1000,
      setup: async (model) => {
        const ch = await model.createChannel();
        const { queue: q } = await ch.assertQueue(`${queue}.exclusive`, { exclusive: true });
        await ch.bindQueue(q, exchange, 'order.x.created');
        await ch.consume(q, inbox.put, { noAck: true });
      },
    },
  });
  recovering.on('error', () => {}); // of a connection that breaks; it then recovers
  const closed = event(connection, 'close');
  const reconnected = event(recovering, 'connect');
  await restartBroker();
  await closed;
  await reconnected;
  await connect();
  const { properties } = await getBack('survivor');
  assert.deepEqual([properties.messageId, { ...properties.headers }, properties.deliveryMode], ['m-3', { n: 1 }, 2]);
  await publish('routed', persistent, exchange, 'order.x.created'); // the binding must have survived too
  await getBack('routed');
  assert.equal((await inbox.take()).content.toString(), 'routed');
  await recovering.close();
}

async function remove() {
  await publish('left behind');
  assert.equal((await channel.deleteQueue(queue)).messageCount, 1);
  await channel.deleteExchange(exchange);
  const other = await connection.createChannel();
  other.on('error', () => {});
  await assert.rejects(other.checkExchange(exchange), (error) => error.code === 404);
  await connection.close();
}

await walk('amqplib', [
  ['connect', connect], ['declare', declare], ['bind', bind], ['publish-confirm', publishConfirm],
  ['consume-ack', consumeAck], ['nack-requeue', nackRequeue], ['get', get], ['mandatory-return', mandatoryReturn],
  ['headers', headers], ['body-12MiB', body12MiB], ['body-20MiB', body20MiB], ['channel-error', channelError],
  ['restart', restart], ['delete', remove],
]);
