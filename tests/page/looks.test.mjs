// Light and dark, wide and narrow.
import assert from 'node:assert/strict';
import test, { after } from 'node:test';

import * as h from './harness.mjs';
import { cut_off, faint_texts, overlaps } from './looks.mjs';

const kLong = 'a-provider-whose-name-is-as-long-as-nobody-would-want-to-type';
const names = ['planner-1', 'reviewer-2', 'researcher-of-the-long-name-of-the-third-team-3'];
const tight = [
  { unit: 'requests', amount: 2, per: '1s', algorithm: 'token_bucket', burst: 1 },
  { unit: 'input_tokens', amount: 2_000_000, per: '1m', algorithm: 'sliding_window' },
];

const busy = (async () => {
  const fake = await h.fake_provider({ after });
  const more = { tokens_per_minute: 300_000, max_concurrency: 5, budget: { usd: 50, per: '1d' } };
  const weir = await h.Weir.start({ after }, [
    h.provider('busy', fake, { limits: tight, ...more }),
    h.provider(kLong, fake, { domain: 'long.example.com', limit: 300, period: '1m' }),
    h.provider('resting', fake, { limit: 5, period: '1m' }),
  ]);
  await h.post(weir, '/v1/resources/resting/pause');
  const end = new AbortController();
  after(() => end.abort());
  const model = 'meta-llama/llama-3.1-405b-instruct:free/a-variant-with-a-name-of-its-own';
  const patient = { resource: 'resting', agent: names[2], model, wait_ms: 600_000 };
  h.post(weir, '/v1/acquire', patient, end).catch(() => {});
  for (const name of ['busy', kLong]) {
    h.agents({ after }, [...names, 'x-1', 'x-2'], (agent, signal) =>
      h.call(weir, name, agent, { signal }),
    );
  }
  return weir;
})();

test('dark is dark and light is light', async (t) => {
  const weir = await h.Weir.start(t, []);
  const page = await h.open(t, weir.url);
  const brightness = () =>
    page.evaluate(() => {
      const parts = getComputedStyle(document.documentElement).getPropertyValue('background-color');
      const pen = document.createElement('canvas').getContext('2d');
      pen.fillStyle = 'Canvas';
      pen.fillRect(0, 0, 1, 1);
      for (const css of [parts, getComputedStyle(document.body).backgroundColor]) {
        pen.fillStyle = css;
        pen.fillRect(0, 0, 1, 1);
      }
      return Math.max(...pen.getImageData(0, 0, 1, 1).data.slice(0, 3));
    });
  await page.emulateMedia({ colorScheme: 'light' });
  assert.ok((await brightness()) > 220);
  await page.emulateMedia({ colorScheme: 'dark' });
  assert.ok((await brightness()) < 60);
});

test('a daemon with many providers stays usable', async (t) => {
  const fake = await h.fake_provider(t);
  const many = Array.from({ length: 60 }, (_, i) =>
    h.provider(`provider-${String(i).padStart(2, '0')}`, fake, { limit: 10, period: '1m' }),
  );
  const weir = await h.Weir.start(t, many);
  const page = await h.open(t, `${weir.url}/#/provider/provider-35`);
  await h.reads(page.getByTestId('provider-list'), /60[^]*20 more/);
  const shown = page.getByRole('link', { name: 'provider-35' });
  await h.eventually(async () => {
    const { y } = await shown.boundingBox();
    return y > 49 && y < 900;
  }, 'the one on show is in view');
  await page.getByRole('searchbox').fill('-07');
  await h.eventually(async () => (await page.getByTestId('provider-link').count()) === 1, 'one');
  await page.getByTestId('provider-link').click();
  await page.getByRole('heading', { level: 1, name: 'provider-07' }).waitFor();
});

// Charts follow a new width a frame later.
const fits = () => document.scrollingElement.scrollWidth <= innerWidth;

test('is readable in light and dark, at 1280 pixels, enlarged to 200%, and at 390', async (t) => {
  const weir = await busy;
  const page = await h.open(t, `${weir.url}/#/provider/busy`);
  await page.locator('[data-testid=warning][data-code=congestion]').first().waitFor();
  await page.getByRole('img', { name: /Use of limits/ }).waitFor();

  const views = {
    'a busy provider': '#/provider/busy',
    'a long name': `#/provider/${kLong}`,
    'one that is paused': '#/provider/resting',
    'all providers': '#/',
    events: '#/events',
    sources: '#/sources',
  };
  for (const [view, hash] of Object.entries(views)) {
    await page.goto(`${weir.url}/${hash}`);
    await page.getByRole('heading', { level: 1 }).waitFor();
    for (const [width, height] of [[1280, 900], [640, 450], [390, 844]]) {
      await page.setViewportSize({ width, height });
      for (const colorScheme of ['light', 'dark']) {
        await page.emulateMedia({ colorScheme });
        const where = `${view}, ${width}, ${colorScheme}`;
        await h.eventually(() => page.evaluate(fits), where).catch(() => {});
        assert.deepEqual(await page.evaluate(cut_off), [], where);
        assert.deepEqual(await page.evaluate(overlaps), [], where);
        assert.deepEqual(await page.evaluate(faint_texts, 4.5), [], where);
      }
    }
  }
});
