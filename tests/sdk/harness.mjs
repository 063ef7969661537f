// What the tests share: a fake provider, a Weir in front of it, and clients of both.
import Anthropic from '@anthropic-ai/sdk';
import { GoogleGenAI } from '@google/genai';
import OpenAI, { AzureOpenAI } from 'openai';

import { FakeProvider } from './fake_provider.mjs';
import { Weir } from './weir.mjs';

export * from './weir.mjs';
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

// A day's budget that is not renewed while a test runs, whenever that is.
const reset = new Date(Date.now() + 12 * 3_600_000).toISOString().slice(11, 16);
export const budget = (usd) => ({ usd, reset });

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
