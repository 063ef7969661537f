import { hasToken, setToken } from "../api";
import { clockSeconds, count, span } from "../format";
import { kStore } from "../newsline";
import { hrefOf, route } from "../route";
import type { Route } from "../route";
import { live, scope, silentSince, start } from "../state";
import { Mark } from "./glyph";

function Tab({ to, on, children }: { to: Route; on: boolean; children: preact.ComponentChildren }) {
  return (
    <a href={hrefOf(to)} aria-current={on ? "page" : undefined} data-testid={`nav-${to.page}`}>
      {children}
    </a>
  );
}

function Pulse() {
  const now = live.value;
  const silent = silentSince.value;
  if (now === null) return <p class="pulse" data-testid="pulse" data-state="connecting" />;
  if (silent !== null) {
    return (
      <p class="pulse lost" data-testid="pulse" data-state="lost">
        No data since <time>{clockSeconds(silent)}</time>
        <span class="detail"> · trying again</span>
      </p>
    );
  }
  return (
    <p class="pulse" data-testid="pulse" data-state="live">
      <i aria-hidden="true" /> Live <time>{clockSeconds(now.time_ms)}</time>
    </p>
  );
}

export function Header() {
  const page = route.value.page;
  const sources = live.value?.sources ?? null;
  return (
    <header class="top">
      <a class="brand" href="#/" data-testid="brand">
        <Mark /> Weir
      </a>
      <nav aria-label="Pages">
        <Tab to={{ page: "home" }} on={page === "home" || page === "provider"}>
          Providers
        </Tab>
        {sources !== null && (
          <Tab to={{ page: "sources" }} on={page === "sources" || page === "source"}>
            Sources <small>{count(sources.total)}</small>
          </Tab>
        )}
        <Tab to={{ page: "events" }} on={page === "events"}>
          Events
        </Tab>
      </nav>
      <Pulse />
    </header>
  );
}

/** The daemon will ask for one. */
function forgetToken(): void {
  setToken("");
  start();
}

/** The daemon itself, in a few words. */
export function Daemon() {
  const now = live.value;
  if (now === null) return null;
  const { store, fleet } = now;
  const rows: [string, string, boolean][] = [["Version", now.version, false]];
  if (now.node !== "") rows.push(["Node", now.node, false]);
  rows.push(["Up for", span(now.uptime_ms), false]);
  rows.push([
    "Store",
    kStore[store.state]?.replace(/^is /, "") ?? "in memory only",
    store.state === "failed" || store.state === "fenced",
  ]);
  if (store.state !== "none") rows.push(["Durability", now.durability, false]);
  if (fleet !== null) {
    const state = fleet.connected ? fleet.state : `${fleet.state}, not connected`;
    rows.push(["Fleet", state, !fleet.connected]);
  }
  rows.push(["You may", scope.value === "admin" ? "change things" : "look", false]);
  return (
    <section class="daemon" aria-label="Daemon" data-testid="daemon">
      <dl>
        {rows.map(([name, value, bad]) => (
          <div key={name} class={bad ? "bad" : undefined}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      {hasToken() && (
        <button type="button" class="quiet" onClick={forgetToken}>
          Use another token
        </button>
      )}
    </section>
  );
}
