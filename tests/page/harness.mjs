// What the tests share: a browser, a daemon behind the page, and agents that keep it busy.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import net from 'node:net';
import readline from 'node:readline';
import { after } from 'node:test';

import { chromium } from 'playwright-core';

import { FakeProvider } from './fake_provider.mjs';
import { Weir, eventually, temporary_directory, write_secret } from './weir.mjs';

export { FakeProvider, Weir, eventually, temporary_directory, write_secret };

const kFlags = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

let browser; // one for a file
after(async () => (await browser)?.close());
export function the_browser() {
  return (browser ??= chromium.launch({ executablePath: process.env.CHROMIUM, args: kFlags }));
}

// A page of its own, at `url`. What it asked for is in `page.requests`, what it complained about in
// `page.troubles`. Ends with the test.
export async function open(t, url, settings = {}) {
  const context = await (await the_browser()).newContext({
    locale: 'en-GB',
    timezoneId: 'UTC',
    viewport: { width: 1280, height: 900 },
    ...settings,
  });
  t.after(() => context.close());
  context.setDefaultTimeout(20_000);
  await context.addInitScript(() => {
    addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) => {
      console.error(`content security policy: ${violatedDirective} ${blockedURI}`);
    });
  });
  const page = await context.newPage();
  page.requests = [];
  page.troubles = [];
  page.on('request', (request) => {
    page.requests.push({ method: request.method(), url: request.url(), sent: request });
  });
  page.on('pageerror', (error) => page.troubles.push(String(error)));
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) page.troubles.push(message.text());
  });
  await page.goto(url);
  return page;
}

// How often it asked for something with `path` in its address.
export const asked = (page, path) => page.requests.filter(({ url }) => url.includes(path)).length;

// Keeps the answer to the first of `requests` at `path`: `answered` when there is one, `let_go`
// gives it to the browser.
export async function hold(page, path, requests = () => true) {
  const held = { taken: false };
  held.answered = new Promise((resolve) => (held.has_answered = resolve));
  const gone = new Promise((resolve) => (held.let_go = resolve));
  await page.route(path, async (route) => {
    if (held.taken || !requests(route.request())) return route.fallback();
    held.taken = true;
    const response = await route.fetch();
    held.has_answered();
    await gone;
    return route.fulfill({ response });
  });
  return held;
}

// Until the page shows live data.
export const live = (page) => page.locator('[data-testid=pulse][data-state=live]').waitFor();

// Until what is at `locator` reads like `pattern`; returns its text.
export async function reads(locator, pattern, patience_ms = 15_000) {
  let text = '';
  await eventually(async () => {
    text = (await locator.allInnerTexts()).join('\n').replace(/[^\S\n]+/g, ' ');
    return pattern.test(text);
  }, `${pattern}`, patience_ms).catch((error) => {
    throw new Error(`${error.message}; ${locator} reads: ${text}`);
  });
  return text;
}

// A provider file that stands before a fake provider.
export const provider = (name, fake, config = {}) => ({
  name,
  domain: `${name}.example.com`,
  profile: 'openai',
  upstream: fake.url,
  api_key: 'sk-configured-0123456789',
  ...config,
});

export async function fake_provider(t, settings = {}) {
  const fake = await FakeProvider.start({ rate_headers: false, record: false, ...settings });
  t.after(() => fake.close());
  return fake;
}

// One call of `agent` through the proxy; its status.
export async function call(weir, name, agent, { token, signal, max_tokens = 10 } = {}) {
  const answer = await fetch(`${weir.url}/proxy/${name}/v1/chat/completions`, {
    method: 'POST',
    signal,
    headers: { 'x-weir-agent': agent, ...(token && { 'x-weir-token': token }) },
    body: JSON.stringify({
      model: 'gpt-4o',
      max_tokens,
      messages: [{ role: 'user', content: 'How high is the water at the weir?' }],
    }),
  });
  await answer.arrayBuffer();
  return answer.status;
}

// Agents that make one call after another, until the test ends or one is not served.
export function agents(t, names, make_call) {
  const end = new AbortController();
  const work = async (name) => {
    while ((await make_call(name, end.signal)) === 200);
  };
  const all = names.map((name) => work(name).catch(() => {})); // the daemon stops
  t.after(async () => {
    end.abort();
    await Promise.all(all);
  });
}

export async function post(weir, path, body, { method = 'POST', token, signal } = {}) {
  const answer = await fetch(weir.url + path, {
    method,
    signal,
    headers: token ? { authorization: `Bearer ${token}` } : {},
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  return { status: answer.status, body: text === '' ? null : JSON.parse(text) };
}

// Between a browser and a daemon: keeps what the browser sends and receives, and counts events.
export class Tap {
  received = [];
  sent = [];
  events = new Map();

  static async start(t, address) {
    const tap = new Tap();
    const [host, port] = address.split(':');
    const sockets = new Set();
    const server = net.createServer((browser_side) => {
      const daemon_side = net.connect(Number(port), host);
      const pass = (from, to, keep) => {
        sockets.add(from);
        from.on('data', keep).pipe(to);
        from.on('error', () => to.destroy());
        from.on('close', () => to.destroy());
      };
      pass(browser_side, daemon_side, (bytes) => tap.sent.push(bytes));
      pass(daemon_side, browser_side, (bytes) => tap.received.push(bytes));
      readline.createInterface({ input: daemon_side }).on('line', (line) => {
        const [, type] = line.match(/^event: (.*)$/) ?? [];
        if (type) tap.events.set(type, (tap.events.get(type) ?? 0) + 1);
      });
    });
    await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
    tap.url = `http://127.0.0.1:${server.address().port}`;
    t.after(() => {
      for (const socket of sockets) socket.destroy();
      server.close();
    });
    return tap;
  }
}

// A daemon with a day behind it: tests/page/daemon.cc.
export class PageDaemon {
  static async start(t, providers) {
    const daemon = new PageDaemon();
    const directory = await temporary_directory(t);
    const files = [];
    for (const { name, ...more } of providers) {
      files.push(await write_secret(directory, `${name}.json`, { name, ...more }));
    }
    const main = { durability: 'none', providers: files };
    await write_secret(directory, 'weir.yaml', main);
    daemon.process = spawn(process.env.PAGE_DAEMON, [directory], {
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    readline.createInterface({ input: daemon.process.stderr }).on('line', (line) => {
      if (!line.includes(' info ')) console.error(line);
    });
    t.after(async () => {
      if (daemon.process.exitCode !== null) return;
      daemon.process.stdin.end();
      await once(daemon.process, 'exit');
    });
    const lines = readline.createInterface({ input: daemon.process.stdout });
    daemon.lines = lines[Symbol.asyncIterator]();
    const [, port] = (await daemon.line()).split(' ');
    daemon.address = `127.0.0.1:${port}`;
    daemon.url = `http://${daemon.address}`;
    return daemon;
  }

  async line() {
    const { value, done } = await this.lines.next();
    if (done) throw new Error('the page daemon has ended');
    return value;
  }

  // So many seconds of its traffic.
  async step(seconds) {
    this.process.stdin.write(`step ${seconds}\n`);
    await this.line();
  }

  // So many seconds without.
  async pass(seconds) {
    this.process.stdin.write(`pass ${seconds}\n`);
    await this.line();
  }
}

export const others = Array.from({ length: 18 }, (_, i) => `other-${i}`);

// Twenty providers; it is 14:00.
export const a_day = (t) =>
  PageDaemon.start(t, [
    {
      name: 'anthropic',
      domain: 'api.anthropic.com',
      tokens_per_minute: 300_000,
      max_concurrency: 16,
      limits: [{ unit: 'requests', amount: 4000, per: '1m', algorithm: 'sliding_window' }],
      budget: { usd: 40.6, per: '1d' },
    },
    { name: 'spent', domain: 'spent.example.com', budget: { usd: 0.01, per: '1d' } },
    ...others.map((name) => ({
      name,
      domain: `${name}.example.com`,
      tokens_per_minute: 300_000,
      limits: [{ unit: 'requests', amount: 4000, per: '1m', algorithm: 'sliding_window' }],
    })),
  ]);

// Of a day, not of the hour before.
export const day_chart = /Mean time of a call, 14:\d\d to 14:\d\d/;
