// Anthropic's messages and its counting of tokens.
import { id_of, sse, text_length, words } from './text.mjs';

export function recognise(method, path) {
  if (method !== 'POST') return null;
  if (path === '/v1/messages') return { provider: 'anthropic', api: 'messages' };
  if (path === '/v1/messages/count_tokens') return { provider: 'anthropic', api: 'count_tokens' };
  return null;
}

export const key_of = (headers) =>
  headers['x-api-key'] ?? headers.authorization?.replace(/^Bearer /, '');

export function read(found, body) {
  const characters = text_length(body.messages ?? []) + text_length(body.system ?? '');
  return {
    model: body.model,
    stream: body.stream === true,
    n: 1,
    max_output: body.max_tokens,
    input_tokens: Math.ceil(characters / 4),
    tool: body.tool_choice?.type === 'any' ? body.tools?.[0]?.name : undefined,
  };
}

const usage = (call, output_tokens) => ({
  input_tokens: call.charged_input - call.cache_creation_tokens,
  cache_creation_input_tokens: call.cache_creation_tokens,
  cache_read_input_tokens: call.cached_tokens,
  cache_creation: {
    ephemeral_5m_input_tokens: call.cache_creation_tokens,
    ephemeral_1h_input_tokens: 0,
  },
  output_tokens,
  service_tier: 'standard',
});

const stop_reason = (call) =>
  call.tool ? 'tool_use' : call.finish === 'length' ? 'max_tokens' : 'end_turn';

const message = (call, content, reason, output_tokens) => ({
  id: id_of('msg_', call.body),
  type: 'message',
  role: 'assistant',
  model: call.model,
  content,
  stop_reason: reason,
  stop_sequence: null,
  usage: usage(call, output_tokens),
});

const tool_use = (call, input) => ({
  type: 'tool_use',
  id: id_of('toolu_', call.body),
  name: call.tool,
  input,
});

export function answer(call) {
  if (call.api === 'count_tokens') return { input_tokens: call.input_tokens };
  const text = words(call.per_choice);
  const block = call.tool ? tool_use(call, { text }) : { type: 'text', text };
  return message(call, [block], stop_reason(call), call.output_tokens);
}

export function* events(call) {
  const event = (type, more = {}) => sse({ type, ...more }, { event: type });
  const text = words(call.per_choice);
  const input = JSON.stringify({ text });
  yield event('message_start', { message: message(call, [], null, 1) });
  yield event('content_block_start', {
    index: 0,
    content_block: call.tool ? tool_use(call, {}) : { type: 'text', text: '' },
  });
  yield event('ping');
  const deltas = call.tool
    ? input.match(/.{1,12}/g).map((partial_json) => ({ type: 'input_json_delta', partial_json }))
    : call.pieces.map((piece) => ({ type: 'text_delta', text: piece }));
  for (const delta of deltas) yield event('content_block_delta', { index: 0, delta });
  yield event('content_block_stop', { index: 0 });
  yield event('message_delta', {
    delta: { stop_reason: stop_reason(call), stop_sequence: null },
    usage: usage(call, call.output_tokens),
  });
  yield event('message_stop');
}

export function headers(call, settings, limits) {
  const fields = { 'request-id': call.request_id, 'anthropic-organization-id': 'org-fake' };
  const both = limits.filter(({ unit }) => unit !== 'requests');
  const sum = {
    unit: 'tokens',
    per_minute: both.reduce((total, { per_minute }) => total + per_minute, 0),
    left: both.reduce((total, { left }) => total + left, 0),
    full_in: Math.max(0, ...both.map(({ full_in }) => full_in)),
  };
  for (const { unit, per_minute, left, full_in } of both.length === 2 ? [...limits, sum] : limits) {
    const name = `anthropic-ratelimit-${unit.replace('_', '-')}`;
    // Tokens that remain are rounded to the nearest thousand.
    const rounded = unit === 'requests' ? left : Math.round(left / 1000) * 1000;
    fields[`${name}-limit`] = per_minute;
    fields[`${name}-remaining`] = rounded;
    fields[`${name}-reset`] = new Date(Date.now() + full_in).toISOString();
  }
  return fields;
}

const failure = (call, status, type, message, details) => ({
  status,
  body: {
    type: 'error',
    error: { type, message, ...(details ? { details } : {}) },
    request_id: call.request_id,
  },
});

export const failures = {
  key: (call) => failure(call, 401, 'authentication_error', 'invalid x-api-key'),
  unknown: (call) => failure(call, 404, 'not_found_error', 'Not Found'),
  malformed: (call) => failure(call, 400, 'invalid_request_error', 'The body is not valid JSON'),
  overloaded: (call) => failure(call, 529, 'overloaded_error', 'Overloaded'),
  broken: (call) => failure(call, 500, 'api_error', 'Internal server error'),
  exhausted: (call) =>
    failure(
      call,
      429,
      'rate_limit_error',
      'Your organization has reached its spend limit for this month.',
      { error_code: 'enforced_spend_limit_reached' },
    ),
  limited: (call, { unit, amount }) =>
    failure(
      call,
      429,
      'rate_limit_error',
      `This request would exceed your organization's rate limit of ${amount} ` +
        `${unit.replace('_', ' ')} per minute (org-fake, model: ${call.model}).`,
    ),
};

export const error_event = () =>
  sse(
    { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } },
    { event: 'error' },
  );
