// The texts that the fake providers answer with: nothing in them depends on the time or on chance,
// so that two answers to one question are equal.
import { createHash } from 'node:crypto';

export const words = (count) => Array.from({ length: count }, (_, i) => word(i)).join('');

const word = (index) => (index === 0 ? 'drop' : index % 7 === 0 ? ' größe' : ' drop');

// The words of an answer in at most `most` pieces.
export function pieces(count, most) {
  const size = Math.max(1, Math.ceil(count / most));
  const cut = [];
  for (let from = 0; from < count; from += size) {
    const to = Math.min(count, from + size);
    cut.push(Array.from({ length: to - from }, (_, i) => word(from + i)).join(''));
  }
  return cut;
}

// The same for the same question, whether or not a stream's usage is asked for.
export function id_of(prefix, { stream, stream_options, ...question }) {
  return prefix + createHash('sha1').update(JSON.stringify(question)).digest('hex').slice(0, 24);
}

// The characters of all text in a question; base64 data is none.
export function text_length(value) {
  if (typeof value === 'string') return value.startsWith('data:') ? 0 : value.length;
  if (Array.isArray(value)) return value.reduce((sum, item) => sum + text_length(item), 0);
  if (value === null || typeof value !== 'object') return 0;
  return ['content', 'text', 'parts', 'input', 'arguments']
    .map((key) => text_length(value[key]))
    .reduce((sum, length) => sum + length, 0);
}

export function sse(data, { event, end = '\n' } = {}) {
  return (event ? `event: ${event}${end}` : '') + `data: ${JSON.stringify(data)}${end}${end}`;
}

// As Go writes durations: 12ms, 1.5s, 6m0s.
export function go_duration(ms) {
  if (!Number.isFinite(ms)) return '24h0m0s';
  if (ms < 1000) return `${Math.ceil(ms)}ms`;
  const minutes = Math.floor(ms / 60_000);
  const seconds = `${Math.ceil(ms % 60_000) / 1000}s`;
  return minutes > 0 ? `${minutes}m${seconds}` : seconds;
}
