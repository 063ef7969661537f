// Gemini's generateContent, streamGenerateContent, embedContent and countTokens.
import { id_of, sse, text_length, words } from './text.mjs';

export function recognise(method, path) {
  const match = /^\/v1(?:beta|alpha)?\/models\/([^/:]+):([a-zA-Z]+)$/.exec(path);
  if (method !== 'POST' || !match) return null;
  const [, model, api] = match;
  if (!['generateContent', 'streamGenerateContent', 'countTokens'].includes(api)) return null;
  return { provider: 'gemini', api, model };
}

export const key_of = (headers, query) => headers['x-goog-api-key'] ?? query.get('key');

export function read(found, body) {
  const { contents = [], systemInstruction = '' } = body;
  return {
    model: found.model,
    stream: found.api === 'streamGenerateContent',
    n: 1,
    max_output: body.generationConfig?.maxOutputTokens,
    input_tokens: Math.ceil((text_length(contents) + text_length(systemInstruction)) / 4),
  };
}

function usage(call, output_tokens) {
  const cached = call.cached_tokens > 0 ? { cachedContentTokenCount: call.cached_tokens } : {};
  return {
    promptTokenCount: call.input_tokens,
    candidatesTokenCount: output_tokens,
    totalTokenCount: call.input_tokens + output_tokens,
    ...cached,
    promptTokensDetails: [{ modality: 'TEXT', tokenCount: call.input_tokens }],
  };
}

function chunk(call, text, output_tokens, finished) {
  const reason = call.finish === 'length' ? 'MAX_TOKENS' : 'STOP';
  return {
    candidates: [
      {
        content: { parts: [{ text }], role: 'model' },
        ...(finished ? { finishReason: reason } : {}),
        index: 0,
      },
    ],
    usageMetadata: usage(call, output_tokens),
    modelVersion: call.model,
    responseId: id_of('', call.body),
  };
}

export function answer(call) {
  if (call.api === 'countTokens') return { totalTokens: call.input_tokens };
  return chunk(call, words(call.per_choice), call.output_tokens, true);
}

// Without alt=sse the stream is one JSON array.
export function* events(call) {
  const plain = call.query.get('alt') !== 'sse';
  let seen = 0;
  for (const [index, text] of call.pieces.entries()) {
    const last = index === call.pieces.length - 1;
    seen += text.split(' ').filter((word) => word !== '').length;
    const piece = chunk(call, text, last ? call.output_tokens : seen, last);
    if (plain) {
      yield (index === 0 ? '[' : ',\r\n') + JSON.stringify(piece, null, 2) + (last ? '\n]\n' : '');
    } else {
      yield sse(piece, { end: '\r\n' });
    }
  }
}

export const headers = () => ({ 'server-timing': 'gfet4t7; dur=7', vary: 'Origin' });

const failure = (code, status, message, details) => ({
  status: code,
  body: { error: { code, message, status, ...(details ? { details } : {}) } },
});

const kQuota = 'type.googleapis.com/google.rpc.QuotaFailure';
const kRetry = 'type.googleapis.com/google.rpc.RetryInfo';
const kNames = {
  requests: ['generate_requests_per_model', 'GenerateRequestsPerMinutePerProjectPerModel'],
  requests_per_day: ['generate_requests_per_model_per_day', 'GenerateRequestsPerDayPerProject'],
  tokens: ['generate_content_input_token_count', 'GenerateContentInputTokensPerModelPerMinute'],
};

export const failures = {
  key: () =>
    failure(400, 'INVALID_ARGUMENT', 'API key not valid. Please pass a valid API key.', [
      { '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason: 'API_KEY_INVALID' },
    ]),
  unknown: () => failure(404, 'NOT_FOUND', 'Requested entity was not found.'),
  malformed: () => failure(400, 'INVALID_ARGUMENT', 'Invalid JSON payload received.'),
  overloaded: () =>
    failure(503, 'UNAVAILABLE', 'The model is overloaded. Please try again later.'),
  broken: () => failure(500, 'INTERNAL', 'An internal error has occurred.'),
  exhausted: (call) =>
    failures.limited(call, { unit: 'requests_per_day', amount: 250, wait_ms: 40_000 }),
  limited(call, { unit, amount, wait_ms }) {
    const [metric, id] = kNames[unit];
    const quotaMetric = `generativelanguage.googleapis.com/${metric}`;
    const delay = `${Number.isFinite(wait_ms) ? wait_ms / 1000 : 60}s`;
    const message =
      'You exceeded your current quota, please check your plan and billing details.\n' +
      `* Quota exceeded for metric: ${quotaMetric}, limit: ${amount}\nPlease retry in ${delay}.`;
    const quotaDimensions = { location: 'global', model: call.model };
    const violation = { quotaMetric, quotaId: id, quotaDimensions, quotaValue: String(amount) };
    return failure(429, 'RESOURCE_EXHAUSTED', message, [
      { '@type': kQuota, violations: [violation] },
      { '@type': kRetry, retryDelay: delay },
    ]);
  },
};

export const error_event = () => sse(failures.overloaded().body, { end: '\r\n' });
