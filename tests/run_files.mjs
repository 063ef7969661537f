// node run_files.mjs FILE...: the tests of the files, each in a process of its own: two files at a
// time since they mostly wait, and those that measure time, *.alone.test.mjs, one by one after all
// others. The last line counts them.
import { resolve } from "node:path";
import { run } from "node:test";
import { spec as Spec } from "node:test/reporters";

const files = process.argv.slice(2).map((file) => resolve(file));
const measures = (file) => file.endsWith(".alone.test.mjs");
let passed = 0;
let failed = 0;

const run_all = (files, concurrency) =>
  new Promise((ended) => {
    if (files.length === 0) return ended();
    run({ files, concurrency })
      .on("test:pass", () => ++passed)
      .on("test:fail", () => ++failed)
      .compose(new Spec())
      .on("end", ended)
      .pipe(process.stdout);
  });

await run_all(files.filter((file) => !measures(file)), 2);
await run_all(files.filter(measures), 1);
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 || passed === 0 ? 1 : 0;
