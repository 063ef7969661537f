// A daemon with a day behind it, in simulated time.
import assert from 'node:assert/strict';
import test, { after } from 'node:test';

import * as h from './harness.mjs';

const daemon = h.a_day({ after });

// Until the page shows what the daemon says now.
async function follows(page) {
  const { body } = await h.post(await daemon, '/v1/live', undefined, { method: 'GET' });
  const clock = new Date(body.time_ms).toISOString().slice(11, 19);
  await h.reads(page.getByTestId('pulse'), new RegExp(clock));
}

test("tells when the day's budget will have ended", async (t) => {
  const page = await h.open(t, `${(await daemon).url}/#/provider/anthropic`);
  const forecast = await h.reads(page.getByTestId('forecast'), /ends at 17:\d\d at this pace/);
  assert.match(forecast, /resets tomorrow at 00:00/);
  const warning = page.locator('[data-testid=warning][data-code=budget_ends]');
  const told = await h.reads(warning, /anthropic/);
  assert.match(told, /At this pace .* ends in 3 h \d+ min, 6 h \d+ min before it resets/);
});

test('a budget that holds calls has ended, and nothing is foretold of it', async (t) => {
  const { url } = await daemon;
  const page = await h.open(t, `${url}/#/provider/spent`);
  const body = { resource: 'spent', cost: { usd: 0.004 }, wait_ms: 600_000 };
  for (let i = 0; i < 2; ++i) {
    await h.post({ url }, '/v1/acquire', body);
    await (await daemon).pass(60);
  }
  await page.getByTestId('forecast').waitFor();
  const end = new AbortController();
  t.after(() => end.abort());
  h.post({ url }, '/v1/acquire', body, end).catch(() => {});
  await h.eventually(async () => {
    await (await daemon).pass(1);
    return (await page.getByTestId('forecast').count()) === 0;
  }, 'no forecast', 15_000);
  await h.reads(page.getByTestId('gauge'), /80%\s+holds calls[^]*resets tomorrow at 00:00/);
});

test('points that come while the past is on its way are not missing from it', async (t) => {
  const { url } = await daemon;
  const page = await h.open(t, 'about:blank');
  const past = await h.hold(page, '**/v1/history/*');
  await page.goto(`${url}/#/provider/anthropic`);
  await past.answered;
  for (let i = 0; i < 40; ++i) {
    await (await daemon).step(1);
    if (i % 5 === 4) await follows(page);
  }
  past.let_go();
  await page.locator('.plot').first().waitFor();
  await h.eventually(async () => {
    await (await daemon).pass(1);
    return h.asked(page, '/v1/history/') > 1;
  }, 'read again when a point follows a gap', 15_000);
});

test('a past that could not be read is read again', async (t) => {
  const page = await h.open(t, 'about:blank');
  const busy = { status: 503, json: { error: 'busy' } };
  await page.route('**/v1/history/*', (route) => route.fulfill(busy), { times: 1 });
  await page.goto(`${(await daemon).url}/#/provider/anthropic`);
  const chart = page.getByRole('img', { name: /Use of limits/ });
  await h.eventually(async () => {
    await (await daemon).pass(1); // a stream in which nothing comes is opened again
    return chart.isVisible();
  }, 'a chart', 15_000);
});

test('a day to which points were added is the day as it is read anew', async (t) => {
  const { url } = await daemon;
  const day = async () => {
    const page = await h.open(t, `${url}/#/provider/anthropic`);
    await page.getByTestId('span-24h').click();
    await page.getByRole('img', { name: h.day_chart }).waitFor();
    return page;
  };
  const drawn = (page) =>
    page.locator('.plot').evaluateAll((plots) => plots.map((plot) => plot.ariaLabel).join('\n'));
  const page = await day();
  const permits = [];
  for (let i = 0; i < 4; ++i) {
    const call = { resource: 'anthropic', hold_ms: 600_000 };
    permits.push((await h.post({ url }, '/v1/acquire', call)).body.permit);
  }
  await (await daemon).pass(130);
  const path = '/v1/history/anthropic?span=24h';
  await h.eventually(async () => {
    await (await daemon).pass(1);
    const { body } = await h.post({ url }, path, undefined, { method: 'GET' });
    return body.until_ms === body.time_ms.at(-1);
  }, 'a step has ended', 60_000);
  // Many answers of long calls and no admission, then many admissions.
  for (const id of permits) {
    await h.post({ url }, `/v1/permits/${id}`, undefined, { method: 'DELETE' });
  }
  await (await daemon).pass(10);
  await (await daemon).step(20);
  const anew = await drawn(await day());
  // A page that could not follow reads the day again, at most each 10 s.
  await h.eventually(async () => (await drawn(page)) === anew, `${anew}`, 30_000);
});

// S3.9
test('says that the API is slower than usual, and that it is not us', async (t) => {
  const { url } = await daemon;
  const page = await h.open(t, `${url}/#/provider/anthropic`);
  const permits = [];
  for (let i = 0; i < 4; ++i) {
    const { body } = await h.post({ url }, '/v1/acquire', { resource: 'anthropic', agent: 'late' });
    permits.push(body.permit);
  }
  await (await daemon).pass(90);
  for (const id of permits) {
    await h.post({ url }, `/v1/permits/${id}`, undefined, { method: 'DELETE' });
  }
  await (await daemon).pass(1);
  const told = await h.reads(page.locator('[data-testid=warning][data-code=api_slow]'), /API/);
  assert.match(told, /The API takes 1 min 30 s, \d+\.\d times as long[^]*it is not us/);
  await page.locator('[data-testid=verdict][data-cause=api]').waitFor();
});

test("after an hour's events of twenty providers the page takes less than 50 MB", async (t) => {
  const { url, address } = await daemon;
  const tap = await h.Tap.start(t, address);
  const page = await h.open(t, `${tap.url}/#/provider/anthropic`);
  await page.getByRole('img', { name: /Use of limits/ }).waitFor();
  const session = await page.context().newCDPSession(page);
  const heap = async () => {
    await session.send('HeapProfiler.collectGarbage');
    const { usedSize, backingStorageSize = 0 } = await session.send('Runtime.getHeapUsage');
    return (usedSize + backingStorageSize) / 1e6;
  };
  // Agents of all others, and news.
  const more = async (second) => {
    for (const [i, resource] of h.others.entries()) {
      const agent = `agent-${(second / 20 + i) % 9}`;
      await h.post({ url }, '/v1/acquire', { resource, agent, cost: { tokens: 100 } });
    }
    for (const what of ['pause', 'resume']) await h.post({ url }, `/v1/resources/spent/${what}`);
  };
  const before = await heap();
  const kPiece = 4; // more at once is more than a watcher may lag behind
  const already = tap.events.get('live') ?? 0;
  for (let second = kPiece; second <= 3600; second += kPiece) {
    if (second % 20 === 0) await more(second);
    if (second % 60 === 0) await follows(page);
    await (await daemon).step(kPiece);
    await h.eventually(() => tap.events.get('live') - already >= second, `${second} events`);
    tap.received.length = 0;
  }
  assert.ok(tap.events.get('point') >= 360);
  assert.ok(tap.events.get('operated') >= 360);
  assert.equal(tap.events.get('missed'), undefined);
  await follows(page);
  await page.getByRole('img', { name: /Use of limits, 14:\d\d to 15:\d\d/ }).waitFor();
  assert.equal(await page.getByTestId('provider-link').count(), 20);
  const used = await heap();
  t.diagnostic(`heap ${before.toFixed(1)} MB, after an hour ${used.toFixed(1)} MB`);
  assert.ok(used < 50, `${used} MB`);
  assert.ok(used - before < 5, 'nothing piles up');
  assert.deepEqual(page.troubles, []);
});
