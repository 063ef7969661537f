// Server-sent events through fetch, which can carry a token; EventSource cannot.
import { Refusal, send } from "./api";

export interface Listener {
  event(type: string, data: string): void;
  open(): void;
  /** It broke and is tried again; `why` if the daemon refused, in its words. */
  lost(why: string | null): void;
  /** Nobody looks: it was closed. */
  rest(): void;
  /** Somebody looks again: it is opened. */
  wake(): void;
}

const kSilenceMax = 10_000; // the daemon speaks each second
const kHiddenMax = 60_000; // a browser has six connections to a host, for all its tabs
const kBackoffMin = 500;
const kBackoffMax = 10_000;

/** Splits a stream's text into events. Keeps what is not whole yet. */
export class Events {
  private rest = "";

  constructor(private readonly found: (type: string, data: string) => void) {}

  push(text: string): void {
    const blocks = (this.rest + text).split("\n\n");
    this.rest = blocks.pop() ?? "";
    for (const block of blocks) this.read(block);
  }

  private read(block: string): void {
    let type = "message";
    let data = "";
    for (const line of block.split("\n")) {
      if (line.startsWith("event:")) type = line.slice(6).trim();
      else if (line.startsWith("data:")) data += line.slice(5).trimStart();
    }
    if (data !== "") this.found(type, data);
  }
}

/**
 * Watches `path` until the returned function is called; comes back when the stream breaks. While
 * nobody has seen the tab for a minute there is no stream.
 */
export function watch(path: string, listener: Listener): () => void {
  let ended = false;
  let resting = false;
  let restTimer = 0;
  let current = new AbortController();
  let backoff = kBackoffMin;
  let wake = () => {};
  const pause = (ms: number | null) =>
    new Promise<void>((resolve) => {
      wake = resolve;
      if (ms !== null) setTimeout(resolve, ms);
    });

  const run = async () => {
    while (!ended) {
      if (resting) {
        await pause(null);
        continue;
      }
      let why: string | null = null;
      current = new AbortController();
      try {
        await read(path, listener, current, () => (backoff = kBackoffMin));
      } catch (error) {
        if (error instanceof Refusal && (error.status === 401 || error.status === 403)) return;
        if (error instanceof Refusal && error.status > 0) why = error.message;
      }
      if (ended || resting) continue;
      listener.lost(why);
      await pause(backoff * (0.75 + Math.random() / 2));
      backoff = Math.min(backoff * 2, kBackoffMax);
    }
  };
  const online = () => wake();
  const seen = () => {
    clearTimeout(restTimer);
    if (document.hidden) {
      restTimer = window.setTimeout(() => {
        resting = true;
        current.abort();
        listener.rest();
      }, kHiddenMax);
    } else if (resting) {
      resting = false;
      listener.wake();
      wake();
    }
  };
  addEventListener("online", online);
  document.addEventListener("visibilitychange", seen);
  seen();
  void run();
  return () => {
    ended = true;
    removeEventListener("online", online);
    document.removeEventListener("visibilitychange", seen);
    clearTimeout(restTimer);
    current.abort();
    wake();
  };
}

async function read(
  path: string,
  listener: Listener,
  abort: AbortController,
  heard: () => void,
): Promise<void> {
  const guard = () => setTimeout(() => abort.abort(), kSilenceMax);
  let silence = guard();
  try {
    const answer = await send(path, { signal: abort.signal });
    if (answer.body === null) return;
    listener.open();
    const events = new Events((type, data) => listener.event(type, data));
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(silence);
      silence = guard();
      heard();
      events.push(value);
    }
  } finally {
    clearTimeout(silence);
  }
}
