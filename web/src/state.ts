// What the page knows, kept up to date by one stream of events. No polling.
import { computed, effect, signal } from "@preact/signals";
import { get, mayPass, reasonOf, tokenWanted } from "./api";
import { append, kSteps, lacksBefore } from "./history";
import { route } from "./route";
import { watch } from "./stream";
import type { History, Live, News, Point, Scope, Span } from "./wire";

const kNewsMax = 200;
const kOrderMax = 2_000;
const kStale = 3_500;
const kCatchUpEach = 10_000;
const kWatched =
  "live,point,operated,store,fleet,expired,limited,reduced,recovered,reclaimed,source";

export const live = signal<Live | null>(null);
export const scope = signal<Scope>("read");
export const news = signal<News[]>([]);
/** Why the first data did not come; null while all is well. */
export const trouble = signal<string | null>(null);
/** Since when nothing was heard, by this machine's clock; null while data comes. */
export const silentSince = signal<number | null>(null);
/** What the daemon said when it refused to send. */
export const silentWhy = signal<string | null>(null);
/** Whether nobody looks, so that nothing is read. */
export const resting = signal(false);
/** Counts events of sources, for lists that want to be read again. */
export const sourcesChanged = signal(0);

/** Providers in the order of the first look, so that rows do not jump; newcomers last. */
const order = new Map<string, number>();
export const resources = computed(() => {
  const all = live.value?.resources ?? [];
  if (order.size > kOrderMax) order.clear();
  for (const { name } of all) if (!order.has(name)) order.set(name, order.size);
  const place = (name: string) => order.get(name) ?? 0;
  return [...all].sort((a, b) => place(a.name) - place(b.name));
});

/** The provider on show: the one of the address, else the busiest at the first look. */
export const selected = computed(() => {
  const at = route.value;
  return at.page === "provider" ? at.name : (resources.value[0]?.name ?? null);
});

export const timeSpan = signal<Span>("1h");
/** `version` counts what was added: the arrays inside are reused. */
export const history = signal<{ data: History; span: Span; version: number } | null>(null);

let lastHeard = 0;
let staleTimer = 0;

function expectData(): void {
  clearTimeout(staleTimer);
  staleTimer = window.setTimeout(() => (silentSince.value = lastHeard), kStale);
}

function heard(): void {
  lastHeard = Date.now();
  silentSince.value = null;
  silentWhy.value = null;
  expectData();
}

function onEvent(type: string, data: string): void {
  const body: unknown = JSON.parse(data);
  if (type === "live") {
    live.value = body as Live;
    heard();
    if (trouble.value !== null) void readLive();
  } else if (type === "point") {
    onPoints((body as { points: Point[] }).points);
  } else if (type === "missed") {
    catchUpSoon();
  } else {
    if (type === "source") sourcesChanged.value += 1;
    news.value = [...news.value, { ...(body as News), type }].slice(-kNewsMax);
  }
}

function onPoints(points: Point[]): void {
  const now = history.value;
  const point = now && points.find((p) => p.resource === now.data.resource);
  if (!now || !point) return;
  if (lacksBefore(now.data, point)) catchUpSoon(); // they came while the history was under way
  if (append(now.data, point, kSteps[now.span])) {
    history.value = { ...now, version: now.version + 1 };
  }
}

let begun = 0;
async function readLive(): Promise<void> {
  const mine = begun;
  trouble.value = null;
  try {
    const first = await get<Live>("v1/live");
    if (mine !== begun) return;
    if (first.time_ms >= (live.peek()?.time_ms ?? 0)) live.value = first;
    scope.value = first.scope ?? "read";
    heard();
  } catch (error) {
    if (mine === begun && tokenWanted.value === null) trouble.value = reasonOf(error);
  }
}

async function readNews(): Promise<void> {
  try {
    const { events } = await get<{ events: News[] }>("v1/news");
    const last = events.at(-1)?.time ?? "";
    const since = news.value.filter(({ time }) => time > last); // came while it was under way
    news.value = [...events, ...since].slice(-kNewsMax);
  } catch {
    // What is wrong shows where live data is missing.
  }
}

let wanted = 0;
async function readHistory(name: string, span: Span): Promise<void> {
  const mine = ++wanted;
  try {
    const data = await get<History>(`v1/history/${encodeURIComponent(name)}?span=${span}`);
    if (mine === wanted) history.value = { data, span, version: 0 };
  } catch (error) {
    if (mine !== wanted) return;
    const again = mayPass(error);
    if (again) catchUpSoon();
    if (!again || history.peek()?.span !== span) history.value = null;
  }
}

function readSelectedHistory(): void {
  if (selected.value !== null) void readHistory(selected.value, timeSpan.value);
}

let caughtUpAt = -kCatchUpEach;
let catchUpTimer = 0;

/** What was missed is read again; while nobody looks that can wait. */
function catchUp(): void {
  if (resting.peek()) return;
  caughtUpAt = performance.now();
  void readNews();
  readSelectedHistory();
  sourcesChanged.value += 1;
}

/** Now, or when the last time is long enough ago. */
function catchUpSoon(): void {
  clearTimeout(catchUpTimer);
  const ms = Math.max(caughtUpAt + kCatchUpEach - performance.now(), 0);
  catchUpTimer = window.setTimeout(catchUp, ms);
}

let stop = () => {};

/** Begins, or begins again with another token. */
export function start(): void {
  stop();
  begun += 1;
  scope.value = "read";
  void readLive();
  void readNews();
  let first = true;
  stop = watch(`v1/events?only=${kWatched}`, {
    event: onEvent,
    open: () => {
      if (!first || trouble.value !== null) {
        void readLive();
        catchUp();
      }
      first = false;
    },
    lost: (why) => {
      first = false;
      silentWhy.value = why;
      if (lastHeard > 0) silentSince.value = lastHeard;
    },
    rest: () => {
      resting.value = true;
      clearTimeout(staleTimer);
    },
    wake: () => {
      resting.value = false;
      expectData();
    },
  });
}

effect(() => {
  const name = selected.value;
  const span = timeSpan.value;
  if (name === null || tokenWanted.value !== null) return;
  if (history.peek()?.data.resource !== name) history.value = null;
  void readHistory(name, span);
});
