// node compare.js DRIVER ENCODING: encodes the corpus with npm tiktoken and with tokenizer_driver,
// and prints how many texts agree and the first that do not.
'use strict';
const {spawnSync} = require('child_process');
const {get_encoding} = require('tiktoken');
const texts = require('./corpus.js')();

const [, , program, encoding] = process.argv;
const SHOWN = 5;

function driverTokens() {
  const parts = texts.flatMap((text) => {
    const bytes = Buffer.from(text);
    const size = Buffer.alloc(4);
    size.writeUInt32LE(bytes.length);
    return [size, bytes];
  });
  const driver = spawnSync(program, [encoding], {
    input: Buffer.concat(parts), maxBuffer: 2 ** 30, stdio: ['pipe', 'pipe', 'inherit'],
  });
  if (driver.status !== 0) throw new Error(`${program}: ${driver.error || driver.status}`);
  const numbers = new Uint32Array(new Uint8Array(driver.stdout).buffer);
  let at = 0;
  return texts.map(() => {
    const count = numbers[at];
    at += count + 1;
    return numbers.subarray(at - count, at);
  });
}

const ours = driverTokens();
const tiktoken = get_encoding(encoding);
let differing = 0;
const same = (a, b) => a.length === b.length && a.every((token, i) => token === b[i]);
texts.forEach((text, i) => {
  const theirs = tiktoken.encode_ordinary(text);
  if (same(ours[i], theirs)) return;
  if (++differing > SHOWN) return;
  console.log(`${encoding}: ${JSON.stringify(text.slice(0, 200))}`);
  console.log(`  ours     ${ours[i].subarray(0, 60)}\n  tiktoken ${theirs.subarray(0, 60)}`);
});
const agreed = texts.length - differing;
console.log(`${encoding}: ${agreed} of ${texts.length} texts agree with tiktoken`);
process.exitCode = differing === 0 ? 0 : 1;
