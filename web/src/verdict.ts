// Is it slow because of the API or because of us? One sentence, from one provider's last minute.
import { count, percent, plural, span } from "./format";
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
const kFew = 3; // calls that have ended: the daemon asks as many before it calls an API slow

/** Whether most of the last minute's calls were refused for lack of quota. */
export function turnsAway({ minute }: Resource): boolean {
  return minute.refused > 0 && minute.refused >= minute.arrived / 2;
}

/** Whether most of the last minute's calls got no whole answer. */
export function fails({ minute }: Resource): boolean {
  return minute.failed > 0 && minute.failed >= minute.admitted / 2;
}

/** Whether hardly a call has ended: those under way tell how long the API takes. */
function hangs({ upstream, in_flight_age_ms }: Resource): boolean {
  return upstream.count < kFew && in_flight_age_ms > (upstream.mean_ms ?? 0);
}

/** How long the API takes. */
export function apiTime(resource: Resource): number {
  return hangs(resource) ? resource.in_flight_age_ms : (resource.upstream.mean_ms ?? 0);
}

/** The daemon's own diagnosis, where there is one, decides; `codes` are the warnings of it. */
export function verdictOf(resource: Resource, codes: readonly string[]): Verdict {
  const { minute } = resource;
  const wait = resource.wait.mean_ms ?? 0;
  const upstream = apiTime(resource);
  const slow = codes.includes("api_slow");
  const stopped = stoppage(resource);
  if (stopped !== null) return stopped;
  if (codes.includes("api_failing")) {
    const { admitted } = minute;
    const failed = count(Math.min(minute.failed, admitted));
    const because =
      `In the last minute ${failed} of ${count(admitted)} calls failed there: with 5xx, or ` +
      "without a whole answer.";
    return { cause: "api", answer: "The API fails", because };
  }
  if (turnsAway(resource) && wait < kNoticed) {
    const all = count(Math.max(minute.arrived, minute.refused));
    const because = `In the last minute ${count(minute.refused)} of ${all} calls found no quota.`;
    return { cause: "us", answer: "Refused by us", because };
  }
  if (resource.wait.count === 0 && resource.upstream.count === 0) {
    if (resource.waiting > 0 && !slow) {
      const because = "Nobody was admitted for a minute.";
      return { cause: "us", answer: "Slow because of us", because };
    }
    if (resource.in_flight === 0) {
      return { cause: "idle", answer: "Quiet", because: "No calls in the last minute." };
    }
  }
  const whole = wait + upstream;
  const congested = codes.includes("congestion") || (wait >= kNoticed && wait >= whole / 2);
  if (congested && !slow) {
    const longest = resource.queue[0]?.waited_ms ?? 0;
    const because =
      wait < kSlow && longest >= kSlow
        ? `${queueOf(resource)} The longest has waited for ${span(longest)}.`
        : resource.upstream.count === 0
          ? `Calls wait ${span(wait)} for quota.`
          : `Of ${span(whole)} that a call takes, ${span(wait)} (${percent(wait / whole)}) is ` +
            "waiting for quota.";
    return { cause: "us", answer: "Slow because of us", because };
  }
  if (slow || upstream >= kSlow || (wait >= kNoticed && resource.upstream.count > 0)) {
    if (hangs(resource)) {
      return { cause: "api", answer: "Waiting for the API", because: underWay(resource) };
    }
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

function underWay({ in_flight, in_flight_age_ms, upstream }: Resource): string {
  const calls = `${plural(in_flight, "call")} under way for ${span(in_flight_age_ms)}`;
  const ended = upstream.count === 0 ? "none has" : "hardly one has";
  return `${calls}${in_flight > 1 ? " on average" : ""}, ${ended} ended in the last minute.`;
}

function queueOf({ waiting }: Resource): string {
  return waiting === 1 ? "1 call waits." : waiting > 1 ? `${count(waiting)} calls wait.` : "";
}

function stoppage(resource: Resource): Verdict | null {
  const { state, held_ms, reason } = resource;
  const queue = queueOf(resource);
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
