// Figures for people. Pure.

const kKilo = ["", "k", "M", "G", "T", "P"];

/** 950, "1.2k", "270k", "1.5M": at most three digits that mean something. */
export function count(value: number): string {
  let scaled = Math.abs(value);
  let power = 0;
  while (scaled >= 999.5 && power < kKilo.length - 1) {
    scaled /= 1000;
    power += 1;
  }
  const digits = power === 0 ? (Number.isInteger(scaled) ? 0 : 1) : scaled < 9.95 ? 1 : 0;
  const text = scaled.toFixed(digits).replace(/\.0$/, "");
  return (value < 0 ? "−" : "") + text + kKilo[power];
}

/** "300,000" */
export function exact(value: number): string {
  return value.toLocaleString("en-GB", { maximumFractionDigits: 6 });
}

/** "0 ms", "640 ms", "1.2 s", "3 min 20 s", "2 h 5 min", "3 d 4 h". */
export function span(ms: number | null): string {
  if (ms === null) return "–";
  if (ms < 1) return ms > 0 ? "<1 ms" : "0 ms";
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 9_950) return `${(ms / 1000).toFixed(1).replace(".0", "")} s`;
  const s = Math.round(ms / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return pair(Math.floor(s / 60), "min", s % 60, "s");
  const min = Math.round(s / 60);
  if (min < 1440) return pair(Math.floor(min / 60), "h", min % 60, "min");
  const h = Math.round(min / 60);
  return pair(Math.floor(h / 24), "d", h % 24, "h");
}

function pair(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large} ${largeUnit}` : `${large} ${largeUnit} ${small} ${smallUnit}`;
}

/** A span in the largest unit that `step` is a whole number of: "90 s" for 30 s, "2 min", "3 h". */
export function spanIn(ms: number, step: number): string {
  if (step >= 3_600_000) return `${ms / 3_600_000} h`;
  if (step >= 60_000) return `${ms / 60_000} min`;
  return step >= 1_000 || ms >= 1_000 ? `${ms / 1_000} s` : `${ms} ms`;
}

/** "$0.42", "$0.0031", "$1.2k" */
export function dollars(value: number): string {
  const size = Math.abs(value);
  if (size >= 1000) return `$${count(value)}`;
  if (size === 0 || size >= 0.995) return `$${value.toFixed(2).replace(/\.00$/, "")}`;
  return `$${value.toPrecision(2)}`;
}

/** An amount of a limit's unit, without the unit's name. */
export function amount(value: number, unit: string): string {
  return unit === "usd" ? dollars(value) : count(value);
}

/** "requests per 1m", and whose it is if not the provider's: "requests per 1m, model gpt-4o". */
export function limitName({ name, scope }: { name: string; scope: string }): string {
  return scope === "provider" ? name : `${name}, ${scope}`;
}

/** "tokens", "token"; money needs no word. */
export function unitWord(unit: string): string {
  return unit === "usd" ? "" : unit.replace(/_/g, " ");
}

/** "96%"; 100% only when it is. */
export function percent(part: number | null): string {
  if (part === null) return "–";
  const value = part * 100;
  if (value > 0 && value < 1) return "<1%";
  if (value < 100 && value > 99) return "99%";
  return `${Math.round(value)}%`;
}

export function bytes(value: number): string {
  return value < 1000 ? `${value} B` : `${count(value)}B`;
}

export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

const kTime: Intl.DateTimeFormatOptions = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
const minutes = new Intl.DateTimeFormat("en-GB", kTime);
const seconds = new Intl.DateTimeFormat("en-GB", { ...kTime, second: "2-digit" });
const dates = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const days = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short" });

/** "17:40" */
export function clock(ms: number): string {
  return minutes.format(ms);
}

/** "17:40:05" */
export function clockSeconds(ms: number): string {
  return seconds.format(ms);
}

/** "17:40:05", of another day "20 Nov 17:40:05" */
export function stamp(ms: number, now: number): string {
  const today = startOfDay(ms) === startOfDay(now);
  return today ? clockSeconds(ms) : `${dates.format(ms)} ${clockSeconds(ms)}`;
}

/** "at 17:40", "tomorrow at 02:10", "on Fri, 20 Nov at 02:10" */
export function moment(ms: number, now: number): string {
  const away = Math.round((startOfDay(ms) - startOfDay(now)) / 86_400_000);
  if (away === 0) return `at ${clock(ms)}`;
  if (away === 1) return `tomorrow at ${clock(ms)}`;
  if (away === -1) return `yesterday at ${clock(ms)}`;
  return `on ${days.format(ms)} at ${clock(ms)}`;
}

function startOfDay(ms: number): number {
  return new Date(ms).setHours(0, 0, 0, 0);
}

/** "now", "12 s ago", "in 3 min" */
export function fromNow(ms: number, now: number): string {
  const away = ms - now;
  if (Math.abs(away) < 1000) return "now";
  return away < 0 ? `${short(-away)} ago` : `in ${short(away)}`;
}

/** A span by its largest unit alone. */
export function short(ms: number): string {
  if (ms < 60_000) return `${Math.round(ms / 1000)} s`;
  if (ms < 3_600_000) return `${Math.round(ms / 60_000)} min`;
  if (ms < 86_400_000) return `${Math.round(ms / 3_600_000)} h`;
  return `${Math.round(ms / 86_400_000)} d`;
}
