// A limit as an operator changes it. PUT replaces all limits of a provider, so all are sent back,
// as they are at that moment: another operator may have changed one of them meanwhile.
import { Refusal, change, get } from "./api";
import type { LimitSpec, ResourceDetails } from "./wire";

export interface Editable {
  amount: number;
  /** "1s", "1m"; null for slots. */
  per: string | null;
  /** Reads all limits again and sends them with this one changed. */
  send: (amount: number) => Promise<void>;
}

// `tokens_per_minute` is kept as a tenth of it every 6 s; people think in minutes.
function tenth({ algorithm, per }: LimitSpec): boolean {
  return algorithm === "stepped" && per === "6s";
}

/** What may be used at once grows and shrinks with the amount. */
export function withAmount(spec: LimitSpec, wanted: number): LimitSpec {
  const amount = tenth(spec) ? Math.max(1, Math.round(wanted / 10)) : wanted;
  if (spec.burst === undefined) return { ...spec, amount };
  const least = spec.unit === "usd" ? 1e-6 : 1; // the smallest amount there is
  const burst = Math.max(1, Math.round((spec.burst * amount) / spec.amount / least)) * least;
  return { ...spec, amount, burst: Number(burst.toFixed(6)) };
}

// Where in the body a mistake was means nothing to who has typed a number.
function placeless({ status, message }: Refusal): Refusal {
  return new Refusal(status, message.replace(/^body:\d+:\d+: (limits\[\d+\]\.)?/, ""));
}

/** Reads what is set now. */
export async function editable(resource: string, limit: string): Promise<Editable> {
  const path = `v1/resources/${encodeURIComponent(resource)}`;
  const read = async () => {
    const { limits } = await get<ResourceDetails>(path);
    const spec = limits.find(({ name }) => name === limit)?.spec;
    if (spec === undefined) throw new Error(`“${limit}” cannot be changed here.`);
    return { spec, specs: limits.flatMap((one) => one.spec ?? []) };
  };
  const { spec } = await read();
  return {
    amount: tenth(spec) ? spec.amount * 10 : spec.amount,
    per: tenth(spec) ? "1m" : (spec.per ?? null),
    send: async (amount) => {
      const { spec, specs } = await read();
      const limits = specs.map((one) => (one === spec ? withAmount(one, amount) : one));
      await change("PUT", path, { limits }).catch((error: unknown) => {
        throw error instanceof Refusal ? placeless(error) : error;
      });
    },
  };
}
