// What the page says of providers under real traffic.
import assert from 'node:assert/strict';
import test from 'node:test';

import * as h from './harness.mjs';

const second = (unit, amount, burst) => ({
  unit, amount, per: '1s', algorithm: 'token_bucket', burst,
});
const names = ['planner-1', 'planner-2', 'reviewer-1', 'reviewer-2', 'researcher-1', 'writer-1'];

const figure = (page, name) => page.locator('[data-testid=minute] div', { hasText: name });
const warning = (page, code) => page.locator(`[data-testid=warning][data-code=${code}]`);

test('figures move by events alone, and nothing is asked elsewhere', async (t) => {
  const fake = await h.fake_provider(t);
  const weir = await h.Weir.start(t, [
    h.provider('steady', fake, { limits: [second('requests', 20, 5)], max_concurrency: 4 }),
    h.provider('quiet', fake, { tokens_per_minute: 300000 }),
  ]);
  const page = await h.open(t, weir.url);
  await h.live(page);
  await page.getByTestId('provider-list').getByRole('link', { name: 'quiet' }).first().waitFor();
  await page.getByRole('link', { name: 'steady' }).click();
  const gauges = page.getByTestId('gauge');
  await h.reads(gauges, /requests per 1s[^]*0%[^]*5 of 5 left/);
  await h.reads(gauges, /slots[^]*0%[^]*0 of 4 in use/);
  await h.reads(page.getByTestId('no-traffic'), /"slots":0/); // nothing to release
  await page.getByRole('img', { name: /No calls in the last minute/ }).waitFor();
  await page.waitForLoadState('load');
  await page.evaluate(() => (document.body.marked = true));
  // The browser asks for the icon when it likes.
  const asked = () => page.requests.map(({ url }) => url).filter((url) => !url.includes('icon'));
  const loaded = asked().length;

  h.agents(t, names, (name, signal) => h.call(weir, 'steady', name, { signal }));
  await h.reads(figure(page, 'admitted'), /[1-9]/);
  const shown = async () => parseInt((await figure(page, 'admitted').innerText()).match(/\d+/)[0]);
  const before = await shown();
  await h.eventually(async () => (await shown()) >= before + 40, 'forty more', 20_000);
  assert.ok(await page.evaluate(() => document.body.marked), 'the same document');

  const urls = asked();
  assert.deepEqual(urls.slice(loaded), []);
  assert.deepEqual([...new Set(urls)], urls, 'nothing is asked twice');
  for (const { url } of page.requests) assert.equal(new URL(url).origin, weir.url);
  assert.deepEqual(page.troubles, []);
});

// S3.9
test('tells our own congestion from a slow API, and says what to change', async (t) => {
  const quick = await h.fake_provider(t);
  const slow = await h.fake_provider(t, { latency_ms: 1_500 });
  const weir = await h.Weir.start(t, [
    h.provider('tight', quick, { limits: [second('requests', 2, 1)] }),
    h.provider('slow', slow, { limits: [second('requests', 50, 50)] }),
  ]);
  for (const name of ['tight', 'slow']) {
    h.agents(t, names, (agent, signal) => h.call(weir, name, agent, { signal }));
  }
  const page = await h.open(t, `${weir.url}/#/provider/tight`);
  await page.locator('[data-testid=verdict][data-cause=us]').waitFor();
  // In the moment before a call is let in no limit holds it.
  const congestion = await h.reads(warning(page, 'congestion'), /tight[^]*requests per 1s/);
  assert.match(congestion, /wait/i);
  assert.match(congestion, /agents|quota|limit/i, 'what to change');
  assert.doesNotMatch(congestion, /\bslow\b/);
  await page.getByRole('img', { name: /waits [\d.]+ s for quota and spends \d+ ms in the API/ })
    .waitFor();
  await h.eventually(async () => /^⚠ \d+ /.test(await page.title()), 'a warning in the title');

  await page.getByRole('link', { name: /slow/ }).first().click();
  await page.locator('[data-testid=provider][data-name=slow]').waitFor();
  await page.locator('[data-testid=verdict][data-cause=api]').waitFor();
  await h.reads(page.getByTestId('journey-api'), /1\.[5-9] s/);
  await h.reads(page.getByTestId('journey-wait'), /(^|\D)\d{1,2} ms|0 ms/);
  assert.equal(await warning(page, 'congestion').filter({ hasText: /^\s*slow/ }).count(), 0);
});

test('failures of the API, refusals and a queue that stands are not quiet', async (t) => {
  const fake = await h.fake_provider(t);
  const weir = await h.Weir.start(t, [
    h.provider('down', { url: 'http://127.0.0.1:1' }, { limits: [second('requests', 50, 50)] }),
    h.provider('full', fake, { limits: [{ unit: 'requests', amount: 1, per: '1h' }] }),
    h.provider('stuck', fake, { limits: [{ unit: 'requests', amount: 3, per: '1h' }] }),
  ]);
  const page = await h.open(t, `${weir.url}/#/provider/down`);
  for (let i = 0; i < 5; ++i) assert.equal(await h.call(weir, 'down', 'planner-1'), 502);
  for (let i = 0; i < 12; ++i) await h.post(weir, '/v1/acquire', { resource: 'full' });
  for (let i = 0; i < 3; ++i) await h.post(weir, '/v1/acquire', { resource: 'stuck' });
  const end = new AbortController();
  t.after(() => end.abort());
  h.post(weir, '/v1/acquire', { resource: 'stuck', wait_ms: 60_000 }, end).catch(() => {});

  const verdict = page.getByTestId('verdict');
  const note = (name) => page.locator(`[data-testid=provider-link][data-name=${name}]`);
  await h.reads(verdict, /The API fails\. In the last minute 5 of 5 calls/);
  await h.reads(warning(page, 'api_failing'), /down[^]*it is not us/);
  await h.reads(note('down'), /5 failed/);

  await note('full').click();
  await h.reads(verdict, /Refused by us\. In the last minute 11 of 12 calls/);
  await h.reads(page.getByTestId('gauge'), /refuses calls/);
  await h.reads(note('full'), /11 refused/);
  const [first] = await page.getByTestId('warning').allInnerTexts();
  assert.match(first, /full/, 'of the one on show, though another is worse');

  await note('stuck').click();
  await h.reads(verdict, /Slow because of us\. 1 call waits\. The longest has waited for \d/);
});

test('calls under way of which none has ended are neither quiet nor flowing', async (t) => {
  const fake = await h.fake_provider(t, { latency_ms: 60_000 });
  const weir = await h.Weir.start(t, [
    h.provider('silent', fake, { limits: [second('requests', 50, 50)] }),
  ]);
  const page = await h.open(t, `${weir.url}/#/provider/silent`);
  h.agents(t, names.slice(0, 2), (name, signal) => h.call(weir, 'silent', name, { signal }));
  await h.reads(
    page.getByTestId('verdict'),
    /Waiting for the API\. 2 calls under way for [\d.]+ s on average, none has ended/,
  );
  await page.getByRole('img', { name: /for quota and spends [\d.]+ s in the API/ }).waitFor();
  await h.reads(page.getByTestId('journey-api'), /2 in flight now, for [\d.]+ s on average/);
});

test('names the limit that binds, who uses it, who waits and who waited longest', async (t) => {
  const fake = await h.fake_provider(t);
  const weir = await h.Weir.start(t, [
    h.provider('shared', fake, {
      limits: [second('requests', 3, 1), second('tokens', 100_000, 100_000)],
      agents: { 'planner-*': { weight: 4 } },
    }),
  ]);
  h.agents(t, names, (name, signal) => h.call(weir, 'shared', name, { signal }));
  const page = await h.open(t, `${weir.url}/#/provider/shared`);
  await h.reads(page.getByTestId('binding'), /Held by\s+requests per 1s/i);
  await page.locator('[data-testid=gauge][data-limit="requests per 1s"].binds').waitFor();

  await h.reads(page.getByTestId('agents'), new RegExp(names.map((n) => `(?=[^]*${n})`).join('')));
  await h.reads(page.getByTestId('agents'), /waiting/);
  const shares = await page.locator('[data-testid=agent] .share').allInnerTexts();
  const numbers = shares.map((text) => parseFloat(text.replace('<', '')));
  assert.deepEqual(numbers, [...numbers].sort((a, b) => b - a), 'by share');

  const queue = await h.reads(page.getByTestId('queue'), /(planner|reviewer|researcher|writer)-\d/);
  assert.match(queue, /Agent[^]*Waited[^]*\d (m?s)/);
  const slowest = await h.reads(page.getByTestId('slowest'), /requests per 1s/);
  assert.match(slowest, /-\d[^]*\d\d:\d\d[^]*\d m?s/);
});

test('limits of one name are told apart, and none is left out without a word', async (t) => {
  const models = Array.from({ length: 10 }, (_, i) => `model-${i}`);
  const limits = [second('requests', 50, 50)];
  const weir = await h.Weir.start(t, [
    h.provider('wide', await h.fake_provider(t), {
      limits,
      models: Object.fromEntries(models.map((name) => [name, { limits }])),
    }),
  ]);
  for (const model of models) await h.post(weir, '/v1/acquire', { resource: 'wide', model });
  const page = await h.open(t, `${weir.url}/#/provider/wide`);
  await page.getByRole('meter', { name: 'requests per 1s, model model-3 used' }).waitFor();
  const used = /requests per 1s now .*; requests per 1s, model model-0 now/;
  await page.getByRole('img', { name: used }).waitFor();
  await h.reads(page.getByTestId('charts'), /and 3 more/);
  await page.getByTestId('charts-table').click();
  const table = page.getByRole('region', { name: 'History as a table' });
  await h.reads(table, /requests per 1s\s+requests per 1s, model model-0\s/);
});

test('refusals of the API are marked and logged, and a lowered limit is told', async (t) => {
  const fake = await h.fake_provider(t);
  const weir = await h.Weir.start(t, [
    h.provider('strict', fake, { limits: [second('requests', 50, 50)] }),
  ]);
  const page = await h.open(t, `${weir.url}/#/provider/strict`);
  await h.live(page);
  for (let i = 0; i < 5; ++i) assert.equal(await h.call(weir, 'strict', 'planner-1'), 200);
  await page.getByTestId('all-clear').waitFor();
  const loaded = page.requests.length;
  fake.set({ next: [{ status: 429 }] }); // without a word on when to come back
  assert.equal(await h.call(weir, 'strict', 'planner-1'), 200);

  const limited = page.locator('[data-testid=event][data-type=limited]');
  await h.reads(limited, /429[^]*refused planner-1/);
  await h.reads(figure(page, '429 from the API'), /1/);
  const lowered = await h.reads(warning(page, 'limit_lowered'), /lowered/i);
  assert.match(lowered, /strict/);
  await page.getByRole('img', { name: /Events.* 1 429 from the API, 1 limit lowered/ }).waitFor();
  await h.reads(page.locator('[data-testid=event][data-type=reduced]'), /lowered/);
  const asked = page.requests.slice(loaded).map(({ url }) => new URL(url).pathname);
  assert.deepEqual(asked.filter((path) => path.startsWith('/v1/')), [], 'points are events, too');
});
