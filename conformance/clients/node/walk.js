// What the Node programs share: the driver's contract, test bodies and waits.
//
// The contract is in the README one folder up: AMQP_URI, COMPAT and RESTART come
// from the environment, one line is printed a step, the first failure ends the
// program.

import { exec } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';

// Bounds each wait for something the broker is to send; milliseconds.
export const PATIENCE = 30000;
export const MIB = 1 << 20;

export const { AMQP_URI: URI, COMPAT, RESTART } = process.env;
if (!URI || !RESTART || !['3', '4'].includes(COMPAT)) {
  throw new Error('AMQP_URI, RESTART and COMPAT (3 or 4) must be set');
}

// A name for this run's queues and exchanges that no other run uses.
export function prefix(client) {
  return `clients.${client}.${process.pid}.${Date.now()}`;
}

// A body that differs from itself at each shift up to 251 bytes.
export function pattern(size) {
  return Buffer.alloc(size, Buffer.from(Array.from({ length: 251 }, (_, i) => i)));
}

// Blocks the caller, not the event loop, until the broker has gone and come back.
export function restartBroker() {
  return promisify(exec)(RESTART, { timeout: 100000 });
}

// Fails unless the promise settles in time.
export async function soon(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no ${what} in ${PATIENCE} ms`)), PATIENCE);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

// The first argument of an emitter's next event. Unlike events.once this does not
// reject for an error event: a connection that breaks emits one before its close.
export function event(emitter, name) {
  return soon(new Promise((resolve) => emitter.once(name, resolve)), `event ${name}`);
}

// Deliveries in the order they came, taken one at a time.
export class Inbox {
  #ready = [];
  #waiting = [];

  // Hand this to a consume call. A null message is the broker's cancel.
  put = (message) => {
    const taker = this.#waiting.shift();
    if (taker) taker(message);
    else this.#ready.push(message);
  };

  take() {
    if (this.#ready.length > 0) return Promise.resolve(this.#ready.shift());
    return soon(new Promise((resolve) => this.#waiting.push(resolve)), 'delivery');
  }
}

function version(name) {
  const file = new URL(`./node_modules/${name}/package.json`, import.meta.url);
  return JSON.parse(readFileSync(file, 'utf8')).version;
}

// Takes [name, function] pairs in order and ends the process.
export async function walk(name, steps) {
  console.log('client', name, version(name));
  for (const [step, take] of steps) {
    try {
      await take();
    } catch (error) {
      console.log(`FAIL ${step}: ${String(error).replace(/\s+/g, ' ')}`);
      console.error(error);
      process.exit(1);
    }
    console.log('ok', step);
  }
  process.exit(0);
}
