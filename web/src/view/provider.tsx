import { hrefOf } from "../route";
import { history, live, resources, scope } from "../state";
import type { Resource } from "../wire";
import { Charts } from "./charts";
import { Gauges } from "./gauges";
import { Glyph } from "./glyph";
import { Journey } from "./journey";
import { Log } from "./log";
import { notice, operation } from "./operate";
import { Agents, Queue, Slowest } from "./people";

const kStates = {
  open: "open",
  held: "held back by the API",
  paused: "paused",
  exhausted: "exhausted",
};

function Operators({ resource }: { resource: Resource }) {
  if (scope.value !== "admin") return null;
  const paused = resource.state === "paused";
  const begin = (kind: "pause" | "resume" | "drain") => () =>
    (operation.value = { kind, resource });
  return (
    <div class="operators">
      <button
        type="button"
        onClick={begin(paused ? "resume" : "pause")}
        data-testid={paused ? "resume" : "pause"}
      >
        {paused ? "Resume" : "Pause"}
      </button>
      <button type="button" onClick={begin("drain")} data-testid="drain">
        Drain queue
      </button>
    </div>
  );
}

export function ProviderPage({ name }: { name: string }) {
  const resource = resources.value.find((r) => r.name === name);
  if (resource === undefined) return <Absent name={name} />;
  return (
    <article class="provider" data-testid="provider" data-name={name} data-state={resource.state}>
      <header>
        <a class="back" href={hrefOf({ page: "home" })}>
          All providers
        </a>
        <h1>{name}</h1>
        <p class="about">
          <span class={`state ${resource.state}`} data-testid="state">
            <Glyph sign={resource.state} /> {kStates[resource.state]}
          </span>
          {resource.domain !== null && <span>{resource.domain}</span>}
        </p>
        <Operators resource={resource} />
        <p class="notice" role="status" data-testid="notice">
          {notice.value}
        </p>
      </header>
      <Journey resource={resource} />
      <Gauges resource={resource} />
      <div class="columns">
        <div>
          <Charts resource={resource} />
          <Log name={name} />
        </div>
        <div>
          <Agents resource={resource} />
          <Queue resource={resource} />
          <Slowest resource={resource} />
        </div>
      </div>
    </article>
  );
}

function Absent({ name }: { name: string }) {
  const busy = (live.value?.resources_total ?? 0) > resources.value.length;
  return (
    <article class="provider" data-testid="absent">
      <header>
        <h1>{name}</h1>
      </header>
      {busy ? (
        <p class="hint">It is not among the busiest now, so there are no live figures of it.</p>
      ) : (
        <p class="hint">
          No provider has this name. <a href={hrefOf({ page: "home" })}>All providers</a>
        </p>
      )}
      {history.value !== null && <Charts />}
    </article>
  );
}
