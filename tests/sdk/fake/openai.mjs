// OpenAI's chat completions, responses and embeddings, and Azure's deployments of them.
import { go_duration, id_of, sse, text_length, words } from './text.mjs';

const kCreated = 1_763_000_000;

export function recognise(method, path) {
  if (method !== 'POST') return null;
  const deployment = /^\/openai\/deployments\/([^/]+)\/(chat\/completions|embeddings)$/.exec(path);
  if (deployment) return { provider: 'azure', api: api_of(deployment[2]), model: deployment[1] };
  const match = /^(?:\/openai)?(?:\/v1)?\/(chat\/completions|responses|embeddings)$/.exec(path);
  return match && { provider: 'openai', api: api_of(match[1]) };
}

const api_of = (tail) => (tail === 'chat/completions' ? 'chat' : tail);

export const key_of = (headers) =>
  headers['api-key'] ?? headers.authorization?.replace(/^Bearer /, '');

// The facts of a call that limits and answers need.
export function read(found, body) {
  const input = body.messages ?? body.input ?? '';
  const characters = text_length(input) + text_length(body.instructions ?? '');
  return {
    model: found.model ?? body.model,
    stream: body.stream === true,
    n: (body.n ?? 1) * (body.best_of ?? 1),
    max_output: body.max_completion_tokens ?? body.max_tokens ?? body.max_output_tokens,
    input_tokens: Math.ceil(characters / 4),
    include_usage: body.stream_options?.include_usage === true,
    tool: body.tool_choice === 'required' ? body.tools?.[0]?.function?.name : undefined,
  };
}

const chat_usage = (call) => ({
  prompt_tokens: call.input_tokens,
  completion_tokens: call.output_tokens,
  total_tokens: call.input_tokens + call.output_tokens,
  prompt_tokens_details: { cached_tokens: call.cached_tokens, audio_tokens: 0 },
  completion_tokens_details: {
    reasoning_tokens: 0,
    audio_tokens: 0,
    accepted_prediction_tokens: 0,
    rejected_prediction_tokens: 0,
  },
});

const tool_call = (call) => ({
  id: id_of('call_', call.body),
  type: 'function',
  function: { name: call.tool, arguments: JSON.stringify({ text: words(call.per_choice) }) },
});

function chat(call) {
  const choice = (index) => ({
    index,
    message: call.tool
      ? { role: 'assistant', content: null, tool_calls: [tool_call(call)], refusal: null }
      : { role: 'assistant', content: words(call.per_choice), refusal: null, annotations: [] },
    logprobs: null,
    finish_reason: call.tool ? 'tool_calls' : call.finish,
  });
  return {
    id: id_of('chatcmpl-', call.body),
    object: 'chat.completion',
    created: kCreated,
    model: call.model,
    choices: Array.from({ length: call.n }, (_, index) => choice(index)),
    usage: chat_usage(call),
    service_tier: 'default',
    system_fingerprint: 'fp_44709d6fcb',
  };
}

function* chat_events(call, settings) {
  const mistral = settings.flavour === 'mistral';
  const groq = settings.flavour === 'groq';
  const chunk = (choices, more = {}) =>
    sse({
      id: id_of('chatcmpl-', call.body),
      object: 'chat.completion.chunk',
      created: kCreated,
      model: call.model,
      service_tier: 'default',
      system_fingerprint: 'fp_44709d6fcb',
      choices,
      ...(call.include_usage && !groq ? { usage: null } : {}),
      ...more,
    });
  const delta = (index, content, finish_reason = null) => [
    { index, delta: content, logprobs: null, finish_reason },
  ];
  for (let index = 0; index < call.n; ++index) {
    if (call.tool) {
      const { function: called, ...named } = tool_call(call);
      const first = { index: 0, ...named, function: { name: called.name, arguments: '' } };
      yield chunk(delta(index, { role: 'assistant', content: null, tool_calls: [first] }));
      for (const piece of called.arguments.match(/.{1,12}/g)) {
        yield chunk(delta(index, { tool_calls: [{ index: 0, function: { arguments: piece } }] }));
      }
    } else {
      yield chunk(delta(index, { role: 'assistant', content: '', refusal: null }));
      for (const content of call.pieces) yield chunk(delta(index, { content }));
    }
    const last = index === call.n - 1;
    const told = mistral && last ? { usage: chat_usage(call) } : {};
    if (groq && last) told.x_groq = { id: id_of('req_', call.body), usage: chat_usage(call) };
    yield chunk(delta(index, {}, call.tool ? 'tool_calls' : call.finish), told);
  }
  if (call.include_usage && !mistral) yield chunk([], { usage: chat_usage(call) });
  yield 'data: [DONE]\n\n';
}

function response(call, status = 'completed', text = words(call.per_choice)) {
  const done = status === 'completed';
  return {
    id: id_of('resp_', call.body),
    object: 'response',
    created_at: kCreated,
    status,
    error: null,
    incomplete_details: null,
    instructions: call.body.instructions ?? null,
    max_output_tokens: call.max_output ?? null,
    model: call.model,
    output: done ? [output_item(call, 'completed', text)] : [],
    parallel_tool_calls: true,
    previous_response_id: null,
    reasoning: { effort: null, summary: null },
    store: true,
    temperature: 1,
    text: { format: { type: 'text' } },
    tool_choice: 'auto',
    tools: [],
    top_p: 1,
    truncation: 'disabled',
    usage: done
      ? {
          input_tokens: call.input_tokens,
          input_tokens_details: { cached_tokens: call.cached_tokens },
          output_tokens: call.output_tokens,
          output_tokens_details: { reasoning_tokens: 0 },
          total_tokens: call.input_tokens + call.output_tokens,
        }
      : null,
    user: null,
    metadata: {},
  };
}

const text_part = (text) => ({ type: 'output_text', annotations: [], logprobs: [], text });

const output_item = (call, status, text) => ({
  id: id_of('msg_', call.body),
  type: 'message',
  status,
  role: 'assistant',
  content: status === 'completed' ? [text_part(text)] : [],
});

function* response_events(call) {
  let sequence_number = 0;
  const event = (type, more) =>
    sse({ type, sequence_number: sequence_number++, ...more }, { event: type });
  const place = { item_id: id_of('msg_', call.body), output_index: 0 };
  const part = { ...place, content_index: 0 };
  const text = words(call.per_choice);
  yield event('response.created', { response: response(call, 'in_progress') });
  yield event('response.in_progress', { response: response(call, 'in_progress') });
  const begun = output_item(call, 'in_progress');
  yield event('response.output_item.added', { output_index: 0, item: begun });
  yield event('response.content_part.added', { ...part, part: text_part('') });
  for (const delta of call.pieces) {
    yield event('response.output_text.delta', { ...part, delta, logprobs: [] });
  }
  yield event('response.output_text.done', { ...part, text, logprobs: [] });
  yield event('response.content_part.done', { ...part, part: text_part(text) });
  const item = output_item(call, 'completed', text);
  yield event('response.output_item.done', { output_index: 0, item });
  yield event('response.completed', { response: response(call) });
}

function embeddings(call) {
  const inputs = Array.isArray(call.body.input) ? call.body.input : [call.body.input];
  const embedding = (text) => {
    const size = call.body.dimensions ?? 8;
    const values = Float32Array.from({ length: size }, (_, i) => Math.sin(text.length + i));
    if (call.body.encoding_format !== 'base64') return Array.from(values);
    return Buffer.from(values.buffer).toString('base64');
  };
  return {
    object: 'list',
    data: inputs.map((text, index) => ({
      object: 'embedding',
      index,
      embedding: embedding(String(text)),
    })),
    model: call.model,
    usage: { prompt_tokens: call.input_tokens, total_tokens: call.input_tokens },
  };
}

export const answer = (call) => ({ chat, responses: response, embeddings })[call.api](call);
export const events = (call, settings) =>
  ({ chat: chat_events, responses: response_events })[call.api](call, settings);

export function headers(call, settings, limits) {
  const fields = {
    'x-request-id': call.request_id,
    ...(call.provider === 'azure'
      ? { 'apim-request-id': call.request_id, 'x-ms-region': 'East US' }
      : {
          'openai-organization': 'org-fake',
          'openai-processing-ms': '7',
          'openai-version': '2020-10-01',
        }),
  };
  for (const { unit, per_minute, left, full_in } of limits) {
    fields[`x-ratelimit-limit-${unit}`] = per_minute;
    fields[`x-ratelimit-remaining-${unit}`] = left;
    fields[`x-ratelimit-reset-${unit}`] = go_duration(full_in);
  }
  return fields;
}

const failure = (status, type, code, message) => ({
  status,
  body: { error: { message, type, param: null, code } },
});

const kInvalid = 'invalid_request_error';

export const failures = {
  key: () => failure(401, kInvalid, 'invalid_api_key', 'Incorrect API key provided.'),
  unknown: (call) => failure(404, kInvalid, 'unknown_url', `Unknown request URL: ${call.path}`),
  malformed: () => failure(400, kInvalid, null, 'We could not parse the JSON body.'),
  overloaded: () =>
    failure(503, 'server_error', 'server_is_overloaded', 'The server is currently overloaded.'),
  broken: () => failure(500, 'server_error', null, 'The server had an error while processing.'),
  exhausted: () =>
    failure(
      429,
      'insufficient_quota',
      'insufficient_quota',
      'You exceeded your current quota, please check your plan and billing details.',
    ),
  limited(call, { unit, amount, requested, left, wait_ms }) {
    const short = { requests: 'requests per min (RPM)', tokens: 'tokens per min (TPM)' }[unit];
    const facts = `Limit ${amount}, Used ${amount - left}, Requested ${requested}`;
    if (call.provider === 'azure') {
      return {
        status: 429,
        body: {
          error: {
            code: '429',
            message:
              'Requests to the ChatCompletions_Create Operation under Azure OpenAI API version ' +
              '2024-06-01 have exceeded token rate limit of your current OpenAI S0 pricing tier. ' +
              `Please retry after ${Math.ceil(wait_ms / 1000)} seconds.`,
          },
        },
      };
    }
    const where = `for ${call.model} in organization org-fake on ${short}: ${facts}`;
    return failure(
      429,
      unit,
      'rate_limit_exceeded',
      wait_ms === Infinity
        ? `Request too large ${where}. The input or output tokens must be reduced.`
        : `Rate limit reached ${where}. Please try again in ${go_duration(wait_ms)}.`,
    );
  },
};

export const error_event = (call) =>
  call.api === 'responses'
    ? sse(
        { type: 'error', code: 'server_error', message: 'The server had an error.', param: null },
        { event: 'error' },
      )
    : sse(failures.broken().body);
