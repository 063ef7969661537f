// The algorithms by which providers limit, on a clock of milliseconds that the caller passes.
//
// Every limit says `wait(cost, now)`: 0 if the cost fits, else how long until it would, Infinity if
// never; takes with `take(cost, now)`, which may pass the limit (what was generated counts even if
// it was not foreseen); and tells what is `left(now)` and when it is `full_in(now)`.

// A token bucket. With `step_ms` it is refilled in steps: "60,000 a minute may be enforced as
// 1,000 a second".
export class Bucket {
  constructor({ amount, burst = amount, period_ms, step_ms = 0 }, now) {
    Object.assign(this, { amount, burst, period_ms, step_ms, tokens: burst, refilled: now });
  }

  refill(now) {
    const step = this.step_ms || 1e-6;
    const steps = Math.floor((now - this.refilled) / step);
    if (steps <= 0) return;
    this.refilled += steps * step;
    const earned = (steps * step * this.amount) / this.period_ms;
    this.tokens = Math.min(this.burst, this.tokens + earned);
  }

  // A billionth of a token is what sums of fractions may have lost.
  time_to(tokens, now) {
    this.refill(now);
    const missing = tokens - this.tokens - 1e-9;
    if (missing <= 0) return 0;
    const needed = (missing * this.period_ms) / this.amount;
    const steps = this.step_ms ? Math.ceil(needed / this.step_ms) * this.step_ms : needed;
    return Math.max(steps - (now - this.refilled), 1e-3);
  }

  wait(cost, now) {
    return cost > this.burst ? Infinity : this.time_to(cost, now);
  }

  take(cost, now) {
    this.refill(now);
    this.tokens = Math.min(this.burst, this.tokens - cost);
  }

  left(now) {
    this.refill(now);
    return Math.max(0, Math.floor(this.tokens + 1e-9));
  }

  full_in(now) {
    return this.time_to(this.burst, now);
  }
}

// Counts in windows that begin on the provider's own clock.
export class FixedWindow {
  constructor({ amount, period_ms }) {
    Object.assign(this, { amount, period_ms, window: -1, used: 0 });
  }

  roll(now) {
    const window = Math.floor(now / this.period_ms);
    if (window === this.window) return;
    this.window = window;
    this.used = 0;
  }

  wait(cost, now) {
    this.roll(now);
    if (cost > this.amount) return Infinity;
    return this.used + cost <= this.amount ? 0 : this.full_in(now);
  }

  take(cost, now) {
    this.roll(now);
    this.used += cost;
  }

  left(now) {
    this.roll(now);
    return Math.max(0, this.amount - this.used);
  }

  full_in(now) {
    return (Math.floor(now / this.period_ms) + 1) * this.period_ms - now;
  }
}

// At most the amount in every period.
export class SlidingLog {
  constructor({ amount, period_ms }) {
    Object.assign(this, { amount, period_ms, log: [], used: 0 });
  }

  forget(now) {
    while (this.log.length > 0 && this.log[0].at <= now - this.period_ms) {
      this.used -= this.log.shift().cost;
    }
  }

  wait(cost, now) {
    this.forget(now);
    if (cost > this.amount) return Infinity;
    let used = this.used;
    let wait = 0;
    for (const entry of this.log) {
      if (used + cost <= this.amount) break;
      used -= entry.cost;
      wait = entry.at + this.period_ms - now;
    }
    return wait;
  }

  take(cost, now) {
    this.forget(now);
    this.used += cost;
    this.log.push({ at: now, cost });
  }

  left(now) {
    this.forget(now);
    return Math.max(0, this.amount - this.used);
  }

  full_in(now) {
    this.forget(now);
    return this.log.length === 0 ? 0 : this.log.at(-1).at + this.period_ms - now;
  }
}

// A limit is an amount a minute, or {amount, burst}.
const spec = (limit) => (typeof limit === 'number' ? { amount: limit } : limit);

const kinds = {
  openai: (limit, minute) =>
    new Bucket({ ...spec(limit), period_ms: minute, step_ms: minute / 60 }, 0),
  anthropic: (limit, minute) => new Bucket({ ...spec(limit), period_ms: minute }, 0),
  // Tokens "reset each minute"; requests are evaluated over ten seconds.
  azure: (limit, minute, unit) =>
    unit === 'requests'
      ? new FixedWindow({ amount: spec(limit).amount / 6, period_ms: minute / 6 })
      : new FixedWindow({ ...spec(limit), period_ms: minute }),
  // Gemini publishes no algorithm: the strictest reading of "per minute".
  gemini: (limit, minute, unit) =>
    new SlidingLog({
      ...spec(limit),
      period_ms: unit === 'requests_per_day' ? 1440 * minute : minute,
    }),
};

// What each provider charges when a call arrives.
const charges = {
  openai: (call) => ({ requests: 1, tokens: Math.max(call.max_output ?? 0, call.input_tokens) }),
  azure: (call) => ({ requests: 1, tokens: call.input_tokens + (call.max_output ?? 16) * call.n }),
  // What is generated counts in real time, so that any room at all admits.
  anthropic: (call) => ({ requests: 1, input_tokens: call.charged_input, output_tokens: 1 }),
  gemini: (call) => ({ requests: 1, requests_per_day: 1, tokens: call.input_tokens }),
};

// The limits of one model.
export class Pool {
  constructor(provider, limits, minute_ms) {
    this.provider = provider;
    this.limits = Object.entries(limits).map(([unit, limit]) => ({
      unit,
      amount: spec(limit).amount,
      algorithm: kinds[provider](limit, minute_ms, unit),
    }));
  }

  // Nothing if the call is admitted, else the limit that refuses it. A refused call still counts
  // as a request where there was room for one.
  refuses(call, now) {
    const charge = charges[this.provider](call);
    let refusal = null;
    for (const { unit, amount, algorithm } of this.limits) {
      const wait_ms = algorithm.wait(charge[unit] ?? 0, now);
      if (wait_ms > 0 && !(refusal?.wait_ms >= wait_ms)) {
        refusal = { unit, amount, wait_ms, requested: charge[unit], left: algorithm.left(now) };
      }
    }
    for (const { unit, algorithm } of this.limits) {
      if (refusal && unit !== 'requests') continue;
      if (algorithm.wait(charge[unit] ?? 0, now) === 0) algorithm.take(charge[unit] ?? 0, now);
    }
    return refusal;
  }

  // What came out beyond what was charged at the start.
  generated(call, tokens, now) {
    const limit = this.limits.find(({ unit }) => unit === 'output_tokens');
    limit?.algorithm.take(tokens - 1, now);
  }
}
