import { effect } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { tokenWanted } from "../api";
import { route } from "../route";
import { live, resources, resting, selected, silentSince, trouble } from "../state";
import { NoProviders, Waiting } from "./empty";
import { Daemon, Header } from "./header";
import { Log } from "./log";
import { OperateDialog, operation } from "./operate";
import { ProviderPage } from "./provider";
import { ProviderList } from "./providers";
import { SourcePage } from "./source";
import { SourcesPage } from "./sources";
import { TokenForm } from "./token";
import { Announcer, Warnings } from "./warnings";

// A daemon of another version has another page.
let version: string | undefined;
effect(() => {
  const now = live.value?.version;
  version ??= now;
  if (now !== version && operation.value === null) location.reload();
});

function titleOf(): string {
  const warnings = live.value?.warnings.filter((w) => w.severity !== "info").length ?? 0;
  const at = route.value;
  const place = "name" in at ? `${at.name} · Weir` : "Weir";
  if (resting.value) return place;
  if (silentSince.value !== null) return `⚠ no data · ${place}`;
  return warnings > 0 ? `⚠ ${warnings} · ${place}` : place;
}

function Main() {
  const at = route.value;
  if (live.value === null) return <Waiting why={trouble.value} />;
  if (at.page === "sources") return <SourcesPage />;
  if (at.page === "source") return <SourcePage name={at.name} key={at.name} />;
  if (at.page === "events") return <Log all />;
  if (resources.value.length === 0 && at.page === "home") return <NoProviders />;
  return <ProviderPage name={selected.value ?? ""} key={selected.value} />;
}

export function App() {
  const title = titleOf();
  useEffect(() => {
    document.title = title;
  }, [title]);
  if (tokenWanted.value !== null) return <TokenForm why={tokenWanted.value} />;
  const page = route.value.page;
  return (
    <div class={`frame at-${page}`} data-testid="page" data-ready={live.value !== null}>
      <a class="skip" href="#main" onClick={skip}>
        Skip to the content
      </a>
      <Header />
      <aside class="side" aria-label="Overview">
        <ProviderList />
        <Daemon />
      </aside>
      <main id="main" tabIndex={-1} data-testid="main">
        {page === "home" && <h1 class="unseen narrow">Weir</h1>}
        <Warnings />
        <Main />
      </main>
      <Announcer />
      <OperateDialog />
    </div>
  );
}

function skip(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}
