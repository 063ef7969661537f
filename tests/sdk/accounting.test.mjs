// What is charged before a call, and what it is settled on: never over, never twice, never lost.
import assert from 'node:assert/strict';
import test from 'node:test';

import * as h from './harness.mjs';

// A limit that earns nothing while a test runs, so that what is left of it is what was settled.
const daily = (unit, amount) => ({
  unit,
  amount,
  per: '1d',
  algorithm: 'fixed_window',
  name: unit,
});
const at_once = { max_wait: '1ms' }; // who would have to wait is refused
const for_ever = () => new Promise(() => {});
const text = (tokens) => h.question('abc '.repeat(tokens).trim());

// pain 1: litellm#18730
test('concurrent calls do not pass a limit on tokens', async (t) => {
  const config = { limits: [daily('tokens', 1000)], ...at_once };
  const { fake, url } = await h.behind_weir(t, 'openai', config, { latency_ms: 50 });
  const client = h.openai(url);
  const results = h.outcomes(await h.parallel(50, () => h.chat(client, { max_tokens: 100 })));
  assert.deepEqual(results, { served: 10, refused: 40, others: [] });
  assert.equal(fake.counts.received, 10);
});

// Output costs $100 a million, input a dollar: a call of 10 tokens costs about a tenth of a cent.
const prices = { '*': { input: 1, output: 100 } };
const spent = (fake) =>
  fake.requests
    .filter(({ status }) => status === 200)
    .reduce((sum, call) => sum + call.input_tokens * 1e-6 + call.output_tokens * 1e-4, 0);

// pain 2: litellm#34732, pain 3: litellm#40095
test('the first calls of an agent, all at once, do not pass its budget', async (t) => {
  const config = { prices, agents: { default: { budget: h.budget(0.01) } }, ...at_once };
  const { fake, url } = await h.behind_weir(t, 'openai', config, { latency_ms: 50 });
  const client = h.openai(url);
  for (const agent of ['planner', 'coder']) {
    fake.set({});
    const headers = { 'x-weir-agent': agent };
    const results = h.outcomes(await h.parallel(20, () => h.chat(client, {}, { headers })));
    assert.deepEqual(results.others, []);
    assert.ok(spent(fake) <= 0.01, `$${spent(fake)}`);
    assert.ok(results.served >= 8, `${results.served} served`);
  }
});

// pain 4: litellm#26672
test('a daily budget holds through wave after wave, and is settled on what was used', async (t) => {
  const config = { prices, budget: h.budget(0.03), ...at_once };
  const { fake, weir, url } = await h.behind_weir(t, 'openai', config, { latency_ms: 10 });
  const client = h.openai(url);
  for (let wave = 0; wave < 6; ++wave) {
    const results = h.outcomes(await h.parallel(10, () => h.chat(client)));
    assert.deepEqual(results.others, []);
  }
  assert.ok(spent(fake) <= 0.03 && spent(fake) >= 0.025, `$${spent(fake)}`);
  const left = 0.03 - spent(fake);
  await h.eventually(
    async () => Math.abs((await weir.left('openai', 'budget')) - left) < 1e-6 * 30,
    `$${left} left`,
  );
});

test('a budget outlives kill -9', async (t) => {
  const fake = await h.FakeProvider.start();
  t.after(() => fake.close());
  const file = h.provider_file('openai', fake, { prices, budget: h.budget(0.01), ...at_once });
  const store = `${await h.temporary_directory(t)}/weir.db`;
  const args = ['--durability', 'exact', '--store', store];
  const first = await h.Weir.start(t, [file], args);
  await h.parallel(4, () => h.chat(h.openai(`${first.url}/proxy/openai`)));
  await first.stop('SIGKILL');
  const second = await h.Weir.start(t, [file], args);
  await h.parallel(20, () => h.chat(h.openai(`${second.url}/proxy/openai`)));
  assert.ok(fake.counts.served >= 4);
  assert.ok(spent(fake) <= 0.01, `$${spent(fake)}`);
});

// pain 5: litellm#39309
test('a call refused for want of a slot spends no request', async (t) => {
  const config = { max_concurrency: 1, limits: [daily('requests', 10)], ...at_once };
  let release;
  const held = new Promise((done) => (release = done));
  const settings = { before_answer: () => held };
  const { fake, weir, url } = await h.behind_weir(t, 'openai', config, settings);
  const client = h.openai(url);
  const first = h.chat(client);
  await h.eventually(() => fake.requests.length === 1, 'the first call arrives');
  const results = h.outcomes(await h.parallel(5, () => h.chat(client)));
  assert.equal(results.refused, 5);
  assert.equal(await weir.left('openai', 'requests'), 9);
  release();
  await first;
  await h.chat(client);
  await weir.settled('openai', 'requests', 8);
});

// pain 6: litellm#24677
test('limits of requests and tokens do not share a window, and none refuses early', async (t) => {
  const limits = [
    { unit: 'requests', amount: 30, per: '1h' },
    { unit: 'tokens', amount: 3000, per: '1h' },
  ];
  const { url } = await h.behind_weir(t, 'openai', { limits, ...at_once });
  const client = h.openai(url);
  const call = () => h.chat(client, { max_tokens: 100 });
  assert.equal(h.outcomes(await h.parallel(30, call)).served, 30);
  const error = await h.error_of(call());
  assert.equal(error.status, 429);
  const wait = Number(error.headers.get('retry-after'));
  assert.ok(wait >= 100 && wait <= 130, `told to wait ${wait} s for a request due in 120`);
});

// pain 7: litellm#18728
test('what Anthropic reads from its cache does not count', async (t) => {
  const config = { limits: [daily('input_tokens', 100_000)] };
  const { fake, weir, url } = await h.behind_weir(t, 'anthropic', config);
  const client = h.anthropic(url);
  fake.set({ cached_tokens: 900 });
  await h.message(client, { messages: text(1000) });
  await weir.settled('anthropic', 'input_tokens', 100_000 - 100);
  fake.set({ cached_tokens: 900, cache_creation_tokens: 60 });
  await h.collect(await h.message(client, { messages: text(1000), stream: true }));
  await weir.settled('anthropic', 'input_tokens', 100_000 - 200);
});

const total = (call) => call.input_tokens + call.output_tokens;
const ask_gemini = { model: h.models.gemini, contents: 'abc '.repeat(100) };

// What each API is settled on: [profile, unit, more configuration, settings, call, expected].
const refund = { refund_unused_tokens: true };
const settlements = {
  'OpenAI chat': ['openai', 'tokens', refund, {}, (c) => h.chat(c, { max_tokens: 5000 }), total],
  // pain 11: Kong#14768, Kong#14535
  'an OpenAI chat stream that did not ask for usage': [
    'openai', 'tokens', refund, {},
    async (c) => h.collect(await h.chat(c, { max_tokens: 5000, stream: true })), total,
  ],
  'OpenAI responses': [
    'openai', 'tokens', refund, {},
    (c) => c.responses.create({ model: h.models.openai, input: 'hi', max_output_tokens: 5000 }),
    total,
  ],
  'an OpenAI responses stream': [
    'openai', 'tokens', refund, {},
    async (c) =>
      h.collect(await c.responses.create({ model: h.models.openai, input: 'hi', stream: true })),
    total,
  ],
  'OpenAI embeddings': [
    'openai', 'tokens', refund, {},
    (c) => c.embeddings.create({ model: 'text-embedding-3-small', input: 'abc '.repeat(50) }),
    (call) => call.input_tokens,
  ],
  'OpenAI without refunds, which is its default': [
    'openai', 'tokens', {}, {}, (c) => h.chat(c, { max_tokens: 700 }), () => 700,
  ],
  // pain 12: Portkey-AI/gateway#1259
  'a Mistral stream, whose last chunk has the usage': [
    'mistral', 'tokens', {}, { flavour: 'mistral' },
    async (c) => {
      const chunks = await h.collect(await h.chat(c, { max_tokens: 5000, stream: true }));
      assert.equal(chunks.at(-1).usage.completion_tokens, 25);
    },
    total,
  ],
  'a Groq stream, which tells usage in a field of its own': [
    'groq', 'tokens', refund, { flavour: 'groq' },
    async (c) => {
      const chunks = await h.collect(await h.chat(c, { max_tokens: 5000, stream: true }));
      assert.equal(chunks.at(-1).x_groq.usage.completion_tokens, 25);
    },
    total,
  ],
  'Anthropic messages': [
    'anthropic', 'output_tokens', {}, {}, (c) => h.message(c, { max_tokens: 5000 }),
    (call) => call.output_tokens,
  ],
  // pain 13: higress#1080
  'an Anthropic stream, whose usage is cumulative': [
    'anthropic', 'output_tokens', {}, {},
    async (c) => h.collect(await h.message(c, { max_tokens: 5000, stream: true })),
    (call) => call.output_tokens,
  ],
  'the input of an Anthropic stream, told twice': [
    'anthropic', 'input_tokens', {}, {},
    async (c) => h.collect(await h.message(c, { max_tokens: 5000, stream: true })),
    (call) => call.input_tokens,
  ],
  'Gemini, which counts input alone': [
    'gemini', 'tokens', {}, {}, (c) => c.models.generateContent(ask_gemini),
    (call) => call.input_tokens,
  ],
  'a Gemini stream': [
    'gemini', 'tokens', {}, {},
    async (c) => h.collect(await c.models.generateContentStream(ask_gemini)),
    (call) => call.input_tokens,
  ],
};

for (const [name, [profile, unit, more, settings, call, expected]] of Object.entries(settlements)) {
  test(`usage is settled: ${name}`, async (t) => {
    const config = { limits: [daily(unit, 100_000)], ...more };
    const set = { output_tokens: 25, ...settings };
    const { fake, weir, url } = await h.behind_weir(t, profile, config, set);
    await call((h[profile] ?? h.openai)(profile === 'groq' ? `${url}/openai` : url));
    await weir.settled(profile, unit, 100_000 - expected(fake.requests[0]));
  });
}

test('a stream is asked for its usage, and the client that did not ask sees none', async (t) => {
  const { fake, url } = await h.behind_weir(t, 'openai');
  const client = h.openai(url);
  const chunks = await h.collect(await h.chat(client, { stream: true }));
  assert.deepEqual(fake.requests[0].body.stream_options, { include_usage: true });
  assert.ok(chunks.every((chunk) => !('usage' in chunk) && chunk.choices.length === 1));
  const asked = { stream: true, stream_options: { include_usage: true } };
  const told = await h.collect(await h.chat(client, asked));
  assert.equal(told.at(-1).usage.completion_tokens, 10);
});

// pain 9: litellm#14457
test('a client that leaves a stream ends it upstream, and pays for what it saw', async (t) => {
  const config = { max_concurrency: 1, limits: [daily('output_tokens', 100_000)] };
  // No more than 200, however late the client leaves.
  const after_event = ({ events }) => events >= 200 && for_ever();
  const settings = { output_tokens: 900, most_events: 900, event_ms: 5, after_event };
  const { fake, weir, url } = await h.behind_weir(t, 'anthropic', config, settings);
  const stream = await h.message(h.anthropic(url), { max_tokens: 5000, stream: true });
  let seen = 0;
  for await (const event of stream) {
    if (event.type === 'content_block_delta' && ++seen === 20) break; // aborts the request
  }
  await h.eventually(() => fake.counts.abandoned === 1, 'the upstream is cancelled');
  await h.eventually(async () => {
    const paid = 100_000 - (await weir.left('anthropic', 'output_tokens'));
    return paid >= 10 && paid <= 300;
  }, 'it is settled on about 20 tokens');
  await h.message(h.anthropic(url)); // the slot is free
});

// pain 9: litellm#13245
test('a client that leaves before the answer ends the call upstream, and has paid', async (t) => {
  const limits = [daily('requests', 10), daily('input_tokens', 10_000)];
  const config = { max_concurrency: 1, limits };
  const settings = { before_answer: for_ever };
  const { fake, weir, url } = await h.behind_weir(t, 'anthropic', config, settings);
  const leaving = new AbortController();
  const call = h.message(h.anthropic(url), { messages: text(100) }, { signal: leaving.signal });
  await h.eventually(() => fake.requests.length === 1, 'the call arrives');
  leaving.abort();
  await h.error_of(call);
  await h.eventually(() => fake.counts.abandoned === 1, 'the upstream is cancelled');
  fake.set({ before_answer: null });
  const paid = 10_000 - (await weir.left('anthropic', 'input_tokens'));
  assert.ok(paid >= 80 && paid <= 300, `${paid} paid for about 100 tokens`);
  await h.message(h.anthropic(url)); // the slot is free
  await weir.settled('anthropic', 'requests', 8);
});

// pain 10: envoyproxy/ai-gateway#2394
test('a stream that does not fit is refused before it begins', async (t) => {
  const config = { limits: [daily('tokens', 100)], ...at_once };
  const { fake, url } = await h.behind_weir(t, 'openai', config);
  const client = h.openai(url);
  await h.collect(await h.chat(client, { max_tokens: 100, stream: true }));
  const error = await h.error_of(h.chat(client, { max_tokens: 100, stream: true }));
  assert.ok(error instanceof h.OpenAI.RateLimitError);
  assert.equal(fake.counts.received, 1);
});

for (const fault of ['cut', 'error']) {
  test(`a stream that ends in ${fault} is told so, and settled on what was seen`, async (t) => {
    const config = { limits: [daily('output_tokens', 100_000)] };
    const settings = { output_tokens: 900, most_events: 900 };
    const { fake, weir, url } = await h.behind_weir(t, 'anthropic', config, settings);
    fake.set({ next: [{ in_stream: fault, after_events: 40 }] });
    const stream = await h.message(h.anthropic(url), { max_tokens: 5000, stream: true });
    const error = await h.error_of(h.collect(stream));
    if (fault === 'error') assert.equal(error.error.error.type, 'overloaded_error');
    assert.ok(error instanceof h.Anthropic.APIError || error instanceof TypeError, String(error));
    assert.equal(fake.counts.received, 1, 'what has begun is not begun again');
    await h.eventually(async () => {
      const paid = 100_000 - (await weir.left('anthropic', 'output_tokens'));
      return paid >= 20 && paid <= 300;
    }, 'it is settled on about 40 tokens');
  });
}
