// The past: use of limits, wait beside API time, queue; and what happened, on the same time line.
import { clock, clockSeconds, count, percent, span } from "../format";
import type { History } from "../wire";
import {
  hidden,
  kHeights,
  kLineCount,
  LineSample,
  markChart,
  queueChart,
  timeChart,
  useChart,
} from "./chart_kinds";
import { Glyph } from "./glyph";
import { Plot, pointed } from "./plot";
import { PastTable } from "./past_table";

const kShortest = 18; // steps: a history that has just begun is not pressed into a corner
const kMarks = [
  ["refused", "refused by us"],
  ["limited", "429 from the API"],
  ["reduced", "limit lowered"],
  ["recovered", "limit raised again"],
] as const;

function sum(values: number[]): number {
  return values.reduce((all, value) => all + value, 0);
}

function toggle(line: string): void {
  const next = new Set(hidden.value);
  if (!next.delete(line)) next.add(line);
  hidden.value = next;
}

function Legends({ data, at }: { data: History; at: number }) {
  return {
    use: (
      <ul class="legend">
        {data.limits.slice(0, kLineCount).map((limit, i) => (
          <li key={limit.scope + limit.name}>
            <button
              type="button"
              aria-pressed={!hidden.value.has(limit.scope + limit.name)}
              title="Show or hide"
              onClick={() => toggle(limit.scope + limit.name)}
            >
              <LineSample place={i} /> {limit.name}
              {limit.scope !== "provider" && <small> {limit.scope}</small>}{" "}
              <b>{limit.used[at] == null ? "–" : percent(limit.used[at] ?? 0)}</b>
            </button>
          </li>
        ))}
      </ul>
    ),
    time: (
      <ul class="legend">
        <li>
          <i class="wait" /> waiting for quota <b>{span(data.wait_ms[at] ?? null)}</b>
        </li>
        <li>
          <i class="api" /> in the API <b>{span(data.upstream_ms[at] ?? null)}</b>
        </li>
      </ul>
    ),
    queue: (
      <ul class="legend">
        <li>
          <i class="wait" /> waiting <b>{count(data.waiting[at] ?? 0)}</b>
        </li>
        <li>
          <LineSample place={1} /> in flight <b>{count(data.in_flight[at] ?? 0)}</b>
        </li>
      </ul>
    ),
    marks: (
      <ul class="legend">
        {kMarks.map(([key, label]) => (
          <li key={key}>
            <Glyph sign={key} /> {label}{" "}
            <b>{count(pointed.value === null ? sum(data[key]) : (data[key][at] ?? 0))}</b>
          </li>
        ))}
      </ul>
    ),
  };
}

function describe(
  data: History,
  x: [number, number],
): Record<"use" | "time" | "queue" | "marks", string> {
  const last = data.time_ms.length - 1;
  const between = `${clock(x[0])} to ${clock(x[1])}`;
  const peaks = data.limits.map((limit) => {
    const most = limit.used.reduce<number>((top, value) => Math.max(top, value ?? 0), 0);
    return `${limit.name} now ${percent(limit.used[last] ?? 0)}, at most ${percent(most)}`;
  });
  return {
    use: `Use of limits, ${between}: ${peaks.join("; ")}`,
    time:
      `Mean time of a call, ${between}: now ${span(data.wait_ms[last] ?? null)} waiting for ` +
      `quota and ${span(data.upstream_ms[last] ?? null)} in the API`,
    queue:
      `Queue, ${between}: ${data.waiting[last] ?? 0} waiting now, at most ` +
      `${Math.max(0, ...data.waiting)}; ${data.in_flight[last] ?? 0} in flight`,
    marks: `Events, ${between}: ${kMarks.map(([k, l]) => `${sum(data[k])} ${l}`).join(", ")}`,
  };
}

export function Plots({ data, version }: { data: History; version: number }) {
  const end = data.time_ms.at(-1) ?? 0;
  const first = data.time_ms[0] ?? end;
  const x: [number, number] = [Math.min(first, end - kShortest * data.step_ms), end];
  const at = Math.min(pointed.value ?? Infinity, data.time_ms.length - 1);
  const id = `${data.resource} ${data.step_ms} ${data.limits.length}`;
  const labels = describe(data, x);
  const legend = Legends({ data, at });
  const when = pointed.value === null ? "" : `at ${clockSeconds(data.time_ms[at] ?? end)}`;
  const use = useChart(data, version);
  const time = timeChart(data, version);
  const queue = queueChart(data, version);
  const marks = markChart(data, version);
  return (
    <div class="plots">
      <figure>
        <figcaption>
          <h3>
            Use of limits <small>{when}</small>
          </h3>
          {legend.use}
        </figcaption>
        <Plot
          id={id + [...hidden.value].join()}
          x={x}
          height={kHeights.use}
          label={labels.use}
          {...use}
        />
      </figure>
      <figure>
        <figcaption>
          <h3>
            A call’s time <small>{when}</small>
          </h3>
          {legend.time}
        </figcaption>
        <Plot id={id} x={x} height={kHeights.time} label={labels.time} {...time} />
      </figure>
      <figure>
        <figcaption>
          <h3>
            Queue <small>{when}</small>
          </h3>
          {legend.queue}
        </figcaption>
        <Plot id={id} x={x} height={kHeights.queue} label={labels.queue} {...queue} />
      </figure>
      <figure>
        <figcaption>
          <h3>
            Events <small>{when}</small>
          </h3>
          {legend.marks}
        </figcaption>
        <Plot id={id} x={x} height={kHeights.marks} label={labels.marks} times {...marks} />
      </figure>
      <PastTable data={data} />
    </div>
  );
}
