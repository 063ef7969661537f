// node run_files.mjs FILE...: the tests of the files, two files at a time since they mostly wait,
// each in a process of its own. The last line counts them.
import { resolve } from "node:path";
import { run } from "node:test";
import { spec as Spec } from "node:test/reporters";

const files = process.argv.slice(2).map((file) => resolve(file));
let passed = 0;
let failed = 0;
run({ files, concurrency: 2 })
  .on("test:pass", () => ++passed)
  .on("test:fail", () => ++failed)
  .compose(new Spec())
  .on("end", () => {
    console.log(`${passed} passed, ${failed} failed`);
    process.exitCode = failed > 0 || passed === 0 ? 1 : 0;
  })
  .pipe(process.stdout);
