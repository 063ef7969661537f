// What Weir fetches by itself, page by page.
import { useEffect, useRef, useState } from "preact/hooks";
import { get, mayPass, reasonOf } from "../api";
import { count, fromNow, plural, short, span } from "../format";
import { hrefOf } from "../route";
import { live, sourcesChanged } from "../state";
import type { Live, Source, SourceResult } from "../wire";
import { Columns } from "./columns";

const kPage = 100;
const kRest = 2_500; // between two readings of the same list

export const kSourceStates: Record<Source["state"], string> = {
  scheduled: "scheduled",
  queued: "queued",
  running: "running",
  backing_off: "backing off",
  breaker_open: "breaker open",
  held_back: "held back",
};

/** Whether something went wrong; a source that waits for quota is well. */
export function troubled({ state }: Source): boolean {
  return state === "backing_off" || state === "breaker_open";
}

export function statusOf(result: SourceResult | null): string {
  if (result === null) return "never fetched";
  return result.status === 0 ? "no answer" : String(result.status);
}

export function bad({ status }: SourceResult): boolean {
  return status === 0 || status >= 400;
}

/** What moves when a source does that waits for its turn. */
function tally(news: Live | null): string {
  return [news?.sources?.due, news?.sources?.queued, news?.sources?.running].join();
}

/**
 * Calls `read` at once and when `what` changes; then, with the daemon's news and not too often,
 * when it had a `problem` that may pass, an event told of sources, one of `shown` is under way or
 * its time has come (successes are no events), or one is held back and some have moved.
 */
export function useSources(
  read: () => void,
  what: unknown,
  shown: Source[],
  problem: unknown,
): void {
  const now = useRef({ shown, problem });
  now.current = { shown, problem };
  useEffect(() => {
    let readAt = performance.now();
    let events = sourcesChanged.peek();
    let moved = tally(live.peek());
    read();
    return live.subscribe((news) => {
      if (news === null || performance.now() - readAt < kRest) return;
      const stale = ({ state, due_at_ms }: Source) => {
        if (state === "queued" || state === "running") return true;
        if (state === "held_back" || state === "breaker_open") return moved !== tally(news);
        return due_at_ms <= news.time_ms;
      };
      const { shown, problem } = now.current;
      const failed = problem !== null && mayPass(problem);
      if (!failed && events === sourcesChanged.peek() && !shown.some(stale)) return;
      events = sourcesChanged.peek();
      moved = tally(news);
      readAt = performance.now();
      read();
    });
  }, [what]);
}

function Row({ source, now }: { source: Source; now: number }) {
  const { name, url, state, last } = source;
  return (
    <tr data-testid="source" data-name={name} data-state={state}>
      <th scope="row">
        <a href={hrefOf({ page: "source", name })}>{name}</a>
        <span class="url" title={url}>
          {url}
        </span>
      </th>
      <td data-label="State" class={troubled(source) ? "bad" : undefined}>
        {kSourceStates[state]}
        {source.failures > 0 && <small> {plural(source.failures, "failure")}</small>}
      </td>
      <td data-label="Every" class="number">
        {short(source.every_ms)}
      </td>
      <td data-label="Due" class="number">
        {fromNow(source.due_at_ms, now)}
      </td>
      <td data-label="Last" class={`number ${last !== null && bad(last) ? "bad" : ""}`}>
        {statusOf(last)}
      </td>
      <td data-label="Took" class="number">
        {last === null ? "–" : span(last.took_ms)}
      </td>
    </tr>
  );
}

function Summary() {
  const sources = live.value?.sources;
  if (sources == null) return <p class="hint">This daemon has no sources.</p>;
  const { total, due, queued, running, failing, breakers_open } = sources;
  const parts = [`${count(due)} due`, `${count(queued)} queued`, `${count(running)} running`];
  return (
    <p class="lead" data-testid="sources-summary">
      {plural(total, "source")}: {parts.join(", ")},
      <span class={failing > 0 ? "bad" : undefined}> {count(failing)} failing</span>.
      {breakers_open.length > 0 && (
        <> Left alone after repeated failures: {breakers_open.join(", ")}.</>
      )}
    </p>
  );
}

interface Found {
  total: number;
  sources: Source[];
}

export function SourcesPage() {
  const [trail, setTrail] = useState<string[]>([""]);
  const [page, setPage] = useState<(Found & { trail: string[] }) | null>(null);
  const [problem, setProblem] = useState<unknown>(null);
  const wanted = useRef(trail);
  wanted.current = trail;
  useSources(read, trail, page?.sources ?? [], problem);
  function read(): void {
    const after = encodeURIComponent(trail.at(-1) ?? "");
    get<Found>(`v1/sources?count=${kPage}&after=${after}`).then(
      (found) => {
        if (trail !== wanted.current) return;
        setPage({ ...found, trail });
        setProblem(null);
      },
      setProblem,
    );
  }
  const next = () => {
    if (page?.trail !== trail) return; // the last is under way
    setTrail([...trail, page.sources.at(-1)?.name ?? ""]);
  };
  const now = live.value?.time_ms ?? Date.now();
  const first = ((page?.trail.length ?? 1) - 1) * kPage;
  const rows = page?.sources ?? [];
  return (
    <section class="sources" aria-labelledby="sources-title" data-testid="sources">
      <h1 id="sources-title">Sources</h1>
      {page?.total !== 0 && <Summary />}
      {problem !== null && <p class="problem">{reasonOf(problem)}</p>}
      {page !== null && page.total === 0 && <NoSources />}
      {rows.length > 0 && (
        <table>
          <Columns texts={["Source", "State"]} numbers={["Every", "Due", "Last", "Took"]} />
          <tbody>
            {rows.map((source) => (
              <Row key={source.name} source={source} now={now} />
            ))}
          </tbody>
        </table>
      )}
      {page !== null && page.total > kPage && (
        <div class="pager">
          <button
            type="button"
            disabled={trail.length === 1}
            onClick={() => setTrail(trail.slice(0, -1))}
          >
            Back
          </button>
          <span>
            {first + 1}–{first + rows.length} of {page.total}
          </span>
          <button
            type="button"
            disabled={first + rows.length >= page.total}
            onClick={next}
          >
            Next
          </button>
        </div>
      )}
    </section>
  );
}

function NoSources() {
  return (
    <div class="empty" data-testid="no-sources">
      <p>A source is an address that Weir fetches on a schedule, within the provider’s limits.</p>
      <pre>{"# oil.yaml\nname: oil\nurl: https://api.example.com/oil\nevery: 5m"}</pre>
      <pre>weir add oil.yaml</pre>
    </div>
  );
}
