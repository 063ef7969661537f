// npm tiktoken as a peer of tokenizer_benchmark. Run as `peer.js FOLDER`; a line
// "ENCODING/TEXT 1 PASSES" has FOLDER/TEXT.txt encoded PASSES times and is answered by
// "ELAPSED_NS TOKENS".
'use strict';
const fs = require('node:fs');
const path = require('node:path');
const readline = require('node:readline');
const { get_encoding: getEncoding } = require('tiktoken');

const kept = new Map();
const once = (key, make) => {
  if (!kept.has(key)) kept.set(key, make());
  return kept.get(key);
};

readline.createInterface({ input: process.stdin }).on('line', (line) => {
  const [workload, , passes] = line.split(' ');
  const [encoding, name] = workload.split('/');
  const encoder = once(encoding, () => getEncoding(encoding));
  const text = once(name, () => fs.readFileSync(path.join(process.argv[2], `${name}.txt`), 'utf8'));
  let tokens = 0;
  const begin = process.hrtime.bigint();
  for (let i = 0; i < Number(passes); ++i) tokens += encoder.encode_ordinary(text).length;
  console.log(`${process.hrtime.bigint() - begin} ${tokens}`);
});
