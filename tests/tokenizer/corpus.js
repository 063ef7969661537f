// The corpus: texts to encode, the same at every run.
'use strict';
const fs = require('fs');
const path = require('path');

const SEED = 20261116;
const CODE_POINTS = 0x110000;
// Beyond these planes only U+E0100 to U+E01EF are not of the class of all the rest.
const ASSIGNED_PLANES_END = 0x40000;
const TAGS = 0xe0000;
const TAGS_END = 0xe0200;

let state = SEED;
function random() {  // mulberry32
  state = (state + 0x6d2b79f5) | 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
}
const below = (n) => Math.floor(random() * n);
const pick = (from) => from[below(from.length)];
const many = (n, make) => Array.from({length: n}, make);
const some = (most, make) => many(1 + below(most), make).join('');

const isCharacter = (at) => at < 0xd800 || at > 0xdfff;

// Every code point from `first` to `end`, each in `context`, some dozens a text.
function everyCodePoint(first, end, context) {
  const texts = [];
  for (let block = first; block < end; block += 64) {
    const points = many(64, (_, i) => block + i).filter((at) => at < end && isCharacter(at));
    texts.push(points.map((at) => context(String.fromCodePoint(at))).join(''));
  }
  return texts;
}

const contexts = [
  (c) => c,
  (c) => `${c}b'S${c}'ll `,
  (c) => `1${c}2 ${c}  ${c}B`,
  (c) => `.${c}\n${c}/`,
];
function codePoints() {
  return [
    ...everyCodePoint(0, CODE_POINTS, (c) => `a${c}A`),
    ...contexts.flatMap((context) => [
      ...everyCodePoint(0, ASSIGNED_PLANES_END, context),
      ...everyCodePoint(TAGS, TAGS_END, context),
    ]),
  ];
}

// Texts of a few characters that the patterns tell apart, in every order.
const edges = [
  ...'aAzZsStTrReEvVmMlLdD', ...'0123', ...'¹Ⅷ೪', ...'ſKǅªʰºƻءあ漢', ...'\u0301\u0903\u20dd',
  ...' \t\n\r\v\f\u0085\u00a0\u2028\u2029\u3000\u200b', ..."''''’",
  ...'.,/!?-_(){}<>|"', ...'🙂€\0\u007f',
  '  ', '\r\n', "'s", "'LL", "'ſ", ' the', '//', '\ufffd', '\ufeff',
];
const edgeCases = () => some(24, () => pick(edges));

const scripts = many(0x33500 / 128, (_, i) => i * 128).filter(isCharacter);
function script() {
  const block = pick(scripts);
  const word = () => some(9, () => String.fromCodePoint(block + below(128)));
  return many(1 + below(12), word).join(pick([' ', ' ', '', '、', '\n', ', ']));
}

const anyCharacter = () => {
  const at = below(CODE_POINTS);
  return isCharacter(at) ? String.fromCodePoint(at) : '\ufffd';
};
const emoji = [...'😀👩👨👧🏽🏿❤🔥🇩🇪🇯🇵✈☂🏴'];
const emojis = () => some(20, () => pick(emoji) + pick(['', '', '\u200d', '\ufe0f', ' ']));
const ascii = () => some(80, () => String.fromCharCode(below(128)));
const control = () => some(40, () => String.fromCharCode(pick([below(32), below(160)])));
const letters = () => some(60, () => String.fromCharCode(97 - 32 * below(2) + below(26)));
const whitespace = () => some(60, () => pick([...' \t\n\r\u00a0']) + pick(['', '', '', 'x']));
const repeated = () => pick(edges).repeat(1 + below(400)) + pick(edges);
const base64 = () => Buffer.from(many(below(200), () => below(256))).toString('base64');

function value(depth) {
  const makers = [
    () => below(1e9) / pick([1, 10, 1e5]), () => pick([true, false, null]), () => prose(),
    () => letters(), () => many(below(5), () => value(depth + 1)),
    () => Object.fromEntries(many(below(6), () => [pick(words), value(depth + 1)])),
  ];
  return pick(depth < 4 ? makers : makers.slice(0, 4))();
}
const json = () => JSON.stringify(value(0), null, pick([0, 0, 2, 4, '\t']));

const sources = [];
const SKIPPED = ['build', '.git', 'corpus', 'node_modules'];
(function collect(folder) {
  for (const entry of fs.readdirSync(folder, {withFileTypes: true})) {
    const at = path.join(folder, entry.name);
    if (entry.isDirectory() && !SKIPPED.includes(entry.name)) collect(at);
    if (entry.isFile() && /\.(cc|h|md|json|cmake|yaml|js|go)$/.test(entry.name)) sources.push(at);
  }
})(path.join(__dirname, '../..'));
sources.sort();
const library = sources.map((at) => fs.readFileSync(at, 'utf8')).join('\n');
const words = [...new Set(library.match(/[A-Za-z]+/g))];
const slice = () => {
  const from = below(library.length);
  return library.slice(from, from + below(400));
};
function prose() {
  const word = () => pick(words) + pick(['', '', '', '', ',', '.', "'s", "n't", '!', ' 42', '—']);
  return many(1 + below(30), word).join(' ');
}

const special = () => `${pick(words)}<|endoftext|>${pick(edges)}<|fim_prefix|>${pick(words)}`;

module.exports = () => [
  '', library, ...codePoints(),
  ...[
    [30000, edgeCases], [8000, script], [4000, prose], [4000, slice], [3000, json],
    [3000, letters], [2000, emojis], [2000, ascii], [2000, whitespace], [1000, control],
    [1000, repeated], [1000, base64], [500, special],
    [1000, () => some(40, anyCharacter)],
  ].flatMap(([n, make]) => many(n, make)),
];
