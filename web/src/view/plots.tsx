// The past: use of limits, wait beside API time, queue; and what happened, on the same time line.
import type { ComponentChildren } from "preact";
import { clock, clockSeconds, count, limitName, percent, span } from "../format";
import { most } from "../history";
import type { History } from "../wire";
import { kHeights, kLanesMax, limitChart, markChart, queueChart, timeChart } from "./chart_kinds";
import { Glyph } from "./glyph";
import { PastTable } from "./past_table";
import { Plot, pointed } from "./plot";

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

/** Names and values of the lanes, laid over them. */
function Lanes({ data, at }: { data: History; at: number }) {
  return (
    <ul class="lanes" aria-hidden="true">
      {data.limits.slice(0, kLanesMax).map((limit, lane) => (
        <li key={lane}>
          <b>{percent(limit.used[at] ?? null)}</b>
          <span>
            {limit.name}
            {limit.scope !== "provider" && <small> {limit.scope}</small>}
          </span>
        </li>
      ))}
    </ul>
  );
}

function Entry({ sign, name, value }: { sign: ComponentChildren; name: string; value?: string }) {
  return (
    <li>
      {sign} {name} {value !== undefined && <b>{value}</b>}
    </li>
  );
}

interface ChartProps {
  title: string;
  when: string;
  legend: ComponentChildren;
  children: ComponentChildren;
}

function Chart({ title, when, legend, children }: ChartProps) {
  return (
    <figure>
      <figcaption>
        <h3>
          {title} <small>{when}</small>
        </h3>
        <ul class="legend">{legend}</ul>
      </figcaption>
      {children}
    </figure>
  );
}

function describe(
  data: History,
  x: [number, number],
): Record<"use" | "time" | "queue" | "marks", string> {
  const last = data.time_ms.length - 1;
  const between = `${clock(x[0])} to ${clock(x[1])}`;
  const peaks = data.limits.map((limit) => {
    const now = percent(limit.used[last] ?? null);
    return `${limitName(limit)} now ${now}, at most ${percent(most(limit.used))}`;
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
  const lanes = Math.min(kLanesMax, data.limits.length);
  const more = data.limits.length - lanes;
  const id = `${data.resource} ${data.step_ms} ${data.limits.length}`;
  const labels = describe(data, x);
  const marks = kMarks.map(([key, name]) => {
    const value = pointed.value === null ? sum(data[key]) : (data[key][at] ?? 0);
    return <Entry key={key} sign={<Glyph sign={key} />} name={name} value={count(value)} />;
  });
  const wait = span(data.wait_ms[at] ?? null);
  const upstream = span(data.upstream_ms[at] ?? null);
  const waiting = count(data.waiting[at] ?? 0);
  const flying = count(data.in_flight[at] ?? 0);
  const same = { id, x };
  const when = pointed.value === null ? "" : `at ${clockSeconds(data.time_ms[at] ?? end)}`;
  return (
    <div class="plots">
      {lanes > 0 && (
        <Chart
          title="Use of limits"
          when={when}
          legend={
            <>
              <Entry sign={<i class="used" />} name="used" />
              <Entry sign={<i class="wait" />} name="used up" />
            </>
          }
        >
          <div class="laned">
            <Plot
              {...same}
              {...limitChart(data, version)}
              height={lanes * kHeights.lane + 12}
              label={labels.use}
            />
            <Lanes data={data} at={at} />
          </div>
          {more > 0 && <p class="hint">and {count(more)} more, in the table</p>}
        </Chart>
      )}
      <Chart
        title="A call’s time"
        when={when}
        legend={
          <>
            <Entry sign={<i class="wait" />} name="waiting for quota" value={wait} />
            <Entry sign={<i class="api" />} name="in the API" value={upstream} />
          </>
        }
      >
        <Plot {...same} {...timeChart(data, version)} height={kHeights.time} label={labels.time} />
      </Chart>
      <Chart
        title="Queue"
        when={when}
        legend={
          <>
            <Entry sign={<i class="wait" />} name="waiting" value={waiting} />
            <Entry sign={<i class="dashes" />} name="in flight" value={flying} />
          </>
        }
      >
        <Plot
          {...same}
          {...queueChart(data, version)}
          height={kHeights.queue}
          label={labels.queue}
        />
      </Chart>
      <Chart title="Events" when={when} legend={marks}>
        <Plot
          {...same}
          {...markChart(data, version)}
          height={kHeights.marks}
          label={labels.marks}
          times
        />
      </Chart>
      <PastTable data={data} />
    </div>
  );
}
