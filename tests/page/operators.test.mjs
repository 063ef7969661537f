// Who may do what from the page, and what comes of it.
import assert from 'node:assert/strict';
import test from 'node:test';

import * as h from './harness.mjs';

const tokens = {
  admin: 'admin-0123456789abcdef',
  read: 'read-0123456789abcdef',
  client: 'client-0123456789abcdef',
};

async function guarded(t, providers) {
  const directory = await h.temporary_directory(t);
  const main = await h.write_secret(directory, 'weir.json', {
    auth: {
      tokens: Object.entries(tokens).map(([scope, token]) => ({ name: `${scope}s`, scope, token })),
    },
  });
  return h.Weir.start(t, providers, ['--config', main]);
}

const paid = (fake) =>
  h.provider('paid', fake, {
    limits: [
      { unit: 'requests', amount: 60, per: '1m', algorithm: 'token_bucket', burst: 20 },
      { unit: 'tokens', amount: 5000, per: '1h', algorithm: 'sliding_window' },
    ],
  });

const event = (page, text) =>
  page.locator('[data-testid=event][data-type=operated]', { hasText: text });

async function give(page, token) {
  await page.getByLabel('Token').fill(token);
  await page.keyboard.press('Enter');
}

async function answer(page, testid, button) {
  await page.getByTestId(testid).first().click();
  const dialog = page.getByRole('dialog');
  await dialog.waitFor();
  await dialog.getByRole('button', { name: button }).click();
  await dialog.waitFor({ state: 'hidden' });
}

test('an operator changes a limit, and all others stay as they were', async (t) => {
  const weir = await h.Weir.start(t, [paid(await h.fake_provider(t))]);
  const before = await weir.get('/v1/resources/paid');
  const page = await h.open(t, `${weir.url}/#/provider/paid`);
  const change = page.getByRole('button', { name: 'Change requests per 1m' });
  await change.click();
  await h.reads(page.getByRole('dialog'), /paid[^]*requests per 1m/);
  await page.getByTestId('dialog-amount').fill('7');
  await page.getByTestId('dialog-cancel').click();
  await page.getByRole('dialog').waitFor({ state: 'hidden' });
  assert.deepEqual(await weir.get('/v1/resources/paid'), before, 'cancelled: nothing has changed');

  await change.click();
  await page.getByTestId('dialog-amount').fill('120');
  await page.getByTestId('dialog-confirm').click();
  await page.getByRole('dialog').waitFor({ state: 'hidden' });
  await h.reads(page.getByTestId('notice'), /changed/);
  const after = await weir.get('/v1/resources/paid');
  const specs = ({ limits }) => limits.map(({ spec }) => spec);
  const wanted = specs(before);
  Object.assign(wanted[0], { amount: 120, burst: 40 }); // as large a part of it as before
  assert.deepEqual(specs(after), wanted);
  await h.reads(event(page, 'paid'), /changed requests per 1m of paid from 60 to 120/);
  assert.deepEqual(page.troubles, []);
});

test('what another operator changes meanwhile stays changed', async (t) => {
  const weir = await h.Weir.start(t, [paid(await h.fake_provider(t))]);
  const specs = async () => (await weir.get('/v1/resources/paid')).limits.map(({ spec }) => spec);
  const page = await h.open(t, `${weir.url}/#/provider/paid`);
  await page.getByRole('button', { name: 'Change requests per 1m' }).click();
  await page.getByTestId('dialog-amount').fill('120');
  const [requests, tokens] = await specs();
  const limits = [requests, { ...tokens, amount: 300_000 }];
  await h.post(weir, '/v1/resources/paid', { limits }, { method: 'PUT' });
  await page.getByTestId('dialog-confirm').click();
  await page.getByRole('dialog').waitFor({ state: 'hidden' });
  assert.deepEqual((await specs()).map(({ amount }) => amount), [120, 300_000]);
  await event(page, 'changed tokens per 1h of paid from 5,000 to 300,000').waitFor();
});

test('what the daemon refuses is said in the dialog', async (t) => {
  const weir = await h.Weir.start(t, [paid(await h.fake_provider(t))]);
  const before = await weir.get('/v1/resources/paid');
  const page = await h.open(t, `${weir.url}/#/provider/paid`);
  await page.getByRole('button', { name: 'Change requests per 1m' }).click();
  await page.getByTestId('dialog-amount').fill('1e30');
  await page.getByTestId('dialog-confirm').click();
  await h.reads(page.getByTestId('dialog-problem'), /did not work: amount: must be/);
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'hidden' });
  assert.deepEqual(await weir.get('/v1/resources/paid'), before);
});

test('a daemon that does not answer is not waited for without end', async (t) => {
  const weir = await h.Weir.start(t, [paid(await h.fake_provider(t))]);
  const page = await h.open(t, `${weir.url}/#/provider/paid`);
  await h.live(page);
  await page.evaluate(() => {
    const real = AbortSignal.timeout;
    AbortSignal.timeout = (ms) => real.call(AbortSignal, ms / 100);
  });
  await page.route('**/pause', () => {}); // never answered
  await page.getByTestId('pause').click();
  await page.getByTestId('dialog-confirm').click();
  await h.reads(page.getByTestId('dialog-problem'), /has not answered for 15 s/);
});

test('what fails after its dialog is closed is told nevertheless', async (t) => {
  const weir = await h.Weir.start(t, [paid(await h.fake_provider(t))]);
  const page = await h.open(t, `${weir.url}/#/provider/paid`);
  let fail;
  const failing = new Promise((resolve) => (fail = resolve));
  await page.route('**/pause', async (route) => {
    await failing;
    await route.fulfill({ status: 503, json: { error: 'stopping' } });
  });
  await page.getByTestId('pause').click();
  const sent = page.waitForRequest('**/pause');
  await page.getByTestId('dialog-confirm').click();
  await sent;
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'hidden' });
  fail();
  await h.reads(page.getByTestId('notice'), /did not work: stopping/);
});

test('an operator pauses, drains and resumes, each after a question', async (t) => {
  const weir = await h.Weir.start(t, [paid(await h.fake_provider(t))]);
  const page = await h.open(t, `${weir.url}/#/provider/paid`);
  const state = async () => (await weir.get('/v1/live')).resources[0].state;
  await page.getByTestId('pause').click();
  await h.reads(page.getByRole('dialog'), /Pause paid\?/);
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'hidden' });
  assert.equal(await state(), 'open', 'Escape changes nothing');

  await answer(page, 'pause', 'Pause');
  assert.equal(await state(), 'paused');
  await h.reads(page.getByTestId('state'), /paused/);
  await h.reads(page.locator('[data-testid=warning][data-code=paused]'), /paid/);
  await event(page, 'paused paid').waitFor();

  const waiting = h.post(weir, '/v1/acquire', { resource: 'paid', agent: 'w', wait_ms: 60_000 });
  await h.reads(page.getByTestId('queue'), /w/);
  await answer(page, 'drain', 'Cancel');
  assert.equal((await weir.get('/v1/live')).resources[0].waiting, 1, 'cancelled: it waits still');
  await answer(page, 'drain', 'Drain queue');
  assert.equal((await waiting).status, 503);
  await event(page, 'drained the queue of paid').waitFor();

  await answer(page, 'resume', 'Resume');
  assert.equal(await state(), 'open');
  await event(page, 'resumed paid').waitFor();
  await h.reads(page.getByTestId('state'), /open/);
  await page.getByTestId('all-clear').waitFor();
  await page.getByTestId('nav-events').click();
  await event(page, 'paused paid').waitFor();
});

test('an event of another day says which', async (t) => {
  const weir = await h.Weir.start(t, [paid(await h.fake_provider(t))]);
  const page = await h.open(t, 'about:blank');
  const events = ['2024-02-29T12:34:56Z', new Date().toISOString()].map((time) => ({
    type: 'operated', time, what: 'pause', resource: 'paid', by: 'admins',
  }));
  await page.route('**/v1/news', (route) => route.fulfill({ json: { events } }));
  await page.goto(`${weir.url}/#/events`);
  const times = page.getByTestId('event').locator('time');
  await h.reads(times, /^\d\d:\d\d:\d\d\n29 Feb 12:34:56$/);
});

test('asks for a token, says when it is wrong, and keeps it in this tab alone', async (t) => {
  const weir = await guarded(t, [paid(await h.fake_provider(t))]);
  const page = await h.open(t, weir.url);
  await h.reads(page.getByTestId('token-form'), /wants a token/);
  await give(page, 'wrong-0123456789abcdef');
  await h.reads(page.getByRole('alert'), /does not know this token/);
  await give(page, tokens.client);
  await h.reads(page.getByTestId('token-form'), /may not|scope/);
  await give(page, `“${tokens.admin}”`);
  await h.reads(page.getByRole('alert'), /cannot be sent: “/);
  await give(page, tokens.admin);
  await h.live(page);
  await answer(page, 'pause', 'Pause');
  await event(page, 'admins paused paid').waitFor();

  const kept = await page.evaluate(() => ({
    local: { ...localStorage },
    cookies: document.cookie,
    address: location.href,
  }));
  assert.deepEqual(kept, { local: {}, cookies: '', address: `${weir.url}/` });
  for (const { url } of page.requests) {
    for (const token of Object.values(tokens)) assert.ok(!url.includes(token), url);
  }
  await page.reload();
  await h.live(page);
  const other = await page.context().newPage();
  await other.goto(weir.url);
  await other.getByTestId('token-form').waitFor();
});

test('who may only look is offered nothing to change', async (t) => {
  const weir = await guarded(t, [paid(await h.fake_provider(t))]);
  const page = await h.open(t, `${weir.url}/#/provider/paid`);
  await give(page, tokens.read);
  await h.live(page);
  await page.getByTestId('gauge').first().waitFor();
  for (const testid of ['pause', 'drain', 'resume', 'change-limit']) {
    assert.equal(await page.getByTestId(testid).count(), 0, testid);
  }
  await h.reads(page.getByTestId('daemon'), /look/);

  await page.getByRole('button', { name: 'Use another token' }).click();
  await h.reads(page.getByTestId('token-form'), /wants a token/);
  await give(page, tokens.admin);
  await page.getByTestId('pause').waitFor();
});

test('an answer to the token before says nothing about the one in use', async (t) => {
  const weir = await guarded(t, [paid(await h.fake_provider(t))]);
  const page = await h.open(t, weir.url);
  const answer_to = (token, path) =>
    h.hold(page, path, (request) => request.headers().authorization === `Bearer ${token}`);
  const come = async (path, answer) => {
    const answered = page.waitForResponse(path);
    answer.let_go();
    await (await answered).finished();
    const shown = page.getByTestId('daemon').or(page.getByTestId('token-form'));
    const before = await shown.innerText(); // a daemon's tells since when it runs
    await h.eventually(async () => (await shown.innerText()) !== before, 'the page goes on');
  };
  const refusal = await answer_to(tokens.client, '**/v1/news');
  await give(page, tokens.client);
  await h.reads(page.getByTestId('token-form'), /may not/);
  const allowance = await answer_to(tokens.admin, '**/v1/live');
  await give(page, tokens.admin);
  await h.live(page);
  await come('**/v1/news', refusal);
  assert.equal(await page.getByTestId('token-form').count(), 0);

  await page.getByRole('button', { name: 'Use another token' }).click();
  await h.reads(page.getByTestId('token-form'), /wants a token/);
  await give(page, tokens.read);
  await h.live(page);
  await come('**/v1/live', allowance);
  assert.match(await page.getByTestId('daemon').innerText(), /look/);
  assert.equal(await page.getByTestId('pause').count(), 0);
});
