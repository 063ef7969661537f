// The past of one provider, kept up to date by points. Arrays are reused: memory stays level.
import { kCounts, kLargest, kMeans } from "./wire";
import type { History, Point, Span } from "./wire";

const kPointMs = 10_000;
/** What the daemon keeps; of a day also the step under way. */
export const kSteps: Record<Span, number> = { "1h": 360, "24h": 721 };

/**
 * Adds a point of 10 s. In a history of longer steps it is folded into the last step until that
 * is full. Returns false if the point is not newer than what is there.
 */
export function append(history: History, point: Point, steps: number): boolean {
  if (point.time_ms <= history.until_ms) return false;
  history.until_ms = point.time_ms;
  const longer = history.step_ms - kPointMs;
  const last = history.time_ms.at(-1) ?? 0;
  if (longer > 0 && point.time_ms < last + kPointMs / 2) {
    fold(history, point); // the last of a step may be late by some milliseconds
    return true;
  }
  history.time_ms.push(point.time_ms + longer);
  for (const key of kCounts) history[key].push(point[key]);
  for (const key of kLargest) history[key].push(point[key]);
  for (const [key] of kMeans) history[key].push(point[key]);
  pushLimits(history, point);
  while (history.time_ms.length > steps) shift(history);
  return true;
}

/** Whether points between what is there and `point` are not. */
export function lacksBefore(history: History, point: Point): boolean {
  return history.until_ms > 0 && point.time_ms > history.until_ms + 1.5 * kPointMs;
}

/** Of means and the counts behind them; null where nothing was counted. */
export function mean(means: (number | null)[], counts: number[]): number | null {
  const all = counts.reduce((sum, count) => sum + count, 0);
  const sum = means.reduce<number>((sum, mean, at) => sum + (mean ?? 0) * (counts[at] ?? 0), 0);
  return all === 0 ? null : sum / all;
}

/** The largest; null where nothing is known. */
export function most(values: (number | null)[]): number | null {
  const known = values.filter((value) => value !== null);
  return known.length === 0 ? null : Math.max(...known);
}

function fold(history: History, point: Point): void {
  const at = history.time_ms.length - 1;
  for (const [key, counts] of kMeans) {
    history[key][at] = mean(
      [history[key][at] ?? null, point[key]],
      [history[counts][at] ?? 0, point[counts]],
    );
  }
  for (const key of kCounts) history[key][at] = (history[key][at] ?? 0) + point[key];
  for (const key of kLargest) history[key][at] = Math.max(history[key][at] ?? 0, point[key]);
  for (const limit of point.limits) {
    const column = columnOf(history, limit);
    column[at] = most([column[at] ?? null, limit.used]);
  }
}

function pushLimits(history: History, point: Point): void {
  const length = history.time_ms.length;
  for (const limit of point.limits) columnOf(history, limit)[length - 1] = limit.used;
  for (const { used } of history.limits) if (used.length < length) used.push(null);
}

function columnOf(history: History, limit: Point["limits"][number]): (number | null)[] {
  const known = history.limits.find((l) => l.name === limit.name && l.scope === limit.scope);
  if (known !== undefined) return known.used;
  const { name, unit, scope } = limit;
  const used = new Array<number | null>(Math.max(history.time_ms.length - 1, 0)).fill(null);
  history.limits.push({ name, unit, scope, used });
  return used;
}

function shift(history: History): void {
  history.time_ms.shift();
  for (const key of kCounts) history[key].shift();
  for (const key of kLargest) history[key].shift();
  for (const [key] of kMeans) history[key].shift();
  for (const limit of history.limits) limit.used.shift();
}
