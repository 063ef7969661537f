// The past of one provider, kept up to date by points. Arrays are reused: memory stays level.
import { kCounts, kLargest, kMeans } from "./wire";
import type { History, Point, Span } from "./wire";

const kPointMs = 10_000;
export const kSteps: Record<Span, number> = { "1h": 360, "24h": 720 };

/**
 * Adds a point of 10 s. In a history of longer steps it is folded into the last step until that
 * is full. Returns false if the point is not newer than what is there.
 */
export function append(history: History, point: Point, steps: number): boolean {
  const last = history.time_ms.at(-1);
  const long = history.step_ms > kPointMs;
  if (last !== undefined && point.time_ms <= last) {
    if (!long || point.time_ms <= last - history.step_ms) return false;
    fold(history, point);
    return true;
  }
  history.time_ms.push(long ? point.time_ms - kPointMs + history.step_ms : point.time_ms);
  for (const key of kCounts) history[key].push(point[key]);
  for (const key of kLargest) history[key].push(point[key]);
  for (const key of kMeans) history[key].push(point[key]);
  pushLimits(history, point);
  while (history.time_ms.length > steps) shift(history);
  return true;
}

function fold(history: History, point: Point): void {
  const at = history.time_ms.length - 1;
  const before = history.admitted[at] ?? 0;
  const all = before + point.admitted;
  for (const key of kMeans) {
    const mean = point[key];
    const old = history[key][at] ?? null;
    if (mean === null) continue;
    history[key][at] =
      old === null || all === 0 ? mean : (old * before + mean * point.admitted) / all;
  }
  for (const key of kCounts) history[key][at] = (history[key][at] ?? 0) + point[key];
  for (const key of kLargest) history[key][at] = Math.max(history[key][at] ?? 0, point[key]);
  for (const limit of point.limits) {
    const column = columnOf(history, limit);
    column[at] = Math.max(column[at] ?? 0, limit.used ?? 0);
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
  for (const key of kMeans) history[key].shift();
  for (const limit of history.limits) limit.used.shift();
}
