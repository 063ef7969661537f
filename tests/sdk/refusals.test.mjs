// What Weir itself answers, in each provider's own shape, so that SDKs raise what they always do.
import assert from 'node:assert/strict';
import test from 'node:test';

import * as h from './harness.mjs';

const gemini_chat = (client, max = 10) =>
  client.models.generateContent({
    model: h.models.gemini,
    contents: 'abc '.repeat(max),
  });

test('openai: what can never fit is a BadRequestError at once', async (t) => {
  const limits = [{ unit: 'tokens', amount: 100, per: '1m' }];
  const { fake, url } = await h.behind_weir(t, 'openai', { limits });
  for (const stream of [false, true]) {
    const error = await h.error_of(h.chat(h.openai(url), { max_tokens: 101, stream }));
    assert.ok(error instanceof h.OpenAI.BadRequestError);
    assert.equal(error.type, 'invalid_request_error');
    assert.equal(typeof error.error.message, 'string');
    assert.match(error.error.message, /tokens per 1m/);
  }
  assert.equal(fake.counts.received, 0);
});

test('anthropic: what can never fit is a BadRequestError at once', async (t) => {
  const limits = [{ unit: 'input_tokens', amount: 100, per: '1m' }];
  const { fake, url } = await h.behind_weir(t, 'anthropic', { limits });
  const messages = h.question('the water is high '.repeat(200));
  const error = await h.error_of(h.message(h.anthropic(url), { messages }));
  assert.ok(error instanceof h.Anthropic.BadRequestError);
  assert.equal(error.error.type, 'error');
  assert.equal(error.error.error.type, 'invalid_request_error');
  assert.equal(fake.counts.received, 0);
});

test('gemini: what can never fit is an INVALID_ARGUMENT at once', async (t) => {
  const limits = [{ unit: 'tokens', amount: 100, per: '1m' }];
  const { fake, url } = await h.behind_weir(t, 'gemini', { limits });
  const error = await h.error_of(gemini_chat(h.gemini(url), 1000));
  assert.equal(error.name, 'ClientError');
  assert.match(error.message, /"code":400/);
  assert.match(error.message, /INVALID_ARGUMENT/);
  assert.equal(fake.counts.received, 0);
});

const spent = {
  prices: { '*': { input: 1, output: 100 } },
  budget: h.budget(0.0015),
  max_wait: '1ms',
};

test('openai: a budget that is spent is a RateLimitError that says so', async (t) => {
  const { fake, url } = await h.behind_weir(t, 'openai', spent);
  await h.chat(h.openai(url));
  const error = await h.error_of(h.chat(h.openai(url)));
  assert.ok(error instanceof h.OpenAI.RateLimitError);
  assert.match(error.message, /budget/);
  assert.ok(Number(error.headers.get('retry-after')) >= 1);
  assert.ok(Number(error.headers.get('retry-after-ms')) >= 1);
  assert.equal(fake.counts.received, 1);
});

test('anthropic: a budget that is spent is a RateLimitError that says so', async (t) => {
  const { fake, url } = await h.behind_weir(t, 'anthropic', spent);
  await h.message(h.anthropic(url));
  const error = await h.error_of(h.message(h.anthropic(url)));
  assert.ok(error instanceof h.Anthropic.RateLimitError);
  assert.equal(error.error.error.type, 'rate_limit_error');
  assert.match(error.error.error.message, /budget/);
  assert.equal(fake.counts.received, 1);
});

test('gemini: a refusal is RESOURCE_EXHAUSTED with a RetryInfo', async (t) => {
  const limits = [{ unit: 'requests', amount: 1, per: '1h' }];
  const { fake, url } = await h.behind_weir(t, 'gemini', { limits, max_wait: '1ms' });
  await gemini_chat(h.gemini(url));
  const error = await h.error_of(gemini_chat(h.gemini(url)));
  assert.equal(error.name, 'ClientError');
  assert.match(error.message, /RESOURCE_EXHAUSTED.*RetryInfo.*"retryDelay":"[\d.]+s"/s);
  assert.equal(fake.counts.received, 1);
});

test("the SDK's own retries obey a refusal's Retry-After", async (t) => {
  const limits = [{ unit: 'requests', amount: 1, per: '1s', burst: 1 }];
  const { fake, url } = await h.behind_weir(t, 'openai', { limits, max_wait: '1ms' });
  const client = h.openai(url, { maxRetries: 5 });
  const started = performance.now();
  await h.chat(client);
  await h.chat(client);
  assert.equal(fake.counts.served, 2);
  assert.ok(fake.requests[1].at - started >= 950);
});

test('an unreachable provider is a 502 that the SDK knows as an error of a server', async (t) => {
  const { fake, url } = await h.behind_weir(t, 'openai');
  await fake.close();
  const error = await h.error_of(h.chat(h.openai(url)));
  assert.ok(error instanceof h.OpenAI.InternalServerError);
  assert.equal(error.status, 502);
  assert.equal(typeof error.error.message, 'string');
});

test('a provider that nobody configured is not found', async (t) => {
  const { weir } = await h.behind_weir(t, 'openai');
  const answer = await fetch(`${weir.url}/proxy/elsewhere/v1/models`);
  assert.equal(answer.status, 404);
  assert.equal((await answer.json()).error, 'resource_unknown');
});

test('no key of the file is in the log, the status, the metrics or an error', async (t) => {
  const { weir, url } = await h.behind_weir(t, 'openai', spent);
  await h.chat(h.openai(url));
  const error = await h.error_of(h.chat(h.openai(url)));
  const pages = ['/api/status', '/v1/resources/openai', '/metrics', '/healthz'];
  const texts = await Promise.all(
    pages.map(async (path) => (await fetch(weir.url + path)).text()),
  );
  const all = [...texts, ...weir.log, error.message, JSON.stringify([...error.headers])].join();
  assert.ok(!all.includes(h.kKey));
  assert.ok(!all.includes(h.kDummy));
});
