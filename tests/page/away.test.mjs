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
    await h.reads(page.getByTestId('pulse'), /No data since/, 8_000);
  } finally {
    weir.process.kill('SIGCONT');
  }
  await h.live(page);
});
