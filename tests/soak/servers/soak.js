// A server under soak that works in native memory: buffers, zlib and hashing in
// worker threads, each of which is an engine of its own and is replaced after
// some requests. Buffers move from thread to thread. It speaks as soak_threads
// does.
//
// SPDX-License-Identifier: MIT
'use strict';
const { Worker, isMainThread, parentPort } = require('worker_threads');
const crypto = require('crypto');
const net = require('net');
const zlib = require('zlib');

const WORKERS = 2, REQUESTS_OF_A_WORKER = 300, PLACES = 600;

// A buffer whose bytes all follow from its first.
function make() {
  const buffer = Buffer.allocUnsafeSlow(16 + Math.floor(2 ** (4 + 14 * Math.random())));
  return buffer.fill(Math.floor(Math.random() * 256));
}

function check(buffer) {
  if (buffer.length > 0 && !buffer.equals(Buffer.alloc(buffer.length, buffer[0])))
    throw new Error('a buffer is not what its owner left in it');
}

class Shelf {
  constructor() { this.places = []; }
  put(buffer) {
    const place = Math.floor(Math.random() * PLACES);
    if (this.places[place]) check(this.places[place]);
    this.places[place] = buffer;
  }
  clear() {
    this.places.forEach(check);
    this.places = [];
  }
}

function hashed(seed) {
  let state = seed + 1;
  const draw = (n) => (state = (state * 48271) % 2147483647) % n;
  const rows = Array.from({ length: 200 },
    (_, i) => ({ i, name: 'n' + draw(1000), tags: Array(draw(6)).fill(draw(9)) }));
  const text = JSON.stringify(JSON.parse(JSON.stringify(rows)));
  const packed = zlib.deflateSync(Buffer.from(text));
  return crypto.createHash('md5').update(zlib.inflateSync(packed)).digest('hex');
}

function work(shelf, seed) {
  for (let i = 0; i < 30; i++) shelf.put(make());
  // The receiver owns the memory of what moves to it.
  const gift = make();
  return { text: 'ok ' + hashed(seed), gift: gift.buffer };
}

function runWorker() {
  const shelf = new Shelf();
  parentPort.on('message', ({ id, request }) => {
    let answer;
    try {
      if (request.startsWith('work ')) {
        answer = work(shelf, Number(request.slice(5)));
      } else {
        shelf.clear();
        global.gc();
        answer = { text: 'ok 0' };
      }
    } catch (error) {
      const refused = error instanceof RangeError || error.code === 'ERR_MEMORY_ALLOCATION_FAILED';
      answer = { text: refused ? 'refused' : 'damaged ' + error.message };
    }
    parentPort.postMessage({ id, ...answer }, answer.gift ? [answer.gift] : []);
  });
}

function runServer(path) {
  const waiting = new Map(), shelf = new Shelf(), workers = [];
  let nextId = 0;

  function hire(place) {
    const worker = new Worker(__filename);
    const entry = workers[place] = { worker, begun: 0, open: 0 };
    worker.on('message', ({ id, text, gift }) => {
      if (gift) shelf.put(Buffer.from(gift));
      waiting.get(id)(text);
      waiting.delete(id);
      if (--entry.open === 0 && workers[place] !== entry) worker.terminate();
    });
    return entry;
  }
  function ask(place, request) {
    let entry = workers[place];
    if (entry.begun++ >= REQUESTS_OF_A_WORKER) {
      if (entry.open === 0) entry.worker.terminate();
      entry = hire(place);
    }
    entry.open++;
    const id = nextId++;
    return new Promise((resolve) => {
      waiting.set(id, resolve);
      entry.worker.postMessage({ id, request });
    });
  }
  async function answer(request) {
    if (request === 'quit') process.exit(0);
    if (request !== 'drop') return ask(nextId % WORKERS, request);
    shelf.clear();
    global.gc();
    const texts = await Promise.all(workers.map((_, place) => ask(place, request)));
    return texts.find((text) => text !== 'ok 0') || 'ok 0';
  }

  for (let place = 0; place < WORKERS; place++) hire(place);
  net.createServer((connection) => {
    let pending = '', last = Promise.resolve();
    connection.on('error', () => {});
    connection.on('data', (data) => {
      const lines = (pending + data).split('\n');
      pending = lines.pop();
      for (const line of lines)
        last = last.then(() => answer(line)).then((text) => connection.writable && connection.write(text + '\n'));
    });
  }).listen(path);
}

if (isMainThread) runServer(process.argv[2]);
else runWorker();
