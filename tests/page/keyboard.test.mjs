// The page without a mouse, and as a screen reader has it.
import assert from 'node:assert/strict';
import test, { after } from 'node:test';

import * as h from './harness.mjs';

const limits = [{ unit: 'requests', amount: 2, per: '1s', algorithm: 'token_bucket', burst: 1 }];
const kControls = new Set([
  'button', 'checkbox', 'combobox', 'link', 'meter', 'radio', 'searchbox', 'slider', 'spinbutton',
  'switch', 'tab', 'textbox',
]);

const daemon = (async () => {
  const fake = await h.fake_provider({ after });
  const names = ['one', 'two', 'three'];
  return h.Weir.start({ after }, names.map((name) => h.provider(name, fake, { limits })));
})();

const focused = (locator) => locator.evaluate((node) => node === document.activeElement);

// Whoever looks must see where the focus is.
const focus_shows = (page) =>
  page.evaluate(() => {
    const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(document.activeElement);
    return (outlineStyle !== 'none' && parseFloat(outlineWidth) >= 1) || boxShadow !== 'none';
  });

async function tab_to(page, locator) {
  for (let presses = 0; presses < 60; ++presses) {
    await page.keyboard.press('Tab');
    assert.ok(await focus_shows(page), 'the focus can be seen');
    if (await focused(locator)) return;
  }
  throw new Error(`Tab never reaches ${locator}`);
}

test('everything can be reached and done with the keyboard alone', async (t) => {
  const weir = await daemon;
  const page = await h.open(t, weir.url);
  await h.live(page);
  await page.keyboard.press('Tab');
  assert.match(await page.evaluate(() => document.activeElement.innerText), /skip/i);
  await page.keyboard.press('Enter');
  assert.ok(await focused(page.getByRole('main')));
  await page.reload();
  await h.live(page);

  await tab_to(page, page.getByTestId('provider-list').getByRole('link', { name: /two/ }));
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'two' }).waitFor();
  const pause = page.getByTestId('pause');
  await tab_to(page, pause);
  await page.keyboard.press('Enter');
  const dialog = page.getByRole('dialog', { name: /Pause two/ });
  await dialog.waitFor();
  for (let i = 0; i < 5; ++i) {
    await page.keyboard.press('Tab');
    const inside = await page.evaluate(() => {
      const { activeElement, body } = document;
      return activeElement === body || activeElement.closest('dialog') !== null;
    });
    assert.ok(inside, 'the focus stays in the dialog');
  }
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'hidden' });
  await h.eventually(() => focused(pause), 'the focus returns to the button');

  await tab_to(page, page.getByRole('button', { name: 'Change requests per 1s' }));
  await page.keyboard.press('Enter');
  await h.eventually(() => focused(page.getByTestId('dialog-amount')), 'the amount has the focus');
  await page.keyboard.type('5');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor({ state: 'hidden' });
  const { limits: now } = await weir.get('/v1/resources/two');
  assert.equal(now[0].spec.amount, 5);

  await page.goBack();
  await h.eventually(() => new URL(page.url()).hash === '' || page.url().endsWith('#/'), 'back');
});

// What a screen reader reads out of the live region: what is added or becomes another text.
const announced = (page) =>
  page.evaluateHandle(() => {
    const all = [];
    new MutationObserver((changes) => {
      for (const { type, target, addedNodes } of changes) {
        for (const node of type === 'characterData' ? [target] : addedNodes) {
          all.push(node.textContent);
        }
      }
    }).observe(document.querySelector('[aria-live=polite]'), {
      childList: true, characterData: true, subtree: true,
    });
    return all;
  });

test('what is wrong is announced when it comes, once, and notes are not', async (t) => {
  const weir = await daemon;
  const page = await h.open(t, weir.url);
  await h.live(page);
  const said = await announced(page);
  const hears = (text) =>
    h.eventually(() => said.evaluate((all, one) => all.includes(one), text), text, 15_000);
  const end = new AbortController();
  t.after(async () => {
    end.abort();
    for (const name of ['one', 'two', 'three']) {
      await h.post(weir, `/v1/resources/${name}/resume`);
    }
  });
  await h.post(weir, '/v1/resources/two/pause'); // nobody waits: a note
  for (const resource of ['three', 'one']) {
    await h.post(weir, `/v1/resources/${resource}/pause`);
    h.post(weir, '/v1/acquire', { resource, wait_ms: 60_000 }, end).catch(() => {});
    await hears(`Warning: paused ${resource}`);
  }
  const clock = () => page.getByTestId('pulse').innerText();
  const before = await clock();
  await h.eventually(async () => (await clock()) !== before, 'a second passes');
  const all = (await said.jsonValue()).map((text) => `${text}\n`).join('');
  const stall = 'No data from the daemon\nLive\n'; // of a machine that stood still
  assert.equal(all.replaceAll(stall, ''), 'Warning: paused three\nWarning: paused one\n');

  weir.process.kill('SIGSTOP');
  try {
    await hears('No data from the daemon');
  } finally {
    weir.process.kill('SIGCONT');
  }
  await hears('Live');
});

async function tree(page) {
  const session = await page.context().newCDPSession(page);
  const { nodes } = await session.send('Accessibility.getFullAXTree');
  await session.detach();
  return nodes
    .filter(({ ignored }) => !ignored)
    .map(({ role, name, properties = [] }) => ({
      role: role?.value,
      name: name?.value ?? '',
      level: properties.find((property) => property.name === 'level')?.value.value,
    }));
}

function assert_well_formed(nodes, where) {
  const of = (role) => nodes.filter((node) => node.role === role);
  const nameless = nodes.filter(({ role, name }) => kControls.has(role) && name.trim() === '');
  assert.deepEqual(nameless, [], `${where}: every control has a name`);
  assert.deepEqual(of('image').filter(({ name }) => name === ''), [], `${where}: pictures too`);
  assert.equal(of('main').length, 1, `${where}: one main`);
  const levels = of('heading').map(({ level }) => level);
  assert.equal(levels.filter((level) => level === 1).length, 1, `${where}: one first heading`);
  levels.reduce((before, level) => {
    assert.ok(level <= before + 1, `${where}: headings ${levels} leave none out`);
    return level;
  });
}

test('has names, landmarks and headings in order, and no state by colour alone', async (t) => {
  const weir = await daemon;
  const names = Array.from({ length: 10 }, (_, i) => `planner-${i}`);
  h.agents(t, names, (name, signal) => h.call(weir, 'one', name, { signal }));
  await h.post(weir, '/v1/resources/two/pause');
  const page = await h.open(t, `${weir.url}/#/provider/one`);
  await page.getByRole('img', { name: /Use of limits/ }).waitFor();
  await page.getByRole('link', { name: /warning one/ }).waitFor();
  const nodes = await tree(page);
  assert_well_formed(nodes, 'a provider');
  const of = (role) => nodes.filter((node) => node.role === role).map(({ name }) => name);
  assert.equal(of('banner').length, 1);
  assert.ok(of('navigation').every((name) => name !== ''), 'navigations are told apart');
  const links = of('link').join('\n');
  assert.match(links, /two.*paused|paused.*two/i);
  assert.match(links, /three.*(open|quiet)|open.*three/i);
  assert.match(of('image').join('\n'), /Critical|Warning/);

  for (const at of ['events', 'sources']) {
    await page.goto(`${weir.url}/#/${at}`);
    await page.getByRole('heading', { level: 1 }).waitFor();
    assert_well_formed(await tree(page), at);
  }
  await page.goto(`${weir.url}/#/provider/one`);
  await page.getByTestId('drain').click();
  await page.getByRole('dialog').waitFor();
  const asked = await tree(page);
  assert.ok(asked.some(({ role, name }) => role === 'dialog' && name !== ''));
});
