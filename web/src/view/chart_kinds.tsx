// What each chart draws: its columns, lines and axis.
import { signal } from "@preact/signals";
import uPlot from "uplot";
import { count, percent, span } from "../format";
import type { History } from "../wire";
import { pathOf } from "./glyph";
import { colour } from "./plot";

export const kHeights = { use: 160, time: 118, queue: 92, marks: 92 };

// Lines differ by dash as well as by colour.
const kLines: [string, number[]][] = [
  ["line-1", []],
  ["line-2", [6, 3]],
  ["line-3", [2, 2]],
  ["line-4", [9, 3, 2, 3]],
  ["line-5", [4, 2]],
  ["line-6", [12, 3]],
];
/** Limits whose lines the reader has put away, by scope and name. */
export const hidden = signal<ReadonlySet<string>>(new Set());

export const kLineCount = kLines.length;

export function LineSample({ place }: { place: number }) {
  const [name, dash] = kLines[place] ?? ["line-1", []];
  return (
    <svg class={`sample ${name}`} viewBox="0 0 22 8" aria-hidden="true">
      <path d="M0 4h22" stroke-dasharray={dash.join(" ")} />
    </svg>
  );
}

interface Kind {
  data: uPlot.AlignedData;
  series: () => uPlot.Series[];
  y: uPlot.Scale;
  ticks: (value: number) => string;
  splits?: number[];
  draw?: (chart: uPlot) => void;
}

// A chart's data is another array exactly when the history has changed.
function remember(): (
  data: History,
  version: number,
  make: () => uPlot.AlignedData,
) => uPlot.AlignedData {
  let of: History | null = null;
  let at = -1;
  let made: uPlot.AlignedData = [[]];
  return (data, version, make) => {
    if (data !== of || version !== at) {
      made = make();
      of = data;
      at = version;
    }
    return made;
  };
}

const useData = remember();
const timeData = remember();
const queueData = remember();
const markData = remember();

function upTo(least: number): uPlot.Scale {
  return { range: (_, __, most) => [0, Math.max(least, (most ?? 0) * 1.1)] };
}

function line(place: number): uPlot.Series {
  const [name, dash] = kLines[place] ?? ["line-1", []];
  return { stroke: colour(name), width: 1.5, dash, points: { show: false } };
}

export function useChart(data: History, version: number): Kind {
  const shown = data.limits.slice(0, kLineCount);
  return {
    data: useData(data, version, () => [data.time_ms, ...shown.map((limit) => limit.used)]),
    series: () =>
      shown.map(({ scope, name }, place) => ({
        ...line(place),
        show: !hidden.peek().has(scope + name),
      })),
    y: { range: [0, 1.02] },
    ticks: (value) => (value > 1 ? "" : percent(value)),
  };
}

/**
 * API time below, the wait on top of it: the height is what a caller sees. A step in which nobody
 * was admitted is a gap (null) if nobody waited either; else the line goes on (undefined).
 */
export function timeChart(data: History, version: number): Kind {
  const missing = (i: number) => ((data.waiting[i] ?? 0) > 0 ? undefined : null);
  const columns = (): uPlot.AlignedData => [
    data.time_ms,
    data.upstream_ms.map((upstream, i) => {
      const wait = data.wait_ms[i] ?? null;
      return wait === null && upstream === null ? missing(i) : (wait ?? 0) + (upstream ?? 0);
    }),
    data.upstream_ms.map((upstream, i) => upstream ?? missing(i)),
  ];
  return {
    data: timeData(data, version, columns),
    series: () => [
      { stroke: colour("wait"), fill: colour("wait-area"), width: 1.5, points: { show: false } },
      { stroke: colour("api"), fill: () => hatch(), width: 1.5, points: { show: false } },
    ],
    y: upTo(100),
    ticks: (value) => (value === 0 ? "0" : span(value)),
  };
}

export function queueChart(data: History, version: number): Kind {
  const steps = uPlot.paths.stepped?.({ align: -1 });
  return {
    data: queueData(data, version, () => [data.time_ms, data.waiting, data.in_flight]),
    series: () => [
      {
        stroke: colour("wait"),
        fill: colour("wait-area"),
        width: 1.5,
        points: { show: false },
        ...(steps && { paths: steps }),
      },
      line(1),
    ],
    y: upTo(4),
    ticks: (value) => (Number.isInteger(value) ? count(value) : ""),
  };
}

const kLanes = ["refused", "limited", "reduced", "recovered"] as const;

/** A lane a kind of event; signs that would touch are drawn once. */
export function markChart(data: History, version: number): Kind {
  return {
    data: markData(data, version, () => [data.time_ms, ...kLanes.map((key) => data[key])]),
    series: () => kLanes.map(() => ({ show: true, paths: () => null, points: { show: false } })),
    y: { range: [-0.5, kLanes.length - 0.5] },
    ticks: () => "",
    splits: kLanes.map((_, lane) => lane),
    draw: drawMarks,
  };
}

function drawMarks(chart: uPlot): void {
  const { ctx } = chart;
  const ratio = devicePixelRatio;
  const size = 9 * ratio;
  kLanes.forEach((key, lane) => {
    const y = chart.valToPos(kLanes.length - 1 - lane, "y", true);
    const path = pathOf(key);
    let free = -Infinity;
    (chart.data[lane + 1] ?? []).forEach((value, i) => {
      const x = chart.valToPos(chart.data[0][i] ?? 0, "x", true);
      if (!value || x < free || x < chart.bbox.left) return;
      free = x + size * 0.8;
      ctx.save();
      ctx.translate(x - size / 2, y - size / 2);
      ctx.scale(size / 12, size / 12);
      ctx.fillStyle = colour(`sign-${key}`);
      ctx.fill(path);
      ctx.restore();
    });
  });
}

function hatch(): CanvasPattern | string {
  const tile = document.createElement("canvas");
  const size = Math.round(6 * devicePixelRatio);
  tile.width = tile.height = size;
  const ctx = tile.getContext("2d");
  if (ctx === null) return colour("api");
  ctx.fillStyle = colour("ground");
  ctx.fillRect(0, 0, size, size);
  ctx.strokeStyle = colour("api-hatch");
  ctx.lineWidth = devicePixelRatio;
  ctx.beginPath();
  ctx.moveTo(-1, size + 1);
  ctx.lineTo(size + 1, -1);
  ctx.stroke();
  return ctx.createPattern(tile, "repeat") ?? colour("api");
}
