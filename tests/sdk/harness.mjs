// What the tests share: a fake provider, a Weir in front of it, and clients of both.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import readline from 'node:readline';

import Anthropic from '@anthropic-ai/sdk';
import { GoogleGenAI } from '@google/genai';
import OpenAI, { AzureOpenAI } from 'openai';

import { FakeProvider } from './fake_provider.mjs';

export { Anthropic, FakeProvider, GoogleGenAI, OpenAI };

export const kKey = 'sk-configured-0123456789'; // what Weir holds
export const kDummy = 'sk-dummy'; // what agents hold
export const models = {
  openai: 'gpt-4o',
  azure: 'our-gpt-4o',
  anthropic: 'claude-opus-4-8',
  gemini: 'gemini-2.5-flash',
};
const domains = {
  openai: 'api.openai.com',
  anthropic: 'api.anthropic.com',
  gemini: 'generativelanguage.googleapis.com',
  mistral: 'api.mistral.ai',
  groq: 'api.groq.com',
  azure: 'example.openai.azure.com',
  generic: 'api.example.com',
};

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// Asks until the answer is true; what is settled after an answer is seen a moment later.
export async function eventually(condition, what, patience_ms = 5_000) {
  const until = performance.now() + patience_ms;
  while (!(await condition())) {
    if (performance.now() > until) throw new Error(`never: ${what}`);
    await sleep(10);
  }
}

// Gone with the test.
export async function temporary_directory(t) {
  const directory = await mkdtemp(join(tmpdir(), 'weir-sdk-'));
  t.after(() => rm(directory, { recursive: true }));
  return directory;
}

// A file that holds secrets.
export async function write_secret(directory, name, content) {
  const file = join(directory, name);
  await writeFile(file, JSON.stringify(content), { mode: 0o600 });
  return file;
}

export class Weir {
  // `providers`: provider files as objects. Ends with the test.
  static async start(t, providers, args = []) {
    const weir = new Weir();
    const directory = await temporary_directory(t);
    const files = [];
    for (const provider of providers) {
      const file = await write_secret(directory, `${provider.name}.json`, provider);
      files.push('--provider', file);
    }
    const durability = args.includes('--durability') ? [] : ['--durability', 'none'];
    const all = ['start', '--listen', '127.0.0.1:0', '--log', 'json', ...durability, ...files];
    weir.process = spawn(process.env.WEIR, [...all, ...args], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    weir.log = [];
    t.after(() => weir.stop());
    await new Promise((listening, failed) => {
      weir.process.once('error', failed);
      readline.createInterface({ input: weir.process.stderr }).on('line', (line) => {
        weir.log.push(line);
        if (!line.includes('"listening"')) return;
        weir.address = JSON.parse(line).address;
        weir.url = `http://${weir.address}`;
        listening();
      });
      weir.process.once('exit', (code) => {
        failed(new Error(`weir ended with ${code}: ${weir.log.join('\n')}`));
      });
    });
    return weir;
  }

  async stop(signal = 'SIGTERM') {
    const { process: child } = this;
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill(signal);
    await ended;
  }

  async get(path) {
    const answer = await fetch(this.url + path);
    return answer.json();
  }

  // What is left of a provider's limit, by its name.
  async left(provider, limit) {
    const { limits } = await this.get(`/v1/resources/${provider}`);
    return limits.find(({ name }) => name === limit).available;
  }

  // Until nothing of the provider is held: all calls are over and settled.
  async settled(provider, limit, amount) {
    let left;
    await eventually(
      async () => (left = await this.left(provider, limit)) === amount,
      `${amount} left of '${limit}'`,
    ).catch((error) => {
      throw new Error(`${error.message}, but ${left}`);
    });
  }
}

// A fake provider and a Weir before it that is configured with `config`, as profile `profile`.
export async function behind_weir(t, profile, config = {}, settings = {}) {
  const fake = await FakeProvider.start(settings);
  t.after(() => fake.close());
  const weir = await Weir.start(t, [provider_file(profile, fake, config)]);
  return { fake, weir, url: `${weir.url}/proxy/${profile}` };
}

export const provider_file = (profile, fake, config = {}) => ({
  name: profile,
  domain: domains[profile],
  profile,
  upstream: fake.url,
  api_key: kKey,
  ...config,
});

// Clients that show every failure: they retry nothing unless told to, and wait for a short time.
const plain = { apiKey: kDummy, maxRetries: 0, timeout: 20_000 };
export const openai = (url, options = {}) =>
  new OpenAI({ ...plain, baseURL: `${url}/v1`, ...options });
export const azure = (url) =>
  new AzureOpenAI({
    ...plain,
    endpoint: url,
    deployment: models.azure,
    apiVersion: '2024-06-01',
  });
export const anthropic = (url, options = {}) =>
  new Anthropic({ ...plain, baseURL: url, ...options });
export const gemini = (url, options = {}) =>
  new GoogleGenAI({ apiKey: kDummy, httpOptions: { baseUrl: url, ...options } });

export const question = (text = 'How high is the water at the weir?') => [
  { role: 'user', content: text },
];

export const chat = (client, more = {}, options) =>
  client.chat.completions.create(
    { model: models.openai, messages: question(), max_tokens: 10, ...more },
    options,
  );
export const message = (client, more = {}, options) =>
  client.messages.create(
    { model: models.anthropic, messages: question(), max_tokens: 10, ...more },
    options,
  );

export async function collect(stream) {
  const all = [];
  for await (const event of stream) all.push(event);
  return all;
}

export const parallel = (count, work) =>
  Promise.allSettled(Array.from({ length: count }, (_, index) => work(index)));

// {served, refused, others} of settled promises; refused: 429.
export function outcomes(results) {
  const errors = results.filter(({ status }) => status === 'rejected').map((r) => r.reason);
  return {
    served: results.length - errors.length,
    refused: errors.filter(({ status }) => status === 429).length,
    others: errors.filter(({ status }) => status !== 429),
  };
}

export async function error_of(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error('it was expected to fail');
}
