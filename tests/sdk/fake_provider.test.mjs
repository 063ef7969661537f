// The fake provider is honest: its limits hold, and it tells them as the real ones do.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import test from 'node:test';

import { Bucket, FixedWindow, Pool, SlidingLog } from './fake/limits.mjs';
import { go_duration } from './fake/text.mjs';
import { FakeProvider, anthropic, chat, error_of, eventually, gemini } from './harness.mjs';
import { message, models, openai, parallel } from './harness.mjs';

// Rows of {at, cost, wait}: what does not wait is taken.
function timeline(limit, rows) {
  for (const [at, cost, wait] of rows) {
    assert.equal(Math.round(limit.wait(cost, at)), wait, `at ${at} for ${cost}`);
    if (wait === 0) limit.take(cost, at);
  }
}

test('a bucket earns continuously and holds its burst', () => {
  timeline(new Bucket({ amount: 60, burst: 2, period_ms: 60_000 }, 0), [
    [0, 2, 0], [0, 1, 1000], [400, 1, 600], [1000, 1, 0], [9000, 2, 0], [9000, 3, Infinity],
  ]);
});

test('a quantised bucket earns in steps', () => {
  timeline(new Bucket({ amount: 60, burst: 2, period_ms: 60_000, step_ms: 1000 }, 0), [
    [500, 2, 0], [999, 1, 1], [1000, 1, 0], [1500, 1, 500], [2000, 1, 0],
  ]);
});

test('a window begins on its own clock and forgets at its end', () => {
  timeline(new FixedWindow({ amount: 3, period_ms: 1000 }), [
    [900, 3, 0], [950, 1, 50], [1000, 3, 0], [1000, 4, Infinity],
  ]);
});

test('a sliding log admits its amount in every period', () => {
  timeline(new SlidingLog({ amount: 3, period_ms: 1000 }), [
    [0, 1, 0], [500, 2, 0], [600, 1, 400], [600, 2, 900], [1000, 1, 0], [1400, 1, 100],
  ]);
});

test('a refused call counts as a request, and spends no tokens', () => {
  const pool = new Pool('openai', { requests: 3, tokens: 100 }, 60_000);
  const call = (max_output) => ({ max_output, input_tokens: 10, n: 1 });
  assert.equal(pool.refuses(call(90), 0), null);
  assert.equal(pool.refuses(call(20), 0).unit, 'tokens');
  assert.equal(pool.refuses(call(5), 0), null);
  assert.equal(pool.refuses(call(5), 0).unit, 'requests');
});

test('durations are written as Go writes them', () => {
  const written = [0.4, 12, 1500, 360_000, 179_560].map(go_duration);
  assert.deepEqual(written, ['1ms', '12ms', '1.5s', '6m0s', '2m59.56s']);
});

async function provider(t, settings) {
  const fake = await FakeProvider.start(settings);
  t.after(() => fake.close());
  return fake;
}

test('OpenAI refuses with its headers and its body', async (t) => {
  const limits = { openai: { requests: 100, tokens: 1000 } };
  const fake = await provider(t, { limits, retry_after: 'both' });
  const { response } = await chat(openai(fake.url), { max_tokens: 900 }).withResponse();
  assert.equal(response.headers.get('x-ratelimit-limit-tokens'), '1000');
  assert.equal(response.headers.get('x-ratelimit-remaining-tokens'), '100');
  assert.match(response.headers.get('x-ratelimit-reset-tokens'), /^5[34](\.\d+)?s$/);
  const error = await error_of(chat(openai(fake.url), { max_tokens: 200 }));
  assert.ok(error instanceof openai(fake.url).constructor.RateLimitError);
  assert.equal(error.code, 'rate_limit_exceeded');
  assert.equal(error.type, 'tokens');
  assert.ok(Number(error.headers.get('retry-after-ms')) <= 6000);
  assert.deepEqual([fake.counts.served, fake.counts.limited], [1, 1]);
});

test('Anthropic counts what is generated, not max_tokens', async (t) => {
  const limits = { anthropic: { requests: 100, input_tokens: 10_000, output_tokens: 50 } };
  const fake = await provider(t, { limits, output_tokens: 30 });
  const client = anthropic(fake.url);
  const started = performance.now();
  await message(client, { max_tokens: 20_000 });
  await message(client, { max_tokens: 20_000 });
  const error = await error_of(message(client, { max_tokens: 20_000 }));
  assert.equal(error.error.error.type, 'rate_limit_error');
  const wait = Number(error.headers.get('retry-after'));
  const passed = (performance.now() - started) / 1000;
  const due = 13.2; // 60 of 50 spent, one must be there
  assert.ok(wait <= Math.ceil(due) && wait >= Math.ceil(due - passed), `${wait} s`);
  assert.equal(error.headers.get('anthropic-ratelimit-output-tokens-remaining'), '0');
});

test('Azure forgets at the end of its minute', async (t) => {
  const fake = await provider(t, { minute_ms: 500, limits: { azure: { tokens: 100 } } });
  const url = `${fake.url}/openai/deployments/mine/chat/completions?api-version=2024-06-01`;
  const body = JSON.stringify({ messages: [{ role: 'user', content: 'hi' }], max_tokens: 60 });
  const ask = async () => (await fetch(url, { method: 'POST', body })).status;
  await eventually(async () => (await ask()) === 429, 'a refusal');
  await eventually(async () => (await ask()) === 200, 'the next minute');
});

test('Gemini says which quota was passed and when to come back', async (t) => {
  const fake = await provider(t, { limits: { gemini: { requests: 1, requests_per_day: 5 } } });
  const ask = { model: models.gemini, contents: 'hi' };
  const started = performance.now();
  await gemini(fake.url).models.generateContent(ask);
  const error = await error_of(gemini(fake.url).models.generateContent(ask));
  const told = /RESOURCE_EXHAUSTED.*PerMinute.*"retryDelay":"([\d.]+)s"/.exec(error.message);
  assert.ok(told, error.message);
  const wait = Number(told[1]);
  const passed = (performance.now() - started) / 1000;
  assert.ok(wait <= 60 && wait >= 60 - passed, `${wait} s`);
});

test('it stands alone, is set and counts over HTTP', async (t) => {
  const settings = JSON.stringify({ record: false, output_tokens: 2 });
  const program = new URL('fake_provider.mjs', import.meta.url).pathname;
  const child = spawn(process.execPath, [program, '--port', '0', '--config', settings]);
  t.after(() => child.kill());
  const [line] = await once(child.stdout, 'data');
  const url = `http://127.0.0.1:${JSON.parse(line).port}`;
  await chat(openai(url));
  const counts = async () => (await fetch(`${url}/__counts`)).json();
  const { served, output_tokens } = await counts();
  assert.deepEqual([served, output_tokens], [1, 2]);
  const body = JSON.stringify({ limits: { openai: { requests: 1 } } });
  assert.equal((await fetch(`${url}/__set`, { method: 'POST', body })).status, 200);
  await parallel(3, () => chat(openai(url)));
  const { served: again, limited } = await counts();
  assert.deepEqual([again, limited], [1, 2]);
});
