// What the daemon says. Times are milliseconds since 1970 (`*_at_ms`, `time_ms`) or spans (`*_ms`).

export type Scope = "client" | "read" | "admin";
export type ResourceState = "open" | "held" | "paused" | "exhausted";
export type Severity = "critical" | "warning" | "info";

export interface Spread {
  count: number;
  mean_ms: number | null;
  p50_ms: number | null;
  p99_ms: number | null;
  max_ms: number | null;
}

export interface LimitName {
  name: string;
  unit: string;
  scope: string;
}

export interface Limit extends LimitName {
  amount: number;
  per_ms: number | null;
  capacity: number;
  available: number;
  used: number;
  hits: number;
  configured: number | null;
  ends_at_ms: number | null;
  resets_at_ms: number | null;
}

export interface Agent {
  name: string;
  share: number;
  admitted: number;
  waiting: number;
  in_flight: number;
  others?: number;
}

export interface Waiter {
  agent: string;
  model: string;
  waited_ms: number;
  tokens: number;
  priority: number;
}

export interface SlowWait {
  agent: string;
  model: string;
  waited_ms: number;
  limit: string;
  at_ms: number;
}

export interface Resource {
  name: string;
  domain: string | null;
  profile: string;
  state: ResourceState;
  held_ms: number;
  reason: string;
  waiting: number;
  in_flight: number;
  /** The mean of the calls in flight; 0 if there are none. */
  in_flight_age_ms: number;
  binding: { limit: string; unit: string; scope: string } | null;
  wait: Spread;
  upstream: Spread;
  minute: {
    arrived: number;
    admitted: number;
    refused: number;
    abandoned: number;
    limited: number;
    failed: number;
    tokens: number;
    usd: number;
  };
  limits: Limit[];
  agents: Agent[];
  agents_total: number;
  queue: Waiter[];
  slowest: SlowWait[];
}

export interface Warning {
  severity: Severity;
  code: string;
  resource: string | null;
  text: string;
  advice: string;
}

export interface SourcesSummary {
  total: number;
  due: number;
  queued: number;
  running: number;
  failing: number;
  breakers_open: string[];
}

export interface Live {
  time_ms: number;
  version: string;
  uptime_ms: number;
  node: string;
  durability: string;
  scope?: Scope;
  store: { state: string; message: string };
  fleet: { state: string; connected: boolean; breaker: string; message: string } | null;
  resources_total: number;
  resources: Resource[];
  sources: SourcesSummary | null;
  warnings: Warning[];
}

export type Span = "1h" | "24h";

// Columns of counts, and of means (null where nothing happened) with the counts behind them.
export const kCounts = [
  "admitted",
  "refused",
  "abandoned",
  "limited",
  "failed",
  "reduced",
  "recovered",
  "tokens",
  "usd",
  "waits",
  "answers",
] as const;
export const kLargest = ["waiting", "in_flight"] as const;
export const kMeans = [
  ["wait_ms", "waits"],
  ["upstream_ms", "answers"],
] as const;

type Counts = (typeof kCounts)[number] | (typeof kLargest)[number];
type Means = (typeof kMeans)[number][0];

export type History = Record<Counts, number[]> &
  Record<Means, (number | null)[]> & {
    resource: string;
    step_ms: number;
    /** The time of the newest point that is in it; the last step may end later. */
    until_ms: number;
    time_ms: number[];
    limits: (LimitName & { used: (number | null)[] })[];
  };

export type Point = Record<Counts, number> &
  Record<Means, number | null> & {
    resource: string;
    time_ms: number;
    limits: (LimitName & { used: number | null })[];
  };

export interface News {
  type: string;
  time: string;
  resource?: string;
  agent?: string;
  model?: string;
  what?: string;
  by?: string;
  state?: string;
  message?: string;
  fault?: string;
  limit?: string;
  from?: number;
  to?: number;
  age_ms?: number;
  retry_after_ms?: number | null;
  name?: string;
  domain?: string;
}

/** An entry of a provider file's `limits`; sent back as it came, with more keys than these. */
export interface LimitSpec {
  unit: string;
  amount: number;
  per?: string;
  algorithm?: string;
  burst?: number;
}

export interface ResourceDetails {
  name: string;
  limits: { name: string; unit: string; spec?: LimitSpec }[];
}

export interface SourceResult {
  at_ms: number;
  status: number;
  took_ms: number;
  bytes: number;
  message: string;
}

export interface Source {
  name: string;
  url: string;
  every_ms: number;
  timeout_ms: number;
  resource: string | null;
  state: "scheduled" | "queued" | "running" | "backing_off" | "breaker_open" | "held_back";
  due_at_ms: number;
  failures: number;
  rate_limited: number;
  last: SourceResult | null;
  headers?: Record<string, string>;
  /** Null while the store does not answer; not in a list. */
  results?: SourceResult[] | null;
}

export interface Problem {
  error: string;
  message: string;
}
