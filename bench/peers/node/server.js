// The Node peer of bench/run daemon: rate-limiter-flexible in memory behind node:http.
//
// Run as `server.js PORT`. Any POST with {"resource":NAME} is answered as by POST /v1/acquire.
'use strict';

const http = require('node:http');
const { RateLimiterMemory } = require('rate-limiter-flexible');

const limiter = new RateLimiterMemory({ points: 1e9, duration: 1 });

function answer(response, status, body) {
  const text = JSON.stringify(body);
  response.writeHead(status, {
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(text),
  });
  response.end(text);
}

http.createServer((request, response) => {
  let body = '';
  request.setEncoding('utf8');
  request.on('data', (piece) => { body += piece; });
  request.on('end', async () => {
    let resource;
    try {
      ({ resource } = JSON.parse(body));
    } catch (error) {
      return answer(response, 400, { error: 'invalid_request', message: error.message });
    }
    try {
      await limiter.consume(resource);
      answer(response, 200, { permit: null, waited_ms: 0 });
    } catch (refusal) {
      answer(response, 429, { error: 'rate_limited', retry_after_ms: refusal.msBeforeNext });
    }
  });
}).listen(Number(process.argv[2]), '127.0.0.1');
