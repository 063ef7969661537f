// What the page must never do or tell.
import assert from 'node:assert/strict';
import test, { after } from 'node:test';

import * as h from './harness.mjs';

const secret = {
  key: 'sk-canary-key-5f0c1d2e3b',
  other_key: 'sk-canary-other-77aa88bb',
  admin: 'canary-admin-token-91d2',
  client: 'canary-client-token-64f0',
  password: 'canary-password-c0ffee',
};

const guarded = (async () => {
  const fake = await h.fake_provider({ after });
  const directory = await h.temporary_directory({ after });
  const main = await h.write_secret(directory, 'weir.json', {
    store: `postgresql://weir:${secret.password}@127.0.0.1:1/weir`,
    on_store_failure: 'memory',
    auth: {
      tokens: [
        { name: 'ops', scope: 'admin', token: secret.admin },
        { name: 'agents', scope: 'client', token: secret.client },
      ],
    },
  });
  const limits = [{ unit: 'requests', amount: 2, per: '1s', algorithm: 'token_bucket', burst: 2 }];
  const weir = await h.Weir.start(
    { after },
    [
      h.provider('first', fake, { limits, api_key: secret.key }),
      h.provider('broken', { url: 'http://127.0.0.1:1' }, { api_key: secret.other_key }),
    ],
    ['--config', main, '--durability', 'exact'],
  );
  return { fake, weir };
})();

test('the policy forbids all that is not ours, and nothing on the page offends it', async (t) => {
  const fake = await h.fake_provider(t);
  const weir = await h.Weir.start(t, [h.provider('first', fake, { limit: 300, period: '1m' })]);
  const { headers } = await fetch(weir.url);
  const policy = headers.get('content-security-policy');
  assert.match(policy, /default-src 'none'/);
  assert.doesNotMatch(policy, /unsafe|\*|https?:/);
  assert.equal(headers.get('x-content-type-options'), 'nosniff');
  await h.call(weir, 'first', 'planner-1');
  const page = await h.open(t, weir.url);
  await h.live(page);
  for (const hash of ['#/provider/first', '#/events', '#/sources']) {
    await page.goto(`${weir.url}/${hash}`);
    await page.getByRole('heading', { level: 1 }).waitFor();
  }
  await page.goto(`${weir.url}/#/provider/first`);
  await page.getByTestId('pause').click();
  await page.keyboard.press('Escape');
  assert.deepEqual(page.troubles, []);

  await page.evaluate(() => {
    const script = document.createElement('script');
    script.textContent = 'window.injected = true';
    document.body.append(script);
  });
  await h.eventually(() => page.troubles.some((text) => /script-src/.test(text)), 'a complaint');
  assert.equal(await page.evaluate(() => window.injected), undefined);
});

test('names of agents and models are text, whatever is in them', async (t) => {
  const fake = await h.fake_provider(t);
  const weir = await h.Weir.start(t, [
    h.provider('first', fake, { limits: [{ unit: 'requests', amount: 1, per: '1h' }] }),
  ]);
  const agent = '<img src=x onerror="window.injected=1">';
  await h.post(weir, '/v1/acquire', { resource: 'first', agent });
  const end = new AbortController();
  t.after(() => end.abort());
  const model = '<script>window.injected=1</script>';
  const body = { resource: 'first', agent, model, wait_ms: 60_000 };
  h.post(weir, '/v1/acquire', body, { signal: end.signal }).catch(() => {});
  const page = await h.open(t, `${weir.url}/#/provider/first`);
  await h.reads(page.getByTestId('agents'), /<img src=x onerror="window.injected=1">/);
  await h.reads(page.getByTestId('queue'), /<script>window/);
  assert.equal(await page.evaluate(() => window.injected), undefined);
  assert.equal(await page.locator('main img').count(), 0);
  assert.deepEqual(page.troubles, []);
});

test('no secret is in any byte that the browser receives', async (t) => {
  const { fake, weir } = await guarded;
  const tap = await h.Tap.start(t, weir.address);
  const page = await h.open(t, tap.url);
  await page.getByLabel('Token').fill(secret.admin);
  await page.keyboard.press('Enter');
  await h.live(page);
  fake.set({ next: [{ status: 429 }] });
  const token = secret.client;
  for (const name of ['first', 'broken', 'first']) await h.call(weir, name, 'planner-1', { token });
  for (const hash of ['#/provider/first', '#/provider/broken', '#/events', '#/sources']) {
    await page.goto(`${tap.url}/${hash}`);
    await page.getByRole('heading', { level: 1 }).waitFor();
  }
  await page.goto(`${tap.url}/#/provider/first`);
  await page.getByTestId('change-limit').first().click();
  await page.getByTestId('dialog-confirm').click();
  await page.locator('[data-testid=event][data-type=operated]').first().waitFor();
  const headers = { authorization: `Bearer ${secret.admin}` };
  for (const path of ['/api/status', '/v1/resources', '/v1/news', '/metrics']) {
    const ask = async ([to, init]) => {
      const answer = await fetch(to, init);
      await answer.text();
      return answer.status;
    };
    assert.equal(await page.evaluate(ask, [path, { headers }]), 200, path);
  }
  await h.eventually(() => (tap.events.get('point') ?? 0) > 0, 'a point of history', 15_000);

  assert.ok(Buffer.concat(tap.sent).includes(`Bearer ${secret.admin}`), 'the tap sees all');
  const received = Buffer.concat(tap.received);
  assert.ok(received.includes('event: live') && received.includes('planner-1'));
  for (const [name, text] of Object.entries(secret)) {
    assert.equal(received.indexOf(text), -1, name);
  }
});
