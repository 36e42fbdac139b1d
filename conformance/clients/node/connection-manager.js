// Conformance program of amqp-connection-manager, which wraps amqplib and keeps
// its users going through a broker restart.

import assert from 'node:assert/strict';
import { connect as connectManager } from 'amqp-connection-manager';
import { event, Inbox, prefix, restartBroker, soon, URI, walk } from './walk.js';

const name = prefix('manager');
const exchange = `${name}.exchange`;
const queue = `${name}.queue`;

let manager;
let wrapper;
let setups = 0;
let restarted = false;
const inbox = new Inbox();

async function connect() {
  manager = connectManager([URI], { heartbeatIntervalInSeconds: 5, reconnectTimeInSeconds: 0.5 });
  await soon(manager.connect(), 'connection');
}

// What the manager does anew on each connection that it makes.
async function setUp(channel) {
  await channel.assertExchange(exchange, 'topic', { durable: true });
  await channel.assertQueue(queue, { durable: true });
  await channel.bindQueue(queue, exchange, 'order.#');
  setups++;
}

async function setup() {
  wrapper = manager.createChannel({ json: true, setup: setUp });
  await soon(wrapper.waitForConnect(), 'channel');
  assert.equal(setups, 1);
}

function publish(i) {
  return soon(wrapper.publish(exchange, `order.${i}`, { order: i }, { persistent: true }), `confirm of ${i}`);
}

async function want(i) {
  let message = await inbox.take();
  // The last acks before a restart may not have reached the broker.
  while (restarted && message.fields.redelivered) {
    wrapper.ack(message);
    message = await inbox.take();
  }
  assert.deepEqual(JSON.parse(message.content.toString()), { order: i });
  wrapper.ack(message);
}

async function publishConfirm() {
  await Promise.all(Array.from({ length: 100 }, (_, i) => publish(i)));
  assert.equal((await wrapper.checkQueue(queue)).messageCount, 100);
}

async function consumeAck() {
  await wrapper.consume(queue, inbox.put, { prefetch: 10 });
  for (let i = 0; i < 100; i++) await want(i);
}

async function restart() {
  const gone = event(manager, 'disconnect');
  const back = event(wrapper, 'connect');
  const restarting = restartBroker();
  restarted = true;
  await Promise.race([gone, restarting.then(() => gone)]); // a failed restart fails at once
  // While the broker is away the manager keeps what is published.
  const kept = Array.from({ length: 10 }, (_, i) => publish(1000 + i));
  await restarting;
  await back;
  await Promise.all(kept);
  assert.equal(setups, 2);
  for (let i = 0; i < 10; i++) await want(1000 + i); // its consumer was subscribed again
}

async function channelError() {
  // The manager opens its channel again after the broker closed it.
  const back = event(wrapper, 'connect');
  wrapper.on('error', () => {});
  await assert.rejects(wrapper.checkQueue(`${queue}.absent`), (error) => error.code === 404);
  await back;
  assert.equal(setups, 3);
  await publish(2000);
  await want(2000);
}

async function remove() {
  await wrapper.cancelAll();
  assert.equal((await wrapper.deleteQueue(queue)).messageCount, 0);
  await wrapper.deleteExchange(exchange);
  await manager.close();
}

await walk('amqp-connection-manager', [
  ['connect', connect], ['setup', setup], ['publish-confirm', publishConfirm], ['consume-ack', consumeAck],
  ['restart', restart], ['channel-error', channelError], ['delete', remove],
]);
