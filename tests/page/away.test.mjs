// The daemon goes and comes.
import assert from 'node:assert/strict';
import test from 'node:test';

import * as h from './harness.mjs';

test('says that live data stopped, and comes back by itself with the daemon', async (t) => {
  const fake = await h.fake_provider(t);
  const weir = await h.Weir.start(t, [h.provider('steady', fake, { limit: 300, period: '1m' })]);
  const page = await h.open(t, `${weir.url}/#/provider/steady`);
  await h.live(page);
  await h.call(weir, 'steady', 'planner-1');
  await h.reads(page.getByTestId('agents'), /planner-1/);

  await weir.stop();
  await h.reads(page.getByTestId('pulse'), /No data since \d\d:\d\d:\d\d/);
  await h.reads(page.getByTestId('agents'), /planner-1/); // what was known stays to be read

  await weir.launch();
  await h.live(page);
  await h.call(weir, 'steady', 'reviewer-2');
  await h.reads(page.getByTestId('agents'), /reviewer-2/);
  assert.equal(await page.getByText('planner-1').count(), 0, 'a new daemon, new figures');
});

test('says that live data stopped when the daemon hangs', async (t) => {
  const fake = await h.fake_provider(t);
  const weir = await h.Weir.start(t, [h.provider('steady', fake, { limit: 300, period: '1m' })]);
  const page = await h.open(t, weir.url);
  await h.live(page);
  weir.process.kill('SIGSTOP');
  try {
    await h.reads(page.getByTestId('pulse'), /No data since/);
  } finally {
    weir.process.kill('SIGCONT');
  }
  await h.live(page);
});

const steady = async (t) =>
  h.Weir.start(t, [
    h.provider('steady', await h.fake_provider(t), { limit: 300, period: '1m' }),
  ]);

// As if the reader went to another tab, or came back.
const look = (page, looks) =>
  page.evaluate((hidden) => {
    Object.defineProperty(document, 'hidden', { configurable: true, value: hidden });
    document.dispatchEvent(new Event('visibilitychange'));
  }, !looks);

test('a tab that nobody has seen for a minute gives its connection back', async (t) => {
  const weir = await steady(t);
  const page = await h.open(t, 'about:blank');
  await page.clock.install();
  await page.goto(`${weir.url}/#/provider/steady`);
  await h.live(page);
  const closed = page.waitForEvent('requestfailed', (sent) => sent.url().includes('/v1/events'));
  await look(page, false);
  await page.clock.fastForward(61_000);
  await closed;
  await page.clock.runFor(30_000);
  assert.equal(h.asked(page, '/v1/events'), 1);
  assert.equal(await page.title(), 'steady · Weir', 'nothing is wrong');

  await h.call(weir, 'steady', 'planner-1');
  await h.post(weir, '/v1/resources/steady/pause');
  const before = h.asked(page, '/v1/history');
  await look(page, true);
  await h.live(page);
  await h.reads(page.getByTestId('agents'), /planner-1/);
  await h.reads(page.getByTestId('log'), /paused steady/);
  assert.equal(h.asked(page, '/v1/events'), 2);
  assert.equal(h.asked(page, '/v1/history'), before + 1);
});

test('after an upgrade the page is loaded anew, but not under a dialog', async (t) => {
  const weir = await steady(t);
  const page = await h.open(t, 'about:blank');
  await page.route('**/v1/events*', (route) => route.abort());
  await page.route('**/v1/live', async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ json: { ...(await answer.json()), version: '0.0.1' } });
  });
  await page.goto(`${weir.url}/#/provider/steady`);
  await page.getByTestId('pause').click();
  await page.getByRole('dialog').waitFor();
  await page.evaluate(() => (document.body.marked = true));
  await page.unrouteAll();
  await h.reads(page.getByTestId('daemon'), /Version\s+(?!0\.0\.1\b)\S/);
  const marked = () => page.evaluate(() => document.body.marked === true);
  assert.ok(await marked(), 'the same document');
  await page.keyboard.press('Escape');
  await h.eventually(async () => !(await marked().catch(() => true)), 'another document');
  await h.live(page);
});

test('charts that cannot be loaded are told', async (t) => {
  const weir = await steady(t);
  const page = await h.open(t, 'about:blank');
  await page.route('**/assets/plots*.js', (route) => route.abort());
  await page.goto(weir.url);
  await h.reads(page.getByTestId('charts'), /could not be loaded; reload the page/);
});

test('says why the daemon refuses to send', async (t) => {
  const weir = await steady(t);
  const end = new AbortController();
  t.after(() => end.abort());
  const watch = () => fetch(`${weir.url}/v1/events`, { signal: end.signal });
  await Promise.all(Array.from({ length: 100 }, watch));
  const page = await h.open(t, weir.url);
  await h.reads(
    page.getByTestId('silence'),
    /nothing since \d\d:\d\d:\d\d: there are as many event streams as are allowed\./,
  );
  end.abort();
  await h.live(page);
});

test('what was missed is read again, but not all the time', async (t) => {
  const weir = await steady(t);
  const page = await h.open(t, 'about:blank');
  await page.clock.install();
  await page.addInitScript(() => {
    const real = fetch;
    const body = new ReadableStream({
      start: (stream) => {
        const missed = new TextEncoder().encode('event: missed\ndata: {"count":1}\n\n');
        window.miss = () => stream.enqueue(missed);
      },
    });
    window.fetch = (path, init) =>
      path.startsWith('v1/events') ? Promise.resolve(new Response(body)) : real(path, init);
  });
  await page.goto(weir.url);
  await page.getByTestId('gauge').waitFor();
  assert.equal(h.asked(page, '/v1/news'), 1);
  await page.evaluate(() => window.miss());
  await h.eventually(() => h.asked(page, '/v1/news') === 2, 'read at once');
  for (let i = 0; i < 3; ++i) await page.evaluate(() => window.miss());
  await page.clock.runFor(5_000);
  assert.equal(h.asked(page, '/v1/news'), 2);
  await page.clock.runFor(5_000);
  await h.eventually(() => h.asked(page, '/v1/news') === 3, 'and once for all others');
});
