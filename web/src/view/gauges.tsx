// How close to each limit: a staff gauge each, as rivers have them. Water is what is used.
import { amount, count, limitName, moment, percent } from "../format";
import { live, scope } from "../state";
import type { Limit, Resource } from "../wire";
import { bindingWords } from "./journey";
import { operation } from "./operate";

const kHeight = 100;
const kColumns = 6; // fit at 1280

function Staff({ used, crest }: { used: number; crest: number }) {
  const level = Math.min(1, Math.max(0, used)) * crest * kHeight;
  const top = kHeight - level;
  return (
    <svg class="staff" viewBox="0 -2 34 108" aria-hidden="true">
      <rect class="bed" x="1" y="2" width="22" height="100" rx="2" />
      {crest < 1 && <rect class="lost" x="1" y="2" width="22" height={(1 - crest) * kHeight} />}
      <rect class="level" x="1" y={top + 2} width="22" height={level} rx="1" />
      {level > 0 && <path class="surface" d={`M1 ${top + 2}h22`} />}
      {Array.from({ length: 9 }, (_, i) => (
        <path key={i} class="tick" d={`M${i === 4 ? 11 : 16} ${12 + i * 10}h${i === 4 ? 12 : 7}`} />
      ))}
      <path class="crest" d={`M0 ${2 + (1 - crest) * kHeight}h26l5-3v6l-5-3`} />
    </svg>
  );
}

function leftOf(limit: Limit): string {
  const { unit, capacity, available } = limit;
  if (unit === "slots") {
    return `${count(Math.round(capacity - available))} of ${count(capacity)} in use`;
  }
  if (available < 0) return `${amount(-available, unit)} overdrawn`;
  const rest = unit === "usd" ? available : Math.floor(available);
  return `${amount(rest, unit)} of ${amount(capacity, unit)} left`;
}

function titleOf(limit: Limit): string {
  const { unit, per_ms, scope } = limit;
  const budget = unit === "usd" && scope === "provider";
  if (budget && per_ms === 86_400_000) return "the daily budget";
  return budget && per_ms === 3_600_000 ? "the hourly budget" : limitName(limit);
}

function Forecast({ limit, now }: { limit: Limit; now: number }) {
  const { ends_at_ms: ends, resets_at_ms: resets } = limit;
  if (ends !== null) {
    return (
      <p class="ends" data-testid="forecast">
        ends {moment(ends, now)} at this pace
        {resets !== null && <span class="detail">; resets {moment(resets, now)}</span>}
      </p>
    );
  }
  if (resets === null) return null;
  return <p class="detail">resets {moment(resets, now)}</p>;
}

function Gauge({ limit, resource }: { limit: Limit; resource: Resource }) {
  const { name, configured } = limit;
  const { binding } = resource;
  const binds = binding?.limit === name && binding.scope === limit.scope;
  const lowered = configured !== null && limit.amount < configured;
  const crest = lowered ? limit.amount / configured : 1;
  return (
    <li
      class={`gauge ${binds ? "binds" : ""}`}
      data-testid="gauge"
      data-limit={name}
      data-scope={limit.scope}
    >
      <Staff used={limit.used} crest={crest} />
      <div>
        <h3>{name}</h3>
        {limit.scope !== "provider" && (
          <p class="scope">{limit.scope.replace(/^learned$/, "learned from answers")}</p>
        )}
        <p class="figure">
          <span
            role="meter"
            aria-label={`${limitName(limit)} used`}
            aria-valuemin={0}
            aria-valuemax={100}
            aria-valuenow={Math.round(100 * Math.min(1, limit.used))}
          >
            {percent(limit.used)}
          </span>
          {binds && <small class="tag">{bindingWords(resource)[1]}</small>}
        </p>
        <p class="detail">{leftOf(limit)}</p>
        {lowered && <p class="ends">lowered to {percent(crest)} of what is configured</p>}
        <Forecast limit={limit} now={live.value?.time_ms ?? Date.now()} />
        {scope.value === "admin" && limit.scope === "provider" && (
          <button
            type="button"
            class="quiet"
            aria-label={`Change ${name}`}
            data-testid="change-limit"
            onClick={() => (operation.value = { kind: "limit", resource, limit })}
          >
            Change
          </button>
        )}
      </div>
    </li>
  );
}

export function Gauges({ resource }: { resource: Resource }) {
  const first = resource.limits
    .filter((limit) => limit.ends_at_ms !== null)
    .sort((a, b) => (a.ends_at_ms ?? 0) - (b.ends_at_ms ?? 0))[0];
  return (
    <section class="limits" aria-labelledby="limits-title">
      <h2 id="limits-title">How close to the limits?</h2>
      {first !== undefined && first.ends_at_ms !== null && (
        <p class="lead">
          At this pace <strong>{titleOf(first)}</strong> ends{" "}
          <strong>{moment(first.ends_at_ms, live.value?.time_ms ?? Date.now())}</strong>.
        </p>
      )}
      {resource.limits.length === 0 ? (
        <p class="hint">No limit is set; calls go through as they come.</p>
      ) : (
        <ul
          class="gauges"
          style={{ "--columns": Math.min(kColumns, resource.limits.length) }}
          data-testid="gauges"
        >
          {resource.limits.map((limit, place) => (
            <Gauge key={place} limit={limit} resource={resource} />
          ))}
        </ul>
      )}
    </section>
  );
}
