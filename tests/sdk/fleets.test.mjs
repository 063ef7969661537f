// Many agents, one provider.
import assert from 'node:assert/strict';
import test from 'node:test';

import * as h from './harness.mjs';

const named = (name) => ({ headers: { 'x-weir-agent': name } });

// pain 20: anthropics/claude-code#68968
test('a fan-out of six agents loses none of its turns', async (t) => {
  const limits = { anthropic: { requests: { amount: 20, burst: 4 }, output_tokens: 100_000 } };
  const settings = { minute_ms: 1000, limits, latency_ms: 20 };
  const config = { limits: [{ unit: 'requests', amount: 20, per: '1s' }] }; // of its burst: nothing
  const { fake, url } = await h.behind_weir(t, 'anthropic', config, settings);
  const results = await h.parallel(6, async (index) => {
    const client = h.anthropic(url, { defaultHeaders: { 'x-weir-agent': `agent-${index}` } });
    for (let turn = 0; turn < 3; ++turn) {
      await client.messages
        .stream({ model: h.models.anthropic, max_tokens: 20, messages: h.question() })
        .finalMessage();
    }
  });
  assert.deepEqual(h.outcomes(results), { served: 6, refused: 0, others: [] });
  assert.equal(fake.counts.served, 18);
});

// pain 21: anthropics/claude-code#60562
test('agents whose first calls are all refused finish nevertheless', async (t) => {
  const { fake, url } = await h.behind_weir(t, 'anthropic');
  fake.set({ next: Array.from({ length: 8 }, () => ({ fault: 'limited', retry_after_s: 1 })) });
  const results = await h.parallel(8, (index) =>
    h.message(h.anthropic(url), {}, named(`agent-${index}`)),
  );
  assert.deepEqual(h.outcomes(results), { served: 8, refused: 0, others: [] });
  assert.ok(fake.counts.limited <= 8);
});

// pain 23: crewAIInc/crewAI#2906, #494, #377
test('two crews that do not know of each other share one limit', async (t) => {
  const limits = [
    { unit: 'requests', amount: 20, per: '1h', algorithm: 'fixed_window' },
    { unit: 'tokens', amount: 1500, per: '1h', algorithm: 'fixed_window' },
  ];
  const { fake, url } = await h.behind_weir(t, 'openai', { limits, max_wait: '1ms' });
  const crew = (name) =>
    h.parallel(15, () => h.chat(h.openai(url), { max_tokens: 100 }, named(name)));
  const [one, two] = (await Promise.all([crew('crew-1'), crew('crew-2')])).map(h.outcomes);
  assert.equal(one.served + two.served, 15);
  assert.equal(fake.counts.received, 15);
  assert.deepEqual([...one.others, ...two.others], []);
});

// The provider sees calls in the order in which they were admitted.
const one_by_one = {
  limits: [{ unit: 'requests', amount: 20, per: '1s', burst: 1 }],
  max_concurrency: 1,
};

test('a busy crew does not starve another', async (t) => {
  const { fake, weir, url } = await h.behind_weir(t, 'openai', one_by_one);
  const client = h.openai(url);
  await weir.operate('openai', 'pause');
  const busy = h.parallel(40, () => h.chat(client, {}, named('busy')));
  await weir.queued(40);
  const quiet = h.parallel(4, () => h.chat(client, { user: 'quiet' }, named('quiet')));
  await weir.queued(44);
  await weir.operate('openai', 'resume');
  assert.equal(h.outcomes([...(await quiet), ...(await busy)]).served, 44);
  const before = fake.requests.findLastIndex(({ body }) => body.user === 'quiet') - 3;
  assert.ok(before < 20, `the quiet crew waited for ${before} calls of the busy one`);
});

test('a higher priority goes first', async (t) => {
  const { fake, weir, url } = await h.behind_weir(t, 'openai', one_by_one);
  const client = h.openai(url);
  await weir.operate('openai', 'pause');
  const rest = h.parallel(20, () => h.chat(client, {}, named('many')));
  await weir.queued(20);
  const headers = { 'x-weir-agent': 'boss', 'x-weir-priority': '9' };
  const boss = h.chat(client, { user: 'boss' }, { headers });
  await weir.queued(21);
  await weir.operate('openai', 'resume');
  await boss;
  assert.equal(fake.requests[0].body.user, 'boss');
  assert.equal(h.outcomes(await rest).served, 20);
});

// pain 26: anthropics/claude-code#30515
test('no more calls are under way at once than the provider endures', async (t) => {
  const config = { max_concurrency: 4 };
  const { fake, url } = await h.behind_weir(t, 'anthropic', config, { latency_ms: 30 });
  const results = await h.parallel(11, async (index) => {
    for (let turn = 0; turn < 3; ++turn) {
      await h.message(h.anthropic(url), {}, named(`agent-${index}`));
    }
  });
  assert.equal(h.outcomes(results).served, 11);
  assert.equal(fake.counts.most_at_once, 4);
});

// pain 26: anthropics/claude-code#30515
test("a firewall's page is passed as it is and is nobody's quota", async (t) => {
  const config = { max_wait: '1ms' }; // a call that it holds back is refused
  const { fake, url } = await h.behind_weir(t, 'anthropic', config);
  fake.set({ next: [{ fault: 'forbidden' }] });
  const error = await h.error_of(h.message(h.anthropic(url)));
  assert.equal(error.status, 403);
  assert.match(error.message, /Cloudflare/);
  await h.message(h.anthropic(url));
});

test("a token of Weir's opens the door, names the agent, and goes no further", async (t) => {
  const fake = await h.FakeProvider.start({ key: h.kKey });
  t.after(() => fake.close());
  const token = 'token-of-the-agents-0001';
  const main = { auth: { tokens: [{ name: 'crew', scope: 'client', token }] } };
  const main_file = await h.write_secret(await h.temporary_directory(t), 'main.json', main);
  const files = [
    h.provider_file('openai', fake, { agents: { crew: { limit: 2, period: '1h' } } }),
    h.provider_file('anthropic', fake),
  ];
  const weir = await h.Weir.start(t, files, ['--config', main_file]);
  const url = `${weir.url}/proxy/openai`;
  await h.chat(h.openai(url, { apiKey: token }));
  await h.message(h.anthropic(`${weir.url}/proxy/anthropic`, { apiKey: token }));
  await h.chat(h.openai(url), {}, { headers: { 'x-weir-token': token } });
  const headers = { 'x-weir-max-wait': '1' };
  const third = await h.error_of(h.chat(h.openai(url, { apiKey: token }), {}, { headers }));
  assert.equal(third.status, 429);
  const stranger = await h.error_of(h.chat(h.openai(url)));
  assert.ok(stranger instanceof h.OpenAI.AuthenticationError);
  assert.equal(fake.counts.received, 3);
  assert.ok(!JSON.stringify(fake.requests.map((call) => call.headers)).includes(token));
});
