// What each chart draws: its columns, lines and axis.
import uPlot from "uplot";
import { count, spanIn } from "../format";
import type { History } from "../wire";
import { pathOf } from "./glyph";
import { colour, type Kind } from "./plot";

export const kHeights = { lane: 42, time: 118, queue: 92, marks: 92 };
export const kLanesMax = 8;

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

const limitData = remember();
const timeData = remember();
const queueData = remember();
const markData = remember();

// What draws itself.
const kUnseen: uPlot.Series = { paths: () => null, points: { show: false } };

function upTo(least: number): uPlot.Scale {
  return { range: (_, __, most) => [0, Math.max(least, (most ?? 0) * 1.1)] };
}

/** A lane a limit, each from 0 to 100% used; dark where it was used up. */
export function limitChart(data: History, version: number): Kind {
  const shown = data.limits.slice(0, kLanesMax);
  return {
    data: limitData(data, version, () => [data.time_ms, ...shown.map((limit) => limit.used)]),
    series: () => shown.map(() => kUnseen),
    y: { range: [0, shown.length] },
    ticks: () => "",
    splits: shown.map((_, lane) => lane),
    dots: false,
    draw: (chart) => shown.forEach((_, lane) => drawLane(chart, lane, shown.length)),
  };
}

const kFull = 0.99;
const kFilled = 0.62; // of a lane; its name stands above

function drawLane(chart: uPlot, lane: number, lanes: number): void {
  const { ctx } = chart;
  const times = chart.data[0];
  const values = chart.data[lane + 1] ?? [];
  const base = chart.valToPos(lanes - 1 - lane, "y", true);
  const height = (base - chart.valToPos(lanes - lane, "y", true)) * kFilled;
  const [area, full, edge] = [colour("wait-area"), colour("wait"), colour("wait")];
  const step = (times.at(-1) ?? 0) - (times.at(-2) ?? 0);
  values.forEach((value, i) => {
    const end = times[i] ?? 0;
    const from = chart.valToPos(times[i - 1] ?? end - step, "x", true);
    const to = chart.valToPos(end, "x", true);
    if (value == null || to <= chart.bbox.left) return;
    const left = Math.max(from, chart.bbox.left);
    const top = base - height * Math.min(1, value);
    ctx.fillStyle = value >= kFull ? full : area;
    ctx.fillRect(left, top, to - left + 0.5, base - top);
    ctx.fillStyle = edge;
    ctx.fillRect(left, top, to - left + 0.5, 1.5 * devicePixelRatio);
  });
}

// Milliseconds, then seconds, minutes and hours, each in round numbers.
const kTimeSteps = [
  ...[10, 20, 50, 100, 200, 500],
  ...[1, 2, 5, 10, 20, 30].map((s) => s * 1_000),
  ...[1, 2, 5, 10, 20, 30].map((min) => min * 60_000),
  ...[1, 2, 5, 10, 20, 50].map((h) => h * 3_600_000),
];

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
    ticks: (value, apart) => (value === 0 ? "0" : spanIn(value, apart)),
    steps: kTimeSteps,
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
      { stroke: colour("in-flight"), width: 1.5, dash: [6, 3], points: { show: false } },
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
    series: () => kLanes.map(() => kUnseen),
    y: { range: [-0.5, kLanes.length - 0.5] },
    ticks: () => "",
    splits: kLanes.map((_, lane) => lane),
    dots: false,
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
