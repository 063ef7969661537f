// A call's way as a picture: the time it stands before the weir, the weir, the time in the API.
import { count, dollars, limitName, plural, span } from "../format";
import { live } from "../state";
import type { Resource, ResourceState, Spread } from "../wire";
import { apiTime, turnsAway, verdictOf } from "../verdict";

/** The proportion alone. */
export function Split({ wait, upstream }: { wait: number; upstream: number }) {
  const whole = wait + upstream || 1;
  const part = (ms: number) => ({ width: `${((100 * ms) / whole).toFixed(2)}%` });
  return (
    <span class="split" aria-hidden="true">
      <i class="wait" style={part(wait)} />
      <i class="api" style={part(upstream)} />
    </span>
  );
}

function Side({ kind, title, now, spread }: Readonly<SideProps>) {
  return (
    <div class={`bank ${kind}`} data-testid={`journey-${kind}`}>
      <h3>{title}</h3>
      <p class="figure">{spread.count === 0 ? "–" : span(spread.mean_ms)}</p>
      <p class="detail">
        {spread.count === 0 ? (
          "nothing in the last minute"
        ) : (
          <>
            half within {span(spread.p50_ms)}, 99% within {span(spread.p99_ms)}
          </>
        )}
      </p>
      <p class="detail">{now}</p>
    </div>
  );
}

interface SideProps {
  kind: "wait" | "api";
  title: string;
  now: string;
  spread: Spread;
}

const kStopped: Partial<Record<ResourceState, string>> = {
  paused: "closed by an operator",
  held: "closed: the API asked for a rest",
  exhausted: "closed: the quota is used up",
};

/** Whether nothing comes, waits or is under way. */
export function still({ minute, wait, upstream, waiting, in_flight }: Resource): boolean {
  return minute.arrived + wait.count + upstream.count + waiting + in_flight === 0;
}

function pictured(resource: Resource): string {
  const { wait, upstream, minute, waiting, in_flight } = resource;
  if (wait.count + upstream.count + in_flight === 0) {
    return `No calls ${minute.arrived + waiting > 0 ? "admitted " : ""}in the last minute`;
  }
  const waits = `A call waits ${span(wait.mean_ms)} for quota`;
  return upstream.count + in_flight === 0
    ? waits
    : `${waits} and spends ${span(apiTime(resource))} in the API`;
}

/** What the limit does that binds: before its name, and after it. */
export function bindingWords(resource: Resource): [string, string] {
  if (resource.waiting > 0) return ["held by", "holds calls"];
  if (turnsAway(resource)) return ["refused by", "refuses calls"];
  return ["next to hold calls:", "binds next"];
}

function Channel({ resource }: { resource: Resource }) {
  const { binding, state } = resource;
  const stopped = kStopped[state];
  const wait = resource.wait.mean_ms ?? 0;
  const upstream = apiTime(resource);
  const whole = wait + upstream;
  const left = whole === 0 ? 50 : (100 * wait) / whole;
  return (
    <>
      <p
        class="flag"
        style={{ gridTemplateColumns: `${left}fr fit-content(100%) ${100 - left}fr` }}
        data-testid="binding"
      >
        <span>
          {stopped !== undefined ? (
            stopped
          ) : binding === null ? (
            "no limit holds calls"
          ) : (
            <>
              {bindingWords(resource)[0]}{" "}
              <strong>{limitName({ name: binding.limit, scope: binding.scope })}</strong>
            </>
          )}
        </span>
      </p>
      <div
        class={`channel ${whole === 0 ? "dry" : ""} ${state === "open" ? "" : "closed"}`}
        role="img"
        aria-label={pictured(resource)}
        data-testid="journey"
      >
        <i class="wait" style={{ width: `${left}%` }} />
        <i class="post" style={{ left: `${left}%` }} />
        <i class="api" style={{ width: `${100 - left}%` }} />
      </div>
    </>
  );
}

export function Journey({ resource }: { resource: Resource }) {
  const warnings = live.value?.warnings.filter((w) => w.resource === resource.name) ?? [];
  const verdict = verdictOf(
    resource,
    warnings.map((w) => w.code),
  );
  const { waiting, in_flight, wait, upstream } = resource;
  const age = span(resource.in_flight_age_ms);
  return (
    <section
      class={`journey ${verdict.cause} ${still(resource) ? "still" : ""}`}
      aria-labelledby="journey-title"
    >
      <h2 id="journey-title">Is it us or the API?</h2>
      <p class="verdict" data-testid="verdict" data-cause={verdict.cause}>
        <strong>{verdict.answer}.</strong> {verdict.because}
      </p>
      <Channel resource={resource} />
      {!still(resource) && (
        <>
          <div class="banks">
            <Side
              kind="wait"
              title="Waiting for quota"
              spread={wait}
              now={waiting === 0 ? "nobody waits now" : `${plural(waiting, "call")} waiting now`}
            />
            <Side
              kind="api"
              title="In the API"
              spread={upstream}
              now={
                in_flight === 0
                  ? "none in flight"
                  : `${count(in_flight)} in flight now, for ${age} on average`
              }
            />
          </div>
          <Minute resource={resource} />
        </>
      )}
    </section>
  );
}

function Minute({ resource: { minute } }: { resource: Resource }) {
  const facts: [string, string, boolean][] = [
    ["arrived", count(minute.arrived), false],
    ["admitted", count(minute.admitted), false],
    ["refused by us", count(minute.refused), minute.refused > 0],
    ["429 from the API", count(minute.limited), minute.limited > 0],
    ["failed", count(minute.failed), minute.failed > 0],
    ["gave up waiting", count(minute.abandoned), false],
    ["tokens", count(minute.tokens), false],
    ["spent", dollars(minute.usd), false],
  ];
  return (
    <section class="minute" aria-label="The last minute" data-testid="minute">
      <dl>
        {facts.map(([name, value, bad]) => (
          <div key={name} class={bad ? "bad" : undefined}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <p>in the last minute</p>
    </section>
  );
}
