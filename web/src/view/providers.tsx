// All providers, each in two lines: its name and state, and where its calls spend their time.
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { count, percent, span } from "../format";
import { hrefOf, route } from "../route";
import { live, resources, selected } from "../state";
import { apiTime, fails, turnsAway } from "../verdict";
import type { Resource } from "../wire";
import { Glyph } from "./glyph";
import { Split } from "./journey";

const kFilterFrom = 8;
const filter = signal("");

const kStateWords = { open: "open", held: "held back", paused: "paused", exhausted: "exhausted" };

/** What is most worth knowing of a provider, in two or three words. */
function noteOf(resource: Resource): string {
  const { state, waiting, in_flight, wait, upstream, minute } = resource;
  if (state !== "open") return kStateWords[state] + (waiting > 0 ? `, ${waiting} waiting` : "");
  if (fails(resource)) return `${count(minute.failed)} failed`;
  if (waiting > 0) return `${count(waiting)} waiting`;
  if (turnsAway(resource)) return `${count(minute.refused)} refused`;
  if (upstream.count > 0) return span((wait.mean_ms ?? 0) + (upstream.mean_ms ?? 0));
  if (in_flight > 0) return `${count(in_flight)} in flight`;
  return minute.admitted > 0 ? `${count(minute.admitted)} admitted` : "quiet";
}

function useOf({ limits }: Resource): string {
  if (limits.length === 0) return "no limit";
  return `${percent(limits.reduce((most, limit) => Math.max(most, limit.used), 0))} used`;
}

function Row({ resource }: { resource: Resource }) {
  const { name, state, wait } = resource;
  const { page } = route.value;
  const here = name === selected.value && (page === "home" || page === "provider");
  const worst = live.value?.warnings.find((w) => w.resource === name && w.severity !== "info");
  const sign = state === "open" && worst !== undefined ? worst.severity : state;
  const current = here && page === "provider" ? "page" : here ? "true" : undefined;
  const row = useRef<HTMLAnchorElement>(null);
  useEffect(() => {
    if (current === "page") row.current?.scrollIntoView({ block: "nearest" });
  }, [current]);
  return (
    <li>
      <a
        ref={row}
        href={hrefOf({ page: "provider", name })}
        aria-current={current}
        data-testid="provider-link"
        data-name={name}
        data-state={state}
      >
        <Glyph
          sign={sign}
          label={worst && state === "open" ? "has a warning" : kStateWords[state]}
        />
        <span class="name" title={name}>
          {name}
        </span>
        <span class="note">{noteOf(resource)}</span>
        <Split wait={wait.mean_ms ?? 0} upstream={apiTime(resource)} />
        <span class="use" title="the fullest limit">
          {useOf(resource)}
        </span>
      </a>
    </li>
  );
}

export function ProviderList() {
  const all = resources.value;
  const more = (live.value?.resources_total ?? 0) - all.length;
  const text = filter.value.trim().toLowerCase();
  const shown = all.filter(
    ({ name, domain }) =>
      text === "" || name.toLowerCase().includes(text) || (domain ?? "").includes(text),
  );
  return (
    <nav class="providers" aria-label="Providers" data-testid="provider-list">
      <h2>
        Providers <small>{count(live.value?.resources_total ?? 0)}</small>
      </h2>
      {all.length >= kFilterFrom && (
        <input
          type="search"
          placeholder="Filter by name or domain"
          aria-label="Filter providers"
          value={filter.value}
          onInput={(event) => (filter.value = event.currentTarget.value)}
          data-testid="provider-filter"
        />
      )}
      <ul>
        {shown.map((resource) => (
          <Row key={resource.name} resource={resource} />
        ))}
      </ul>
      {shown.length === 0 && all.length > 0 && <p class="hint">No provider has that name.</p>}
      {more > 0 && <p class="hint">These are the busiest; {count(more)} more are not shown.</p>}
      <p class="key" aria-hidden="true">
        <i class="wait" /> waiting for quota <i class="api" /> in the API
      </p>
    </nav>
  );
}
