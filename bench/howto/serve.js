// A page for each request: what a small service does with JSON and buffers. The port is its argument.
'use strict';
const http = require('http');
const zlib = require('zlib');

const server = http.createServer((request, response) => {
  const rows = Array.from({ length: 100 }, (_, i) => ({ id: i, name: 'name ' + i, half: i / 2 }));
  const body = zlib.gzipSync(Buffer.from(JSON.stringify(rows)));
  response.writeHead(200, { 'Content-Encoding': 'gzip', 'Content-Length': body.length });
  response.end(body);
});
server.listen(Number(process.argv[2]), '127.0.0.1');
// Ended by a signal as it is, it would not write hakmem's statistics.
process.on('SIGTERM', () => process.exit(0));
