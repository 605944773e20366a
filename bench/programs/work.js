// Buffers, compression, hashes and JSON, as a server does: node work.js REQUESTS
// SPDX-License-Identifier: MIT
'use strict';
const crypto = require('node:crypto');
const zlib = require('node:zlib');

const requests = Number(process.argv[2]);
let state = 1;
const random = (n) => {
  state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
  return (state >>> 8) % n;
};

const sessions = new Map();
const digest = crypto.createHash('sha256');
let bytes = 0;
for (let number = 0; number < requests; number++) {
  const items = Array.from({ length: 10 + random(60) }, (_, i) => ({ id: number * 100 + i, name: `item ${random(1000)}`, price: random(10000) / 100 }));
  const body = Buffer.from(JSON.stringify({ number, items }));
  const packed = zlib.deflateSync(body, { level: 1 });
  const parsed = JSON.parse(zlib.inflateSync(packed).toString());
  const page = Buffer.alloc(1024 + random(64 * 1024), number & 0xff); // outside of JavaScript's own heap
  bytes += page.length + packed.length + parsed.items.length;
  digest.update(crypto.createHash('md5').update(body).digest());
  const session = `session ${random(300)}`;
  sessions.set(session, { page, packed });
  if (number % 16 === 0) sessions.delete(`session ${random(300)}`);
}
console.log(sessions.size, bytes, digest.digest('hex'));
