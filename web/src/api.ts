// Requests to the daemon. A token lives in this tab alone and goes into a header.
import { signal } from "@preact/signals";
import type { Problem } from "./wire";

const kToken = "weir.token";
const kPatience = 15_000;

/** Set when the daemon wants a token that it was not given: why, in a sentence. */
export const tokenWanted = signal<string | null>(null);

/** An answer that is not the one hoped for. `status` 0: there was no answer. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** Whether the same request may succeed later. */
export function mayPass(error: unknown): boolean {
  return !(error instanceof Refusal && error.status >= 400 && error.status < 500);
}

export function hasToken(): boolean {
  return sessionStorage.getItem(kToken) !== null;
}

let tokensGiven = 0;
export function setToken(token: string): void {
  tokensGiven += 1;
  if (token === "") sessionStorage.removeItem(kToken);
  else sessionStorage.setItem(kToken, token);
  tokenWanted.value = null;
}

/**
 * Sends a request; throws a Refusal unless the answer is a success. Without a signal of its own it
 * has kPatience for the whole answer.
 */
export async function send(path: string, init: RequestInit = {}): Promise<Response> {
  const token = sessionStorage.getItem(kToken);
  const given = tokensGiven;
  const headers = new Headers(init.headers);
  if (token !== null) headers.set("Authorization", `Bearer ${token}`);
  const signal = init.signal ?? AbortSignal.timeout(kPatience);
  let answer: Response;
  try {
    answer = await fetch(path, { ...init, headers, signal, cache: "no-store" });
  } catch (error) {
    if (signal.aborted) throw error;
    throw new Refusal(0, "The daemon does not answer.");
  }
  if (answer.ok) return answer;
  const message = await problemOf(answer);
  const inUse = given === tokensGiven; // meanwhile there may be another
  if (inUse && answer.status === 401) {
    tokenWanted.value =
      token === null ? "This daemon wants a token." : "The daemon does not know this token.";
  } else if (inUse && answer.status === 403 && init.method === undefined) {
    tokenWanted.value = "This token may not look; one with the scope read or admin may.";
  }
  throw new Refusal(answer.status, message);
}

export async function get<T>(path: string, init: RequestInit = {}): Promise<T> {
  return (await (await send(path, init)).json()) as T;
}

export async function change(method: string, path: string, body?: unknown): Promise<void> {
  const init: RequestInit = { method };
  if (body !== undefined) init.body = JSON.stringify(body);
  await send(path, init);
}

async function problemOf(answer: Response): Promise<string> {
  const text = await answer.text();
  try {
    const problem = JSON.parse(text) as Problem;
    if (typeof problem.message === "string") return problem.message;
    if (typeof problem.error === "string") return problem.error;
  } catch {
    // Not JSON: the status says what there is to say.
  }
  return `The daemon answered ${answer.status}.`;
}

export function reasonOf(error: unknown): string {
  if (error instanceof DOMException && error.name === "TimeoutError") {
    return `The daemon has not answered for ${kPatience / 1000} s.`;
  }
  return error instanceof Error ? error.message : String(error);
}
