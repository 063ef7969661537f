// node texts.js FOLDER: writes prose.txt, code.txt and json.txt, half a megabyte each, the same at
// every run of one tree: paragraphs of the docs, blocks of the sources and parts of openapi.json,
// in random order so that no processor can learn them by heart.
'use strict';
const fs = require('node:fs');
const path = require('node:path');

const SIZE = 512 * 1024;
const root = path.join(__dirname, '../../..');
let state = 1;
const below = (n) => {  // the minimal standard generator
  state = (state * 48271) % 0x7fffffff;
  return state % n;
};
const filesIn = (folder, pattern) => fs.readdirSync(path.join(root, folder)).sort()
  .filter((name) => pattern.test(name))
  .map((name) => fs.readFileSync(path.join(root, folder, name), 'utf8'));
const paragraphs = (texts) => texts.join('\n\n').split(/\n\n+/);

function objectsIn(value) {
  if (value === null || typeof value !== 'object') return [];
  return [value, ...Object.values(value).flatMap(objectsIn)];
}
const objects = objectsIn(JSON.parse(fs.readFileSync(path.join(root, 'docs/openapi.json'))))
  .map((object, i) => JSON.stringify(object, null, i % 2 * 2))
  .filter((text) => text.length > 60 && text.length < 8000);

const sources = {
  prose: paragraphs(filesIn('docs', /\.md$/)),
  code: paragraphs(['core', 'gate', 'config', 'server'].flatMap(
    (room) => filesIn(`src/${room}`, /\.(cc|h)$/))),
  json: objects,
};
for (const [name, parts] of Object.entries(sources)) {
  let text = '';
  while (text.length < SIZE) text += `${parts[below(parts.length)]}\n\n`;
  fs.writeFileSync(path.join(process.argv[2], `${name}.txt`), text);
}
