// What Weir fetches by itself, on the page; the outside world is a local server.
import assert from 'node:assert/strict';
import http from 'node:http';
import test from 'node:test';

import * as h from './harness.mjs';

const html = '<!DOCTYPE html><h1>Hello</h1><script>window.injected = 1</script>';

async function world(t) {
  const pages = {
    '/oil': [200, 'application/json', '{"barrel_usd":71.5}'],
    '/html': [200, 'text/html', html],
    '/broken': [500, 'text/plain', 'not today'],
  };
  const server = http.createServer(({ url }, response) => {
    const [status, type, body] = pages[url] ?? [404, 'text/plain', ''];
    response.writeHead(status, { 'content-type': type }).end(body);
  });
  await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${server.address().port}`;
}

// S4.8
test('sources are listed with their last result, and a body is shown as text', async (t) => {
  const outside = await world(t);
  const weir = await h.Weir.start(t, []);
  for (const name of ['oil', 'html', 'broken']) {
    const body = { url: `${outside}/${name}`, every: '1h' };
    const { status } = await h.post(weir, `/v1/sources/${name}`, body, { method: 'PUT' });
    assert.ok(status < 300, `${status}`);
  }
  const fetched = async () => (await weir.get('/v1/sources')).sources.every(({ last }) => last);
  await h.eventually(fetched, 'all are fetched', 10_000);
  const page = await h.open(t, weir.url);
  await page.getByTestId('nav-sources').click();
  await h.reads(page.getByTestId('sources-summary'), /3 sources.*1 failing/);
  const row = (name) => page.locator(`[data-testid=source][data-name=${name}]`);
  await h.reads(row('oil'), /127\.0\.0\.1[^]*scheduled[^]*1 h[^]*200/);
  await h.reads(row('broken'), /backing off[^]*500/);

  await page.getByRole('link', { name: 'oil' }).click();
  await page.getByRole('heading', { level: 1, name: 'oil' }).waitFor();
  await h.reads(page.getByTestId('source-results'), /200/);
  await h.reads(page.getByTestId('source-body'), /^\{"barrel_usd":71\.5\}$/);

  await page.goBack();
  await page.getByRole('link', { name: 'html' }).click();
  assert.equal(await h.reads(page.getByTestId('source-body'), /script/), html);
  assert.equal(await page.evaluate(() => window.injected), undefined);
  assert.equal(await page.locator('main script').count(), 0);

  await page.goto(`${weir.url}/#/source/broken`);
  await h.reads(page.getByTestId('source-results'), /500/);
  assert.equal(await page.getByTestId('source-body').count(), 0, 'it was never fetched');

  await page.getByTestId('nav-events').click();
  await h.reads(page.getByTestId('log'), /added oil/);
  await page.goto(`${weir.url}/#/provider/demo`);
  await h.reads(page.getByTestId('log'), /Nothing yet/); // sources are no matter of this provider

  const { headers } = await fetch(`${weir.url}/v1/sources/html/body`);
  assert.doesNotMatch(headers.get('content-type'), /html/);
  assert.equal(headers.get('x-content-type-options'), 'nosniff');
  assert.match(headers.get('content-security-policy'), /sandbox/);
  assert.deepEqual(page.troubles, []);
});

test('a source that is held back is not read again and again', async (t) => {
  const outside = await world(t);
  const limits = [{ unit: 'requests', amount: 1, per: '1h' }];
  const weir = await h.Weir.start(t, [{ name: 'world', domain: '127.0.0.1', limits }]);
  const oil = { url: `${outside}/oil`, every: '1s' };
  await h.post(weir, '/v1/sources/oil', oil, { method: 'PUT' });
  const page = await h.open(t, `${weir.url}/#/source/oil`);
  await h.reads(page.getByTestId('source-page'), /held back/);
  await h.reads(page.getByTestId('source-body'), /barrel/);

  const ticks = new Set();
  const tick = async () => ticks.add(await page.getByTestId('pulse').innerText()).size;
  const asked = (end) => page.requests.filter(({ url }) => url.endsWith(end)).length;
  await h.eventually(async () => (await tick()) > 5, 'five seconds', 15_000);
  const before = asked('/v1/sources/oil');
  await h.eventually(async () => (await tick()) > 11, 'six more', 15_000);
  assert.equal(asked('/v1/sources/oil'), before);
  assert.equal(asked('/body'), 1);

  await h.post(weir, '/v1/sources/oil', { ...oil, url: `${outside}/html` }, { method: 'PUT' });
  await h.reads(page.getByTestId('source-page'), /\/html/);
});

test('a list that could not be read is read again', async (t) => {
  const weir = await h.Weir.start(t, []);
  const page = await h.open(t, 'about:blank');
  const busy = { status: 503, json: { error: 'the store does not answer' } };
  await page.route('**/v1/sources?*', (route) => route.fulfill(busy), { times: 1 });
  await page.goto(`${weir.url}/#/sources`);
  await h.reads(page.getByTestId('sources'), /the store does not answer/);
  await page.getByTestId('no-sources').waitFor();
  await h.reads(page.getByTestId('sources'), /^(?![^]*does not answer)/);
});

test('pages of a list are turned one by one, whatever comes late', async (t) => {
  const weir = await h.Weir.start(t, []);
  for (let i = 0; i < 250; ++i) {
    const source = { url: 'http://127.0.0.1:9/', every: '24h' };
    await h.post(weir, `/v1/sources/s${1000 + i}`, source, { method: 'PUT' });
  }
  const page = await h.open(t, `${weir.url}/#/sources`);
  const sources = page.getByTestId('sources');
  const press = (name) => page.getByRole('button', { name, exact: true }).click();
  await h.reads(sources, /s1099[^]*1–100 of 250/);
  const second = await h.hold(page, '**/v1/sources?*after=s1099');
  await press('Next');
  await press('Next');
  await second.answered;
  await h.reads(sources, /s1099[^]*1–100 of 250/);
  await press('Back');
  const shown = await page.evaluateHandle(() => {
    const all = [];
    const list = document.querySelector('[data-testid=sources]');
    new MutationObserver(() => all.push(list.querySelector('.pager').innerText)).observe(list, {
      childList: true, characterData: true, subtree: true,
    });
    return all;
  });
  const pulse = page.getByTestId('pulse');
  const before = await pulse.innerText();
  const come = page.waitForResponse('**/v1/sources?*after=s1099');
  second.let_go();
  await (await come).finished();
  await h.eventually(async () => (await pulse.innerText()) !== before, 'the page goes on');
  for (const pager of await shown.jsonValue()) assert.match(pager, /\b1–100 of 250/);
  await h.reads(sources, /s1099[^]*1–100 of 250/);
  await press('Next');
  await h.reads(sources, /s1100[^]*101–200 of 250/);
  await press('Next');
  await h.reads(sources, /s1249[^]*201–250 of 250/);
  await press('Back');
  await h.reads(sources, /s1100[^]*101–200 of 250/);
});

test('an empty list says how to add a source', async (t) => {
  const weir = await h.Weir.start(t, []);
  const page = await h.open(t, `${weir.url}/#/sources`);
  await h.reads(page.getByTestId('no-sources'), /weir add/);
  assert.equal(await page.getByTestId('sources-summary').count(), 0);
});
