// Waiting instead of failing: what agents see of a provider's limits is time.
import assert from 'node:assert/strict';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import test from 'node:test';

import * as h from './harness.mjs';

const second = (unit, amount, burst) => ({ unit, amount, per: '1s', burst });

// A known rate, so that nobody has to find out at which pace to go on after a refusal.
const ample = { limits: [second('requests', 100)] };

// An agent of its own client and name, as a process of its own would be.
const agent = (client_of, url, index) =>
  client_of(url, { defaultHeaders: { 'x-weir-agent': `agent-${index}` } });
const gemini_agent = (url, index) =>
  h.gemini(url, { headers: { 'x-weir-agent': `agent-${index}` } });

// The longest time, in ms, for which this process, and so the fake provider, has stood still.
function watch_stalls(t) {
  const resolution = 1;
  const delay = monitorEventLoopDelay({ resolution });
  delay.enable();
  t.after(() => delay.disable());
  return () => Math.max(0, delay.max / 1e6 - resolution);
}

// Nothing arrives between the moment a refusal was told and the end of the wait it asked for.
// What was under way when it was told, for 60 ms and a stall at most, is not held against anybody;
// the call that was refused, known by its `user`, was not.
function assert_waited(fake, stall_ms) {
  const longest = 60 + stall_ms;
  for (const refusal of fake.requests.filter(({ status }) => status === 429)) {
    const early = fake.requests.filter(({ at, body }) => {
      const under_way = body.user === refusal.body.user ? 0 : longest;
      return at > refusal.answered_at + under_way && at < refusal.retry_at - 2;
    });
    assert.deepEqual(early.map(({ at }) => refusal.retry_at - at), [], 'ms too early');
  }
}

// The provider's minute is a second. It admits at once what Weir does and twenty more, because a
// stall of this process is nothing in a real minute and much in this one: after it a call of each
// agent arrives, and right behind them what Weir has earned meanwhile. One more, because OpenAI's
// bucket earns late by up to a step.
const known = {
  openai: {
    hidden: { requests: { amount: 40, burst: 26 }, tokens: { amount: 4000, burst: 2600 } },
    limits: [second('requests', 40, 5), second('tokens', 4000, 500)],
    call: (url, i) => h.chat(agent(h.openai, url, i), { max_tokens: 100 }),
  },
  anthropic: {
    hidden: {
      requests: { amount: 40, burst: 26 },
      input_tokens: { amount: 40_000, burst: 26_000 },
      output_tokens: { amount: 4000, burst: 2600 },
    },
    limits: [
      second('requests', 40, 5),
      second('input_tokens', 40_000, 5000),
      second('output_tokens', 4000, 500),
    ],
    call: async (url, i) =>
      h.collect(await h.message(agent(h.anthropic, url, i), { max_tokens: 100, stream: true })),
  },
  gemini: {
    hidden: { requests: 80, tokens: 8000 }, // in any second, so with what Weir earns in one
    limits: [second('requests', 40, 20), second('tokens', 4000, 2000)],
    call: (url, i) =>
      gemini_agent(url, i).models.generateContent({
        model: h.models.gemini,
        contents: 'abc '.repeat(90),
      }),
  },
};

for (const [profile, { hidden, limits, call }] of Object.entries(known)) {
  // pain 14: litellm#3646, litellm#5783; pain 24: langchain-ai/deepagents#386
  test(`${profile}: twenty agents under known limits see no 429, nor does it`, async (t) => {
    const settings = { minute_ms: 1000, limits: { [profile]: hidden } };
    const { fake, url } = await h.behind_weir(t, profile, { limits }, settings);
    const results = await h.parallel(20, async (index) => {
      for (let turn = 0; turn < 6; ++turn) await call(url, index);
    });
    assert.deepEqual(h.outcomes(results), { served: 20, refused: 0, others: [] });
    assert.equal(fake.counts.limited, 0);
    assert.equal(fake.counts.served, 120);
  });
}

for (const headers of [true, false]) {
  const told = headers ? 'told in headers alone' : 'that nobody tells';
  test(`twenty agents under limits ${told} see no 429`, async (t) => {
    const limits = { openai: { requests: { amount: 40, burst: 10 } } };
    const settings = { minute_ms: 1000, limits, rate_headers: headers, retry_after: 'both' };
    const { fake, weir, url } = await h.behind_weir(t, 'openai', {}, settings);
    await weir.operate('openai', 'pause');
    const all = h.parallel(20, async (index) => {
      const client = agent(h.openai, url, index);
      for (let turn = 0; turn < 2; ++turn) await h.chat(client, { user: `${index} ${turn}` });
    });
    await weir.queued(20); // so that no answer tells the limit before they have gone
    const stalled = watch_stalls(t);
    await weir.operate('openai', 'resume');
    assert.deepEqual(h.outcomes(await all), { served: 20, refused: 0, others: [] });
    assert.equal(fake.counts.served, 40);
    assert.ok(fake.counts.limited > 0, 'the limit was felt');
    assert_waited(fake, stalled());
  });
}

// pain 15: litellm#7669
for (const form of ['seconds', 'ms', 'both', 'date']) {
  test(`a Retry-After as ${form} is waited for, and the agent sees nothing of it`, async (t) => {
    const { fake, url } = await h.behind_weir(t, 'openai', ample, { retry_after: form });
    fake.set({ next: [{ fault: 'limited', retry_after_s: 1 }] });
    await h.chat(h.openai(url));
    // Others wait as well.
    await h.parallel(3, (index) => h.chat(agent(h.openai, url, index)));
    assert.equal(fake.counts.limited, 1);
    assert.equal(fake.counts.early, 0);
    assert.equal(fake.counts.served, 4);
  });
}

test("Gemini's RetryInfo is waited for, which its own SDK ignores", async (t) => {
  const { fake, url } = await h.behind_weir(t, 'gemini', ample);
  fake.set({ next: [{ fault: 'limited', retry_after_s: 0.9 }] });
  const ask = { model: h.models.gemini, contents: 'hi' };
  assert.ok((await h.gemini(url).models.generateContent(ask)).text);
  assert.equal(fake.counts.limited, 1);
  assert.equal(fake.counts.early, 0);
});

test('a 429 closes the gate for all who share the key, streams too', async (t) => {
  const { fake, weir, url } = await h.behind_weir(t, 'anthropic', ample);
  fake.set({ next: [{ fault: 'limited', retry_after_s: 2 }] });
  const first = h.message(agent(h.anthropic, url, 0));
  await h.eventually(() => fake.counts.limited === 1, 'the refusal');
  await weir.queued(1);
  const rest = h.parallel(6, async (index) =>
    h.collect(await h.message(agent(h.anthropic, url, index + 1), { stream: true })),
  );
  await first;
  assert.equal(h.outcomes(await rest).served, 6);
  assert.equal(fake.counts.early, 0);
  assert.equal(fake.counts.limited, 1);
});

// pain 16: NousResearch/hermes-agent#26293
test('a reset beyond the time that agents have is told as it is, and asked for once', async (t) => {
  const config = { max_wait: '1s' };
  const { fake, url } = await h.behind_weir(t, 'openai', config, { retry_after: 'both' });
  fake.set({ next: [{ fault: 'limited', retry_after_s: 171 }] });
  for (let turn = 0; turn < 2; ++turn) {
    const error = await h.error_of(h.chat(h.openai(url)));
    assert.ok(error instanceof h.OpenAI.RateLimitError);
    const wait = Number(error.headers.get('retry-after'));
    assert.ok(wait >= 160 && wait <= 200, `told ${wait} s of 171`);
    assert.ok(Number(error.headers.get('retry-after-ms')) >= 160_000);
  }
  assert.equal(fake.counts.received, 1);
});

// pain 17: earendil-works/pi#6911
test('nobody is told to sleep for three days', async (t) => {
  const { fake, url } = await h.behind_weir(t, 'anthropic', { max_wait: '1s' });
  fake.set({ next: [{ fault: 'limited', retry_after_s: 277_403 }] });
  const started = performance.now();
  for (let turn = 0; turn < 2; ++turn) {
    const error = await h.error_of(h.message(h.anthropic(url, { maxRetries: 2 })));
    assert.equal(error.status, 429);
    assert.equal(error.headers.get('x-should-retry'), 'false');
  }
  assert.ok(performance.now() - started < 10_000);
});

// pain 18: gke-labs/gemini-for-kubernetes-development#1215
for (const [profile, ask, reason] of [
  [
    'gemini',
    (url) => h.gemini(url).models.generateContent({ model: h.models.gemini, contents: 'hi' }),
    /PerDay|per_day/,
  ],
  ['openai', (url) => h.chat(h.openai(url)), /insufficient_quota/],
  ['anthropic', (url) => h.message(h.anthropic(url)), /enforced_spend_limit_reached/],
]) {
  test(`${profile}: what is exhausted is told at once and not asked for again`, async (t) => {
    const { fake, url } = await h.behind_weir(t, profile);
    fake.set({ next: [{ fault: 'exhausted' }] });
    const started = performance.now();
    const first = await h.error_of(ask(url));
    assert.match(first.message + JSON.stringify(first.error ?? ''), reason);
    const errors = (await h.parallel(5, () => ask(url))).map((result) => result.reason);
    for (const error of errors) {
      const told = error.message + JSON.stringify(error.error ?? '');
      assert.match(told, /429/);
      assert.match(told, /until|again at/);
    }
    assert.ok(performance.now() - started < 10_000);
    assert.equal(fake.counts.received, 1);
  });
}

// pain 19: run-llama/llama_index#8881
test("a provider's fixed minute is waited out, not hammered", async (t) => {
  const settings = {
    minute_ms: 2000,
    limits: { azure: { tokens: 100 } },
    retry_after: 'ms',
    rate_headers: false, // they speak of a real minute, and a window cannot be scaled
  };
  const { fake, url } = await h.behind_weir(t, 'azure', ample, settings);
  const stalled = watch_stalls(t);
  const results = await h.parallel(4, (index) =>
    h.chat(h.azure(url), { max_tokens: 60, user: `${index}` }),
  );
  assert.deepEqual(h.outcomes(results), { served: 4, refused: 0, others: [] });
  assert.ok(fake.counts.limited <= 8, `${fake.counts.limited} refusals`);
  assert_waited(fake, stalled());
});

// pain 21: anthropics/claude-code#41911
for (const [profile, ask] of [
  ['anthropic', (url) => h.message(h.anthropic(url))],
  ['openai', (url) => h.chat(h.openai(url))],
]) {
  test(`${profile}: an overload is tried again, and slows nobody down after it`, async (t) => {
    const { fake, url } = await h.behind_weir(t, profile, ample);
    fake.set({ next: [{ fault: 'overloaded' }, { fault: 'overloaded' }] });
    await ask(url);
    assert.equal(fake.counts.failed, 2);
    assert.equal(fake.counts.served, 1);
    const started = performance.now();
    assert.equal(h.outcomes(await h.parallel(20, () => ask(url))).served, 20);
    assert.ok(performance.now() - started < 3000);
  });
}

// pain 25: OpenHands#6692, OpenHands#6890
for (const [how, config, headers] of [
  ['the file', { max_wait: '1s' }, {}],
  ['a header', {}, { 'x-weir-max-wait': '1' }],
]) {
  test(`nobody waits for ever: max_wait of ${how}`, async (t) => {
    const limits = [{ unit: 'requests', amount: 1, per: '1h' }];
    const { fake, url } = await h.behind_weir(t, 'anthropic', { limits, ...config });
    await h.message(h.anthropic(url));
    const started = performance.now();
    const error = await h.error_of(h.message(h.anthropic(url), {}, { headers }));
    assert.ok(error instanceof h.Anthropic.RateLimitError);
    assert.equal(error.error.type, 'error');
    assert.equal(error.error.error.type, 'rate_limit_error');
    assert.ok(Number(error.headers.get('retry-after')) > 3000);
    assert.ok(performance.now() - started < 4000);
    assert.equal(fake.counts.received, 1);
  });
}
