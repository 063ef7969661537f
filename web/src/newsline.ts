// An event of the daemon as a sentence. Pure.
import { count, exact, span } from "./format";
import type { News } from "./wire";

export type Tone = "bad" | "good" | "plain";

export interface Line {
  label: string;
  text: string;
  tone: Tone;
}

const kOperations: Record<string, string> = {
  pause: "paused",
  resume: "resumed",
  drain: "drained the queue of",
  "limits changed": "changed the limits of",
  "resource added": "added",
  "resource removed": "removed",
  reload: "read the configuration again",
};

const kSourceTones: Record<string, Tone> = {
  failed: "bad",
  breaker_opened: "bad",
  recovered: "good",
  breaker_closed: "good",
};

/** What the store does, after "The store". */
export const kStore: Record<string, string> = {
  ok: "is open",
  failed: "does not answer",
  fenced: "is taken by another daemon",
};

export function lineOf(news: News): Line {
  const who = (news.agent || "a call") + (news.model ? ` (${news.model})` : "");
  switch (news.type) {
    case "operated":
      return { label: "operator", text: operation(news), tone: "plain" };
    case "limited":
      return {
        label: "429",
        text:
          `The API refused ${who}` +
          (news.retry_after_ms == null ? "." : `; it wants ${span(news.retry_after_ms)} of rest.`),
        tone: "bad",
      };
    case "reduced":
      return { label: "lowered", text: `${change(news)} after 429s.`, tone: "bad" };
    case "recovered":
      return { label: "recovered", text: `${change(news)}.`, tone: "good" };
    case "reclaimed":
      return { label: "reclaimed", text: `A slot of ${who} came back${age(news)}.`, tone: "bad" };
    case "expired":
      return {
        label: "expired",
        text: `A permit of ${who} was not released${age(news)}.`,
        tone: "bad",
      };
    case "store":
    case "fleet":
      return {
        label: news.type,
        text: `${condition(news)}.`,
        tone: /fail|fence|away|quarantine/.test(news.state ?? "") ? "bad" : "good",
      };
    case "source":
      return {
        label: "source",
        text: ofSource(news),
        tone: kSourceTones[news.what ?? ""] ?? "plain",
      };
    default:
      return { label: news.type, text: news.message ?? "", tone: "plain" };
  }
}

function operation({ what = "", resource = "", by, limit, from, to }: News): string {
  const who = by || "An operator";
  if (limit !== undefined && from !== undefined && to !== undefined) {
    return `${who} changed ${limit} of ${resource} from ${exact(from)} to ${exact(to)}.`;
  }
  return `${who} ${kOperations[what] ?? what} ${resource}`.trim() + ".";
}

function ofSource({ name = "", domain = "", what = "", by, message }: News): string {
  const why = message ? `: ${message}` : "";
  switch (what) {
    case "failed":
      return `${name} fails${why}.`;
    case "recovered":
      return `${name} works again.`;
    case "breaker_opened":
      return `${domain} keeps failing and is left alone for a while${why}.`;
    case "breaker_closed":
      return `${domain} is back.`;
    default:
      return `${by || "An operator"} ${what} ${name}.`;
  }
}

function condition({ type, state = "", message }: News): string {
  const words = type === "store" ? `The store ${kStore[state] ?? state}` : `The fleet: ${state}`;
  return message ? `${words} (${message})` : words;
}

function change({ limit = "pace", from, to }: News): string {
  const name = limit === "pace" ? "The pace" : limit;
  if (from === undefined || to === undefined) return `${name} has changed`;
  return `${name} went from ${count(from)} to ${count(to)}${limit === "pace" ? " a minute" : ""}`;
}

function age({ age_ms }: News): string {
  return age_ms === undefined ? "" : ` after ${span(age_ms)}`;
}
