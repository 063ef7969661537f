// How soon the page shows a day.
import assert from 'node:assert/strict';
import test, { after } from 'node:test';

import * as h from './harness.mjs';

const daemon = h.a_day({ after });

// Chooses 24 hours as soon as it can, and notes when the first gauge and then their chart were on
// the screen, in ms since the navigation began.
function watch_for_a_day() {
  let chosen = false;
  const painted = (note) => requestAnimationFrame(() => setTimeout(() => note(performance.now())));
  new MutationObserver((_, observer) => {
    if (window.gauged_at === undefined && document.querySelector('[role=meter]')) {
      window.gauged_at = null;
      painted((at) => (window.gauged_at = at));
    }
    const choice = document.querySelector('[data-testid=span-24h]');
    if (!chosen) choice?.click();
    chosen = choice !== null;
    const chart = document.querySelector('[role=img][aria-label^="Use of limits, 14:"]');
    if (!chart?.querySelector('canvas')) return;
    observer.disconnect();
    painted((at) => (window.drawn_at = at));
  }).observe(document, { attributes: true, childList: true, subtree: true });
}

// How many of a chart's pixels have a colour.
const inked = (canvas) => {
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  return data.filter((value, i) => i % 4 === 3 && value > 0).length / (data.length / 4);
};

const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];

test('a day is on the screen within half a second', async (t) => {
  const page = await h.open(t, 'about:blank');
  await page.addInitScript(watch_for_a_day);
  const gauges = [];
  const charts = [];
  for (let i = 0; i < 5; ++i) {
    await page.goto(`${(await daemon).url}/?${i}#/provider/anthropic`);
    await page.waitForFunction(() => window.drawn_at !== undefined);
    gauges.push(Math.round(await page.evaluate(() => window.gauged_at)));
    charts.push(Math.round(await page.evaluate(() => window.drawn_at)));
  }
  t.diagnostic(`gauges after ${gauges} ms, the day's chart after ${charts} ms`);
  assert.ok(median(gauges) <= 500, `${gauges} ms`);
  assert.ok(Math.min(...charts) <= 500, `${charts} ms`);
  const chart = page.getByRole('img', { name: /Use of limits, 14:/ }).locator('canvas');
  assert.ok((await chart.evaluate(inked)) > 0.05, 'something is drawn');

  await page.getByTestId('span-1h').click();
  await page.getByRole('img', { name: /Mean time of a call, 1[23]:\d\d to 1[34]:\d\d/ }).waitFor();
  await page.getByTestId('span-24h').click();
  await page.getByRole('img', { name: h.day_chart }).waitFor();
});
