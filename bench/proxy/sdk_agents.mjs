// node sdk_agents.mjs BASE_URL AGENTS SECONDS: agents that call a provider again and again, by the
// official SDK with its defaults. Says {"finished":N,"failed":N} when the time is over.
//
// WEIR_BENCH_SDK: the directory whose node_modules has the SDK.
import { createRequire } from 'node:module';

const OpenAI = createRequire(`${process.env.WEIR_BENCH_SDK}/`)('openai');

const [base_url, agents, seconds] = process.argv.slice(2);
const prompt = 'How high is the water at the weir today? '.repeat(40).slice(0, 1600); // 400 tokens
const deadline = performance.now() + 1000 * Number(seconds);
const counts = { finished: 0, failed: 0 };

async function agent(number) {
  const client = new OpenAI({ apiKey: 'none', baseURL: base_url });
  for (let call = 0; performance.now() < deadline; ++call) {
    // From 64 to 1,216 and the same in every run; the golden ratio spreads them.
    const max_tokens = 64 + Math.floor(1152 * (((number * 97 + call) * 0.6180339887) % 1));
    const messages = [{ role: 'user', content: prompt }];
    try {
      await client.chat.completions.create({ model: 'gpt-4o', messages, max_tokens });
      if (performance.now() < deadline) ++counts.finished;
    } catch {
      if (performance.now() < deadline) ++counts.failed;
    }
  }
}

for (let i = 0; i < Number(agents); ++i) agent(i);
setTimeout(() => {
  console.log(JSON.stringify(counts));
  process.exit();
}, 1000 * Number(seconds));
