// A Weir of its own for a test, and what tests need beside it.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import readline from 'node:readline';

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// Asks until the answer is true; what is settled after an answer is seen a moment later.
export async function eventually(condition, what, patience_ms = 5_000) {
  const until = performance.now() + patience_ms;
  while (!(await condition())) {
    if (performance.now() > until) throw new Error(`never: ${what}`);
    await sleep(10);
  }
}

// Gone with the test.
export async function temporary_directory(t) {
  const directory = await mkdtemp(join(tmpdir(), 'weir-test-'));
  t.after(() => rm(directory, { recursive: true }));
  return directory;
}

// A file that holds secrets.
export async function write_secret(directory, name, content) {
  const file = join(directory, name);
  await writeFile(file, JSON.stringify(content), { mode: 0o600 });
  return file;
}

export class Weir {
  // `providers`: provider files as objects. Ends with the test.
  static async start(t, providers, args = []) {
    const weir = new Weir();
    const directory = await temporary_directory(t);
    const files = [];
    for (const provider of providers) {
      const file = await write_secret(directory, `${provider.name}.json`, provider);
      files.push('--provider', file);
    }
    const durability = args.includes('--durability') ? [] : ['--durability', 'none'];
    weir.args = ['start', '--log', 'json', ...durability, ...files, ...args];
    weir.log = [];
    t.after(() => weir.stop());
    await weir.launch('127.0.0.1:0');
    return weir;
  }

  // Starts it; after stop(), where it was before.
  async launch(address = this.address) {
    this.process = spawn(process.env.WEIR, [...this.args, '--listen', address], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    await new Promise((listening, failed) => {
      this.process.once('error', failed);
      readline.createInterface({ input: this.process.stderr }).on('line', (line) => {
        this.log.push(line);
        if (!line.includes('"listening"')) return;
        this.address = JSON.parse(line).address;
        this.url = `http://${this.address}`;
        listening();
      });
      this.process.once('exit', (code) => {
        failed(new Error(`weir ended with ${code}: ${this.log.join('\n')}`));
      });
    });
  }

  async stop(signal = 'SIGTERM') {
    const { process: child } = this;
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill(signal);
    await ended;
  }

  async get(path) {
    const answer = await fetch(this.url + path);
    return answer.json();
  }

  // pause, resume or drain.
  async operate(provider, what) {
    const path = `/v1/resources/${provider}/${what}`;
    const { status } = await fetch(this.url + path, { method: 'POST' });
    if (status !== 200) throw new Error(`${path}: ${status}`);
  }

  // Until so many calls wait for the only provider.
  async queued(count) {
    const waiting = async () => (await this.get('/v1/live')).resources[0].waiting;
    await eventually(async () => (await waiting()) === count, `${count} wait`);
  }

  // What is left of a provider's limit, by its name.
  async left(provider, limit) {
    const { limits } = await this.get(`/v1/resources/${provider}`);
    return limits.find(({ name }) => name === limit).available;
  }

  // Until nothing of the provider is held: all calls are over and settled.
  async settled(provider, limit, amount) {
    let left;
    await eventually(
      async () => (left = await this.left(provider, limit)) === amount,
      `${amount} left of '${limit}'`,
    ).catch((error) => {
      throw new Error(`${error.message}, but ${left}`);
    });
  }
}
