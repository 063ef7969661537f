// node sdk_agents.mjs BASE_URL AGENTS WARM_UP SECONDS: agents that call a provider again and again,
// by the official SDK with its defaults. Says {"finished":N,"failed":N} when the time is over, of
// the SECONDS after the WARM_UP.
//
// WEIR_BENCH_SDK: the directory whose node_modules has the SDK.
import { createRequire } from 'node:module';

const OpenAI = createRequire(`${process.env.WEIR_BENCH_SDK}/`)('openai');

const [base_url, ...numbers] = process.argv.slice(2);
const [agents, warm_up, seconds] = numbers.map(Number);
const prompt = 'How high is the water at the weir today? '.repeat(40).slice(0, 1600); // 400 tokens
let counts = { finished: 0, failed: 0 };

async function agent(number) {
  const client = new OpenAI({ apiKey: 'none', baseURL: base_url });
  for (let call = 0; ; ) {
    // From 64 to 1,216 and the same in every run; the golden ratio spreads them.
    const max_tokens = 64 + Math.floor(1152 * (((number * 97 + call) * 0.6180339887) % 1));
    const messages = [{ role: 'user', content: prompt }];
    try {
      await client.chat.completions.create({ model: 'gpt-4o', messages, max_tokens });
      ++counts.finished;
      ++call;
    } catch {
      ++counts.failed; // asked again: the agent needs the answer
    }
  }
}

for (let i = 0; i < agents; ++i) agent(i);
setTimeout(() => {
  counts = { finished: 0, failed: 0 };
}, 1000 * warm_up);
setTimeout(
  () => {
    console.log(JSON.stringify(counts));
    process.exit();
  },
  1000 * (warm_up + seconds),
);
