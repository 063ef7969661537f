// node screenshots.mjs DIRECTORY: the README's pictures, of a daemon with a busy hour behind it.
import { join } from 'node:path';

import * as h from './harness.mjs';

const endings = [];
const t = { after: (end) => endings.unshift(end) };
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// The same each time.
let state = 7;
function random() {
  state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
  return state / 2_147_483_648;
}
const between = (low, high) => low + (high - low) * random() ** 2; // mostly low

// Agents that think, ask, work and begin again, in the daemon's time.
class Team {
  constructor(daemon, resource, names, habits) {
    this.daemon = daemon;
    this.resource = resource;
    this.habits = habits;
    this.agents = names.map((name, i) => ({ name, state: 'thinking', until: 2 * i }));
  }

  // How many of them are at work at `second` of the hour.
  active(second) {
    const wave = 0.5 + 0.5 * Math.sin((second / 3600) * 2 * Math.PI * 2.3 + 0.5);
    return Math.ceil(this.agents.length * (this.habits.least + (1 - this.habits.least) * wave));
  }

  async step(second) {
    const active = this.active(second);
    for (const [i, agent] of this.agents.entries()) {
      const rested = agent.state === 'thinking' && second >= agent.until;
      if (rested && i < active) this.ask(agent, second);
      if (agent.state === 'admitted') {
        agent.state = 'working';
        agent.until = second + between(...this.habits.work);
      } else if (agent.state === 'working' && second >= agent.until) {
        await this.post(`/v1/permits/${agent.permit}`, undefined, 'DELETE');
        agent.state = 'thinking';
        agent.until = second + between(...this.habits.think);
      }
    }
  }

  ask(agent, second) {
    const { tokens, usd } = this.habits;
    const cost = { tokens: Math.round(between(...tokens)), usd };
    const body = { resource: this.resource, agent: agent.name, cost, wait_ms: 300_000 };
    agent.state = 'asking';
    this.post('/v1/acquire', { ...body, hold_ms: 3_600_000 }).then(
      ({ body: { permit } }) => Object.assign(agent, permit ? { state: 'admitted', permit } : {
        state: 'thinking', until: second + 5,
      }),
      () => Object.assign(agent, { state: 'thinking', until: second + 5 }),
    );
  }

  // A connection that rested may be closed in the daemon's time at the moment that it is used.
  async post(path, body, method = 'POST') {
    return h.post(this.daemon, path, body, { method }).catch(() =>
      h.post(this.daemon, path, body, { method }),
    );
  }
}

const numbered = (role, count) => Array.from({ length: count }, (_, i) => `${role}-${i + 1}`);

async function busy_daemon() {
  const fake = await h.fake_provider(t);
  const daemon = await h.PageDaemon.start(t, [
    {
      name: 'anthropic',
      domain: 'api.anthropic.com',
      tokens_per_minute: 300_000,
      max_concurrency: 16,
      budget: { usd: 75, per: '1d' },
    },
    {
      name: 'openai',
      domain: 'api.openai.com',
      max_concurrency: 12,
      limits: [
        { unit: 'requests', amount: 500, per: '1m', algorithm: 'token_bucket', burst: 50 },
        { unit: 'tokens', amount: 800_000, per: '1m', algorithm: 'sliding_window' },
      ],
    },
    h.provider('mistral', fake, {
      domain: 'api.mistral.ai',
      limits: [{ unit: 'requests', amount: 60, per: '1m', algorithm: 'token_bucket', burst: 10 }],
    }),
  ]);
  const teams = [
    new Team(
      daemon,
      'anthropic',
      [...numbered('planner', 3), ...numbered('reviewer', 4), ...numbered('researcher', 7)],
      { least: 0.3, work: [2, 7], think: [1, 9], tokens: [1_000, 18_500], usd: 0.004 },
    ),
    new Team(daemon, 'openai', [...numbered('tester', 4), ...numbered('writer', 3)], {
      least: 0.6, work: [2, 9], think: [2, 12], tokens: [1_000, 12_000], usd: 0.002,
    }),
    new Team(daemon, 'mistral', numbered('scout', 3), {
      least: 1, work: [1, 4], think: [6, 20], tokens: [500, 3_000], usd: 0.001,
    }),
  ];
  let second = 0;
  const step = async (seconds) => {
    for (const team of teams) await team.step(second);
    await sleep(4); // for those who ask, to arrive
    await daemon.pass(seconds);
    second += seconds;
  };
  // The provider refuses a call now and then, without a word on when to come back.
  const refusals = [900, 2_380, 3_480];
  while (second < 3_600) {
    if (refusals.length > 0 && second >= refusals[0]) {
      refusals.shift();
      fake.set({ next: [{ status: 429 }] });
      h.call(daemon, 'mistral', 'scout-2').catch(() => {});
    }
    await step(2);
  }
  return { daemon, step };
}

const directory = process.argv[2];
const { daemon, step } = await busy_daemon();
let shooting = true;
const time = (async () => {
  while (shooting) {
    await step(1);
    await sleep(300);
  }
})();
const shots = [
  ['page-light', { colorScheme: 'light' }],
  ['page-dark', { colorScheme: 'dark' }],
  ['page-phone', { colorScheme: 'light', viewport: { width: 390, height: 844 } }],
];
for (const [name, settings] of shots) {
  const page = await h.open(t, `${daemon.url}/#/provider/anthropic`, {
    viewport: { width: 1280, height: 1312 },
    deviceScaleFactor: 1.25,
    ...settings,
  });
  await h.live(page);
  await page.getByRole('img', { name: /Use of limits/ }).waitFor();
  await page.screenshot({ path: join(directory, `${name}.png`), animations: 'disabled' });
}
shooting = false;
await time;
for (const end of endings) await end();
await (await h.the_browser()).close();
