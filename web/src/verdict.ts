// Is it slow because of the API or because of us? One sentence, from one provider's last minute.
import { percent, span } from "./format";
import type { Resource } from "./wire";

export type Cause = "idle" | "fine" | "us" | "api" | "stopped";

export interface Verdict {
  cause: Cause;
  /** The answer in a few words. */
  answer: string;
  /** The figures behind it. */
  because: string;
}

const kNoticed = 200; // ms: a wait shorter than this slows nobody down
const kFelt = 20; // ms: a shorter one is no wait at all
const kSlow = 1_000;

/** The daemon's own diagnosis, where there is one, decides; `codes` are the warnings of it. */
export function verdictOf(resource: Resource, codes: readonly string[]): Verdict {
  const wait = resource.wait.mean_ms ?? 0;
  const upstream = resource.upstream.mean_ms ?? 0;
  const stopped = stoppage(resource);
  if (stopped !== null) return stopped;
  if (resource.wait.count === 0 && resource.upstream.count === 0) {
    return resource.waiting > 0
      ? { cause: "us", answer: "Slow because of us", because: "Nobody was admitted for a minute." }
      : { cause: "idle", answer: "Quiet", because: "No calls in the last minute." };
  }
  const whole = wait + upstream;
  const congested = codes.includes("congestion");
  if (congested || (!codes.includes("api_slow") && wait >= kNoticed && wait >= whole / 2)) {
    const because =
      resource.upstream.count === 0
        ? `Calls wait ${span(wait)} for quota.`
        : `Of ${span(whole)} that a call takes, ${span(wait)} (${percent(wait / whole)}) is ` +
          "waiting for quota.";
    return { cause: "us", answer: "Slow because of us", because };
  }
  if (upstream >= kSlow || (wait >= kNoticed && resource.upstream.count > 0)) {
    const waits = wait < kFelt ? "Hardly anybody waits" : `Calls wait ${span(wait)}`;
    return {
      cause: "api",
      answer:
        wait < kNoticed
          ? "All the time is the API’s"
          : wait < whole / 3
            ? "Mostly the API"
            : "The API, and partly us",
      because: `${waits} for quota; the API takes ${span(upstream)}.`,
    };
  }
  const because =
    wait < kFelt
      ? "Calls go through without waiting for quota."
      : `Calls wait ${span(wait)} for quota.`;
  return { cause: "fine", answer: "Flowing", because };
}

function stoppage({ state, held_ms, reason, waiting }: Resource): Verdict | null {
  const queue = waiting === 1 ? "1 call waits." : waiting > 1 ? `${waiting} calls wait.` : "";
  switch (state) {
    case "paused":
      return { cause: "stopped", answer: "Paused", because: `An operator paused it. ${queue}` };
    case "held":
      return {
        cause: "stopped",
        answer: "Held back",
        because: `The API asked to be left alone for ${span(held_ms)} more. ${queue}`,
      };
    case "exhausted":
      return {
        cause: "stopped",
        answer: "Exhausted",
        because: `${reason || "The quota is used up"}. ${queue}`.replace("..", "."),
      };
    default:
      return null;
  }
}
