// uPlot in a component: made once for its series and colours, then given data and a size.
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { clock, clockSeconds } from "../format";

/** The step under the pointer in all charts at once; null: none. */
export const pointed = signal<number | null>(null);

/** Counts changes of the colour scheme, for those who draw with its colours. */
export const scheme = signal(0);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => (scheme.value += 1));

export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

const kSync = "history";
const kLeft = 46; // the same for all, so that their times stand above each other
const kRight = 18;

/** What a chart draws. */
export interface Kind {
  data: uPlot.AlignedData;
  series: () => uPlot.Series[];
  y: uPlot.Scale;
  /** The text at a line; `apart` is how far the lines are from each other. */
  ticks: (value: number, apart: number) => string;
  /** How far apart they may be; uPlot chooses if not given. */
  steps?: number[];
  /** Where the horizontal lines are; uPlot chooses if not given. */
  splits?: number[];
  /** Whether points follow the pointer. */
  dots?: boolean;
  draw?: (chart: uPlot) => void;
}

interface PlotProps extends Kind {
  /** Another one makes another chart. */
  id: string;
  height: number;
  label: string;
  /** Whether it carries the times below. */
  times?: boolean;
  x: [number, number];
}

function optionsOf(props: PlotProps, width: number, range: () => [number, number]): uPlot.Options {
  const font = `11px ${getComputedStyle(document.body).fontFamily}`;
  const stroke = colour("faint");
  const grid = { stroke: colour("rule"), width: 1 };
  const { ticks, times = false, dots = true, draw, splits, steps } = props;
  return {
    width,
    height: props.height,
    ms: 1,
    padding: [6, kRight, times ? 0 : 6, 0],
    legend: { show: false },
    cursor: {
      sync: { key: kSync },
      drag: { x: false, y: false },
      y: false,
      points: dots ? { size: 5 } : { show: false },
    },
    scales: { x: { time: true, range }, y: props.y },
    axes: [
      {
        font,
        stroke,
        grid,
        ticks: { show: false },
        size: times ? 22 : 0,
        gap: 4,
        space: 54,
        values: (_, at) => (times ? clocks(at) : at.map(() => "")),
      },
      {
        font,
        stroke,
        grid,
        ticks: { show: false },
        size: kLeft,
        gap: 6,
        space: 26,
        values: (_, at, __, ___, apart) => at.map((v) => (v === null ? "" : ticks(v, apart))),
        ...(splits && { splits }),
        ...(steps && { incrs: steps }),
      },
    ],
    series: [{}, ...props.series()],
    hooks: {
      setCursor: [(chart) => (pointed.value = chart.cursor.idx ?? null)],
      draw: draw === undefined ? [] : [draw],
    },
  };
}

function clocks(splits: number[]): string[] {
  const apart = (splits[1] ?? Infinity) - (splits[0] ?? 0);
  return splits.map(apart < 60_000 ? clockSeconds : clock);
}

export function Plot(props: PlotProps) {
  const place = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const range = useRef(props.x);
  range.current = props.x;
  const { data } = props;

  useEffect(() => {
    const box = place.current;
    if (box === null) return;
    const made = new uPlot(
      optionsOf(props, box.clientWidth, () => range.current),
      data,
      box,
    );
    chart.current = made;
    const sized = new ResizeObserver(() => {
      made.setSize({ width: box.clientWidth, height: props.height });
    });
    sized.observe(box);
    return () => {
      sized.disconnect();
      made.destroy();
      pointed.value = null;
      chart.current = null;
    };
  }, [props.id, scheme.value]);

  useEffect(() => {
    chart.current?.setData(data);
  }, [data]);

  return <div class="plot" ref={place} role="img" aria-label={props.label} />;
}
