// What passes the proxy is what was sent, in both directions.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import net from 'node:net';
import test from 'node:test';
import { promisify } from 'node:util';

import * as h from './harness.mjs';

const { models, question } = h;
const tools = {
  openai: [{ type: 'function', function: { name: 'open_gate', parameters: { type: 'object' } } }],
  anthropic: [{ name: 'open_gate', input_schema: { type: 'object' } }],
};
const picture = `data:image/png;base64,${'iVBORw0KGgo'.repeat(200)}`;

// One call of an SDK: plain gives the answer, streaming all its events.
const calls = {
  openai: {
    chat: (c) => h.chat(c),
    'chat with choices, a system text and a picture': (c) =>
      h.chat(c, {
        n: 2,
        messages: [
          { role: 'system', content: 'Be brief: größe' },
          {
            role: 'user',
            content: [
              { type: 'text', text: 'What is this?' },
              { type: 'image_url', image_url: { url: picture } },
            ],
          },
        ],
      }),
    'chat that calls a tool': (c) => h.chat(c, { tools: tools.openai, tool_choice: 'required' }),
    'chat as a stream': async (c) => h.collect(await h.chat(c, { stream: true })),
    'chat as a stream with usage': async (c) =>
      h.collect(await h.chat(c, { stream: true, stream_options: { include_usage: true } })),
    'chat as a stream of two choices': async (c) =>
      h.collect(await h.chat(c, { stream: true, n: 2 })),
    'chat as a stream that calls a tool': async (c) =>
      h.collect(
        await h.chat(c, { stream: true, tools: tools.openai, tool_choice: 'required' }),
      ),
    'the helper of streams': (c) =>
      c.chat.completions
        .stream({ model: models.openai, messages: question() })
        .finalChatCompletion(),
    responses: (c) => c.responses.create({ model: models.openai, input: 'How high?' }),
    'responses as a stream': async (c) =>
      h.collect(
        await c.responses.create({ model: models.openai, input: question(), stream: true }),
      ),
    embeddings: (c) => c.embeddings.create({ model: 'text-embedding-3-small', input: ['a', 'b'] }),
  },
  azure: {
    chat: (c) => h.chat(c),
    'chat as a stream': async (c) => h.collect(await h.chat(c, { stream: true })),
  },
  anthropic: {
    messages: (c) => h.message(c, { system: 'Be brief: größe' }),
    'messages that call a tool': (c) =>
      h.message(c, { tools: tools.anthropic, tool_choice: { type: 'any' } }),
    'messages as a stream': async (c) => h.collect(await h.message(c, { stream: true })),
    'the helper of streams': (c) =>
      c.messages
        .stream({ model: models.anthropic, max_tokens: 30, messages: question() })
        .finalMessage(),
    count_tokens: (c) => c.messages.countTokens({ model: models.anthropic, messages: question() }),
  },
  gemini: {
    generateContent: (c) =>
      c.models.generateContent({ model: models.gemini, contents: 'How high?' }),
    'generateContent as a stream': async (c) =>
      h.collect(
        await c.models.generateContentStream({ model: models.gemini, contents: 'How high?' }),
      ),
    countTokens: (c) => c.models.countTokens({ model: models.gemini, contents: 'How high?' }),
  },
};

for (const [profile, by_name] of Object.entries(calls)) {
  test(`${profile}: its SDK gets the same answers through the proxy`, async (t) => {
    const { fake, url } = await h.behind_weir(t, profile);
    for (const [name, call] of Object.entries(by_name)) {
      await t.test(name, async () => {
        const direct = await call(h[profile](fake.url));
        const proxied = await call(h[profile](url));
        // The SDKs' own classes and hidden fields aside: what a program can read.
        assert.deepEqual(JSON.parse(JSON.stringify(proxied)), JSON.parse(JSON.stringify(direct)));
        const [first, second] = fake.requests.slice(-2);
        if (!first.stream || first.api !== 'chat') assert.deepEqual(second.raw, first.raw);
        assert.equal(second.path, first.path);
      });
    }
    assert.equal(fake.counts.failed + fake.counts.limited, 0);
  });
}

test('an environment variable is all that an agent changes', async (t) => {
  const fake = await h.FakeProvider.start();
  t.after(() => fake.close());
  const files = ['openai', 'anthropic', 'gemini'].map((name) => h.provider_file(name, fake));
  const weir = await h.Weir.start(t, files);
  const agent = `
    import Anthropic from '@anthropic-ai/sdk';
    import { GoogleGenAI } from '@google/genai';
    import OpenAI from 'openai';
    const messages = [{ role: 'user', content: 'hi' }];
    const one = await new OpenAI().chat.completions.create({ model: 'gpt-4o', messages });
    const two = await new Anthropic().messages.create(
      { model: 'claude-opus-4-8', messages, max_tokens: 3 });
    const three = await new GoogleGenAI({ apiKey: process.env.GEMINI_API_KEY })
      .models.generateContent({ model: 'gemini-2.5-flash', contents: 'hi' });
    console.log(one.choices[0].message.content, two.content[0].text, three.text);`;
  const env = {
    ...process.env,
    OPENAI_BASE_URL: `${weir.url}/proxy/openai/v1`,
    OPENAI_API_KEY: 'none',
    ANTHROPIC_BASE_URL: `${weir.url}/proxy/anthropic`,
    ANTHROPIC_API_KEY: 'none',
    GOOGLE_GEMINI_BASE_URL: `${weir.url}/proxy/gemini`,
    GEMINI_API_KEY: 'none',
  };
  const args = ['--input-type=module', '-e', agent];
  const { stdout } = await promisify(execFile)(process.execPath, args, { env });
  assert.match(stdout, /^(drop| drop| größe)+\n$/);
  assert.deepEqual(fake.requests.map((call) => call.provider), ['openai', 'anthropic', 'gemini']);
});

const credentials = ['authorization', 'x-api-key', 'x-goog-api-key', 'api-key'];

for (const [profile, field, value] of [
  ['openai', 'authorization', `Bearer ${h.kKey}`],
  ['azure', 'api-key', h.kKey],
  ['anthropic', 'x-api-key', h.kKey],
  ['gemini', 'x-goog-api-key', h.kKey],
]) {
  test(`${profile}: agents hold no key, the provider sees the configured one`, async (t) => {
    const { fake, url } = await h.behind_weir(t, profile, {}, { key: h.kKey });
    await Object.values(calls[profile])[0](h[profile](url));
    // Whichever form a client sent is gone.
    const query = profile === 'gemini' ? `?key=${h.kDummy}&other=1` : '?other=1';
    await fetch(url + fake.requests[0].path + query, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        ...Object.fromEntries(credentials.map((name) => [name, h.kDummy])),
      },
      body: fake.requests[0].raw,
    });
    assert.equal(fake.requests.length, 2);
    for (const call of fake.requests) {
      assert.equal(call.headers[field], value);
      const sent = JSON.stringify([call.headers, call.query.toString()]);
      assert.ok(!sent.includes(h.kDummy), sent);
      assert.equal(call.status, 200);
    }
    assert.equal(fake.requests[1].query.get('other'), '1');
  });

  test(`${profile}: a client's own key is passed on only if configured`, async (t) => {
    const config = { api_key: undefined };
    const without = await h.behind_weir(t, profile, config);
    await Object.values(calls[profile])[0](h[profile](without.url));
    for (const name of credentials) assert.equal(without.fake.requests[0].headers[name], undefined);
    const passed = await h.behind_weir(t, profile, { ...config, pass_client_key: true });
    await Object.values(calls[profile])[0](h[profile](passed.url));
    const seen = passed.fake.requests[0].headers;
    assert.ok(credentials.some((name) => seen[name]?.endsWith(h.kDummy)), JSON.stringify(seen));
  });
}

test('headers of the client reach the provider unchanged, those for Weir do not', async (t) => {
  const { fake, url } = await h.behind_weir(t, 'openai');
  const headers = {
    'anthropic-beta': 'context-1m-2025-08-07,fine-grained-tool-streaming-2025-05-14',
    'anthropic-version': '2023-06-01',
    'openai-organization': 'org-mine',
    'openai-project': 'proj-mine',
    'x-request-id': 'mine-1',
    'idempotency-key': 'once',
    'user-agent': 'agent/1.0 (test)',
    accept: 'application/json',
  };
  const ours = {
    'x-weir-agent': 'planner',
    'x-weir-priority': '5',
    'x-weir-max-wait': '30',
    'x-weir-token': 'whatever',
    'x-weir-anything': '1',
  };
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { ...headers, ...ours, 'content-type': 'application/json' },
    body: JSON.stringify({ model: models.openai, messages: question() }),
  });
  assert.equal(answer.status, 200);
  const [call] = fake.requests;
  for (const [name, value] of Object.entries(headers)) assert.equal(call.headers[name], value);
  const leaked = Object.keys(call.headers).filter((name) => name.startsWith('x-weir'));
  assert.deepEqual(leaked, []);
  assert.equal(call.headers.host, new URL(fake.url).host);
  assert.equal(answer.headers.get('x-request-id'), call.request_id);
});

test('request ids come back where the SDKs look for them', async (t) => {
  const one = await h.behind_weir(t, 'openai');
  assert.equal((await h.chat(h.openai(one.url)))._request_id, one.fake.requests[0].request_id);
  const two = await h.behind_weir(t, 'anthropic');
  const answer = await h.message(h.anthropic(two.url));
  assert.equal(answer._request_id, two.fake.requests[0].request_id);
});

test('errors of the provider pass untouched', async (t) => {
  const { fake, url } = await h.behind_weir(t, 'anthropic');
  const body = { type: 'error', error: { type: 'invalid_request_error', message: 'größe' } };
  for (const status of [400, 401, 403, 404, 413, 422, 500]) {
    fake.set({ next: [{ status, body, headers: { 'x-odd': 'kept' } }] });
    const error = await h.error_of(h.message(h.anthropic(url)));
    assert.equal(error.status, status);
    assert.deepEqual(error.error, body);
    assert.equal(error.headers.get('x-odd'), 'kept');
    assert.equal(fake.counts.received, 1, 'it is not asked twice');
  }
  const unknown = await fetch(`${url}/v1/nothing?x=1`);
  assert.equal(unknown.status, 404);
  assert.deepEqual(await unknown.json(), {
    error: {
      message: 'Unknown request URL: /v1/nothing',
      type: 'invalid_request_error',
      param: null,
      code: 'unknown_url',
    },
  });
});

// The bytes of an answer's body, whatever its framing, and the instants at which they came.
async function raw_body(url, body) {
  const { hostname, port, pathname, search } = new URL(url);
  const socket = net.connect(Number(port), hostname);
  const head =
    `POST ${pathname}${search} HTTP/1.1\r\nhost: ${hostname}:${port}\r\nconnection: close\r\n` +
    `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n`;
  socket.write(head + body);
  const parts = [];
  for await (const part of socket) parts.push({ part, at: performance.now() });
  let rest = Buffer.concat(parts.map(({ part }) => part));
  const end = rest.indexOf('\r\n\r\n') + 4;
  const fields = rest.subarray(0, end).toString('latin1').toLowerCase();
  rest = rest.subarray(end);
  if (!fields.includes('transfer-encoding: chunked')) return { body: rest, parts, fields };
  const chunks = [];
  for (;;) {
    const line = rest.indexOf('\r\n');
    const size = parseInt(rest.subarray(0, line).toString(), 16);
    if (size === 0) return { body: Buffer.concat(chunks), parts, fields };
    chunks.push(rest.subarray(line + 2, line + 2 + size));
    rest = rest.subarray(line + 4 + size);
  }
}

for (const [profile, path, ask] of [
  ['openai', '/v1/chat/completions', { stream_options: { include_usage: true } }],
  ['openai', '/v1/chat/completions', {}],
  ['openai', '/v1/responses', { input: 'hi' }],
  ['anthropic', '/v1/messages', { max_tokens: 40 }],
  ['gemini', `/v1beta/models/${models.gemini}:streamGenerateContent?alt=sse`, {}],
  ['gemini', `/v1beta/models/${models.gemini}:streamGenerateContent`, {}],
]) {
  const asked = ask.stream_options ? ', usage asked for' : '';
  test(`${profile} ${path}${asked}: a stream passes byte for byte`, async (t) => {
    const { fake, url } = await h.behind_weir(t, profile, {}, { output_tokens: 40 });
    const contents = [{ role: 'user', parts: [{ text: 'How high?' }] }];
    const body =
      profile === 'gemini'
        ? { contents }
        : { model: models[profile], messages: question(), stream: true, ...ask };
    const direct = await raw_body(fake.url + path, JSON.stringify(body));
    const proxied = await raw_body(url + path, JSON.stringify(body));
    assert.ok(direct.body.length > 1000);
    assert.equal(proxied.body.toString(), direct.body.toString());
    assert.match(proxied.fields, /content-type: (text\/event-stream|application\/json)/);
    fake.set({ next: [{ in_stream: 'error' }, { in_stream: 'error' }] });
    const broken = await raw_body(fake.url + path, JSON.stringify(body));
    const passed = await raw_body(url + path, JSON.stringify(body));
    assert.equal(passed.body.toString(), broken.body.toString(), 'with an error inside');
  });
}

test('events pass as they arrive, not when the stream ends', async (t) => {
  let seen = 0;
  // Its SDK shows no ping.
  const after_event = ({ events }) =>
    h.eventually(() => seen >= events - 1, `the client sees event ${events}`);
  const settings = { output_tokens: 10, after_event };
  const { url } = await h.behind_weir(t, 'anthropic', {}, settings);
  for await (const event of await h.message(h.anthropic(url), { stream: true })) {
    ++seen;
    assert.ok(event.type);
  }
  assert.ok(seen > 10);
});

test('a slow client slows the provider down and does not fill memory', async (t) => {
  const settings = { output_tokens: 100_000, most_events: 100_000 }; // 14 MB
  const { fake, weir, url } = await h.behind_weir(t, 'anthropic', {}, settings);
  const resident = async () => {
    const status = await readFile(`/proc/${weir.process.pid}/status`, 'utf8');
    return Number(/VmRSS:\s+(\d+)/.exec(status)[1]) / 1024;
  };
  await h.message(h.anthropic(url)); // what a first call needs is there
  const before = await resident();
  const answer = await fetch(`${url}/v1/messages`, {
    method: 'POST',
    body: JSON.stringify({
      model: models.anthropic,
      max_tokens: 100_000,
      messages: question(),
      stream: true,
    }),
  });
  const call = fake.requests.at(-1);
  let events = -1;
  await h.eventually(async () => {
    const stalled = call.events === events;
    events = call.events;
    await h.sleep(200);
    return stalled;
  }, 'the provider stalls');
  const grown = (await resident()) - before;
  assert.ok(call.events < 90_000, `${call.events} events went nowhere`);
  assert.ok(grown < 8, `${grown} MiB more`);
  assert.match((await answer.text()).slice(-200), /message_stop/);
  assert.ok(call.finished);
});

test('large bodies pass whole, and above max_body are refused', async (t) => {
  const { fake, url } = await h.behind_weir(t, 'openai', { max_body: '3MiB' });
  const messages = question('größe '.repeat(300_000)); // 2.4 MB
  await h.chat(h.openai(url), { messages });
  assert.equal(fake.requests[0].body.messages[0].content, messages[0].content);
  const more = question('größe '.repeat(600_000));
  const error = await h.error_of(h.chat(h.openai(url), { messages: more }));
  assert.equal(error.status, 413);
  assert.equal(typeof error.error.message, 'string');
  assert.equal(fake.requests.length, 1);
});

test('curl sees what it sees without the proxy', async (t) => {
  const { fake, url } = await h.behind_weir(t, 'anthropic');
  const ask = { model: models.anthropic, max_tokens: 5, messages: question(), stream: true };
  const curl = async (base) => {
    const args = ['-sS', '-N', '-X', 'POST', '-H', 'content-type: application/json'];
    const more = ['-H', 'expect: 100-continue', '-d', JSON.stringify(ask), `${base}/v1/messages`];
    return (await promisify(execFile)('curl', [...args, ...more])).stdout;
  };
  assert.equal(await curl(url), await curl(fake.url));
});

test('any other API passes the same door', async (t) => {
  const { fake, url } = await h.behind_weir(t, 'generic', { limit: 100, period: '1m' });
  fake.set({ next: [{ status: 418, body: 'tea', headers: { 'content-type': 'text/plain' } }] });
  const answer = await fetch(`${url}/v1/chat/completions?a=%2F&b`, { method: 'POST', body: '{}' });
  assert.equal(answer.status, 418);
  assert.equal(await answer.text(), 'tea');
  assert.equal(fake.requests[0].headers.authorization, `Bearer ${h.kKey}`);
  assert.deepEqual([...fake.requests[0].query], [['a', '/'], ['b', '']]);
});
