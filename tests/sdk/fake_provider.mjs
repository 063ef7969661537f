// A provider of large language models that answers like the real ones and keeps limits nobody told
// the caller: OpenAI (chat, responses, embeddings), Azure OpenAI, Anthropic and Gemini, plain and
// streaming, on one loopback port; which one it is follows from the path.
//
//   const provider = await FakeProvider.start({ limits: { openai: { requests: 60 } } });
//   provider.url, provider.counts, provider.requests, provider.set({ ... }), await provider.close()
//
//   node fake_provider.mjs [--port N] [--config JSON]     prints {"port":N}; then over HTTP:
//   GET /__counts    what it served and refused
//   POST /__set      changes settings; the counts begin anew
import http from 'node:http';
import { pathToFileURL } from 'node:url';

import * as anthropic from './fake/anthropic.mjs';
import * as gemini from './fake/gemini.mjs';
import { Pool } from './fake/limits.mjs';
import * as openai from './fake/openai.mjs';
import { pieces } from './fake/text.mjs';

const kDefaults = {
  minute_ms: 60_000, // how long the provider's minute lasts
  limits: {}, // {openai: {requests, tokens}, azure: the same,
  //            anthropic: {requests, input_tokens, output_tokens},
  //            gemini: {requests, tokens, requests_per_day}}: per model; a number, which a minute
  //            earns and a bucket holds, or {amount, burst}
  rate_headers: true, // tell limits and what is left in headers
  retry_after: 'seconds', // how a 429 says when: seconds, ms, both, date, none
  key: null, // the only key that is let in; null: any
  before_answer: null, // a function of the call, awaited once it is admitted
  latency_ms: 0, // before the first byte
  token_ms: 0, // for each token of an answer
  event_ms: 0, // after each event of a stream
  after_event: null, // a function of the call, awaited then
  output_tokens: null, // length of answers; null: max_tokens, or 16
  most_events: 64, // content events of a stream at most
  cached_tokens: 0, // of each input
  cache_creation_tokens: 0, // of each input, Anthropic
  flavour: 'openai', // how a chat stream tells usage: openai, mistral, groq
  // What happens to the next calls, one entry a call: {fault: one of limited, exhausted,
  // overloaded, broken, forbidden}, with retry_after_s; {status, headers, body}; or {in_stream:
  // error or cut, after_events: N}; null lets a call be.
  next: [],
  record: true, // keep `requests`
};

const dialects = { openai, azure: openai, anthropic, gemini };
const kMostRecords = 10_000;
const kForbidden =
  '<!DOCTYPE html><html><head><title>Attention Required! | Cloudflare</title></head>' +
  '<body><h1>Sorry, you have been blocked</h1></body></html>';

const no_counts = () => ({
  received: 0, // calls that arrived
  served: 0, // answered in full
  limited: 0, // refused by a limit, or told so
  failed: 0, // any other status of 400 or more
  cut: 0, // streams that ended early by our doing
  abandoned: 0, // clients that went away before the end
  early: 0, // calls that came before a Retry-After had passed
  most_at_once: 0,
  input_tokens: 0,
  output_tokens: 0,
});

const sleep = (ms) => (ms > 0 ? new Promise((done) => setTimeout(done, ms)) : undefined);

async function read_body(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return Buffer.concat(parts);
}

export class FakeProvider {
  static async start({ port = 0, ...settings } = {}) {
    const provider = new FakeProvider(settings);
    await new Promise((listening) => provider.server.listen(port, '127.0.0.1', listening));
    provider.port = provider.server.address().port;
    provider.url = `http://127.0.0.1:${provider.port}`;
    return provider;
  }

  constructor(settings) {
    this.settings = structuredClone(kDefaults);
    this.at_once = 0;
    this.serial = 0;
    this.set(settings);
    this.server = http.createServer((request, response) => {
      this.serve(request, response).catch((error) => response.destroy(error));
    });
    this.server.keepAliveTimeout = 60_000;
  }

  // Settings that are not named stay; limits and counts begin anew.
  set(settings) {
    for (const name of Object.keys(settings)) {
      if (!(name in kDefaults)) throw new Error(`the fake provider has no setting '${name}'`);
    }
    Object.assign(this.settings, settings);
    this.settings.next = [...this.settings.next];
    this.pools = new Map();
    this.counts = no_counts();
    // One for each call: {provider, api, model, path, query, headers, raw, body, at, answered_at,
    // status, events, finished, abandoned_at, retry_at}; instants on performance.now().
    this.requests = [];
    this.retry_at = 0;
  }

  async close() {
    this.server.closeAllConnections();
    await new Promise((closed) => this.server.close(closed));
  }

  async serve(request, response) {
    const url = new URL(request.url, 'http://fake');
    const raw = await read_body(request);
    if (url.pathname === '/__counts') return reply(response, { status: 200, body: this.counts });
    if (url.pathname === '/__set') {
      this.set(JSON.parse(raw));
      return reply(response, { status: 200, body: {} });
    }
    const call = this.call_of(request, url, raw);
    const late = () => {
      if (call.finished) return;
      call.abandoned_at = performance.now();
      ++this.counts.abandoned;
    };
    response.on('close', late);
    this.counts.most_at_once = Math.max(this.counts.most_at_once, ++this.at_once);
    try {
      await this.answer(call, response);
    } finally {
      --this.at_once;
    }
  }

  call_of(request, url, raw) {
    const now = performance.now();
    const path = url.pathname;
    const found = [openai, anthropic, gemini]
      .map((dialect) => dialect.recognise(request.method, path))
      .find((match) => match) ?? { provider: 'openai', api: 'unknown' };
    let body = null;
    try {
      body = JSON.parse(raw);
    } catch {
      // answered below
    }
    const dialect = dialects[found.provider];
    const facts = body && found.api !== 'unknown' ? dialect.read(found, body) : {};
    const request_id = `req_${String(++this.serial).padStart(12, '0')}`;
    const call = { ...found, ...facts, path, query: url.searchParams, request_id, raw, body };
    Object.assign(call, { method: request.method, headers: request.headers, at: now });
    Object.assign(call, { dialect, events: 0, finished: false });
    const { settings } = this;
    call.cached_tokens = Math.min(settings.cached_tokens, call.input_tokens ?? 0);
    call.cache_creation_tokens = settings.cache_creation_tokens;
    call.charged_input = (call.input_tokens ?? 0) - call.cached_tokens;
    const generates = !['embeddings', 'count_tokens', 'countTokens'].includes(call.api);
    call.per_choice = Math.min(
      settings.output_tokens ?? call.max_output ?? 16,
      call.max_output ?? Infinity,
    );
    call.output_tokens = generates ? call.per_choice * (call.n ?? 1) : 0;
    call.finish = call.per_choice === call.max_output ? 'length' : 'stop';
    call.pieces = pieces(call.per_choice, settings.most_events);
    ++this.counts.received;
    if (now < this.retry_at) ++this.counts.early;
    if (settings.record && this.requests.length < kMostRecords) this.requests.push(call);
    return call;
  }

  async answer(call, response) {
    const { settings } = this;
    const { failures, key_of } = call.dialect;
    const fault = settings.next.shift() ?? {};
    const pool = this.pool_of(call);
    let now = call.at; // of limits and headers alike: between two instants a bucket may earn
    const fail = ({ status, body }, more = {}) => {
      ++this.counts[status === 429 ? 'limited' : 'failed'];
      const headers = { ...this.headers(call, pool, now), ...more };
      this.finish(call, response, { status, headers, body });
    };
    if (call.api === 'unknown') return fail(failures.unknown(call));
    if (call.body === null) return fail(failures.malformed(call));
    if (settings.key !== null && key_of(call.headers, call.query) !== settings.key) {
      return fail(failures.key(call));
    }
    if (fault.status) return fail({ status: fault.status, body: fault.body ?? {} }, fault.headers);
    if (fault.fault === 'forbidden') {
      return fail({ status: 403, body: kForbidden }, { 'content-type': 'text/html' });
    }
    if (fault.fault === 'limited') return this.limit(call, fault, fail);
    if (fault.fault) return fail(failures[fault.fault](call));
    const refusal = pool?.refuses(call, now);
    if (refusal) return this.limit(call, refusal, fail);

    const token_ms = call.stream ? 0 : settings.token_ms;
    const latency_ms = settings.latency_ms + token_ms * call.output_tokens;
    if (settings.before_answer || latency_ms > 0) {
      await settings.before_answer?.(call);
      await sleep(latency_ms);
      now = performance.now();
    }
    if (response.destroyed) return;
    pool?.generated(call, call.output_tokens, now);
    const headers = this.headers(call, pool, now);
    if (!call.stream) {
      const body = call.dialect.answer(call);
      this.served(call);
      return this.finish(call, response, { status: 200, body, headers });
    }
    await this.stream(call, response, headers, fault);
  }

  async stream(call, response, headers, fault) {
    const { settings } = this;
    const array = call.provider === 'gemini' && call.query.get('alt') !== 'sse';
    call.status = 200;
    response.writeHead(200, {
      'content-type': array ? 'application/json' : 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache',
      ...headers,
    });
    const gap = settings.event_ms + (settings.token_ms * call.output_tokens) / call.pieces.length;
    for (const event of call.dialect.events(call, settings)) {
      if (fault.in_stream && call.events >= (fault.after_events ?? 3)) {
        ++this.counts.cut;
        call.finished = true;
        if (fault.in_stream === 'error') return response.end(call.dialect.error_event(call));
        await sleep(20); // what was written is on its way
        return response.destroy();
      }
      if (response.destroyed) return;
      if (!response.write(event)) await this.drained(response);
      ++call.events;
      await sleep(gap);
      await settings.after_event?.(call);
    }
    if (response.destroyed) return;
    this.served(call);
    call.finished = true;
    response.end();
  }

  drained(response) {
    return new Promise((done) => {
      response.once('drain', done);
      response.once('close', done);
    });
  }

  limit(call, { retry_after_s, ...refusal }, fail) {
    const wait_ms = retry_after_s !== undefined ? retry_after_s * 1000 : refusal.wait_ms;
    const told = { unit: 'requests', amount: 1, requested: 1, left: 0, ...refusal, wait_ms };
    const how = this.settings.retry_after;
    const headers = {};
    let retry_in = wait_ms; // as told
    if (call.provider !== 'gemini' && Number.isFinite(wait_ms)) {
      const seconds = Math.max(1, Math.ceil(wait_ms / 1000));
      if (how === 'seconds' || how === 'both') headers['retry-after'] = seconds;
      if (how === 'ms' || how === 'both') headers['retry-after-ms'] = Math.ceil(wait_ms);
      if (how === 'seconds') retry_in = seconds * 1000;
      if (how === 'date') {
        const date = Math.ceil((Date.now() + wait_ms) / 1000) * 1000;
        headers['retry-after'] = new Date(date).toUTCString();
        retry_in = date - Date.now() - 1; // which may be a millisecond behind
      }
      if (how === 'none') retry_in = 0;
    }
    call.retry_at = call.at + retry_in;
    if (Number.isFinite(retry_in)) this.retry_at = Math.max(this.retry_at, call.retry_at);
    fail(call.dialect.failures.limited(call, told), headers);
  }

  served(call) {
    ++this.counts.served;
    this.counts.input_tokens += call.input_tokens;
    this.counts.output_tokens += call.output_tokens;
  }

  finish(call, response, { status, headers, body }) {
    call.status = status;
    call.finished = true;
    call.answered_at = performance.now();
    reply(response, { status, headers, body });
  }

  pool_of(call) {
    const limits = this.settings.limits[call.provider];
    if (!limits || !call.model) return null;
    const key = `${call.provider} ${call.model}`;
    if (!this.pools.has(key)) {
      this.pools.set(key, new Pool(call.provider, limits, this.settings.minute_ms));
    }
    return this.pools.get(key);
  }

  // Headers speak of real minutes, however long ours is.
  headers(call, pool, now) {
    const told = (this.settings.rate_headers && pool?.limits) || [];
    const limits = told.map(({ unit, amount, algorithm }) => ({
      unit,
      per_minute: Math.round((amount * 60_000) / this.settings.minute_ms),
      left: algorithm.left(now),
      full_in: algorithm.full_in(now),
    }));
    return call.dialect.headers(call, this.settings, limits);
  }
}

function reply(response, { status, headers = {}, body }) {
  const text = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': text.length,
    ...headers,
  });
  response.end(text);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const option = (name, otherwise) => {
    const at = process.argv.indexOf(name);
    return at < 0 ? otherwise : process.argv[at + 1];
  };
  const settings = JSON.parse(option('--config', '{"record":false}'));
  const provider = await FakeProvider.start({ port: Number(option('--port', 0)), ...settings });
  console.log(JSON.stringify({ port: provider.port }));
}
