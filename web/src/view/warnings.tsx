// What is wrong and what to change, the worst first; or that nothing is.
import { signal } from "@preact/signals";
import { clockSeconds } from "../format";
import { hrefOf, route } from "../route";
import { live, selected, silentSince, silentWhy } from "../state";
import type { Severity, Warning } from "../wire";
import { Glyph } from "./glyph";

const kShown = 3;
const kRank: Record<Severity, number> = { critical: 0, warning: 1, info: 2 };
const kWords: Record<Severity, string> = { critical: "Critical", warning: "Warning", info: "Note" };
const all = signal(false);

/** What concerns the daemon or the provider on show comes first, then the worst. */
function sorted(): Warning[] {
  const { page } = route.value;
  const here = page === "home" || page === "provider" ? selected.value : null;
  const rank = ({ severity, resource }: Warning) => {
    const near = resource === null ? severity !== "info" : resource === here;
    return kRank[severity] + (near ? 0 : 10);
  };
  return [...(live.value?.warnings ?? [])].sort((a, b) => rank(a) - rank(b));
}

/** A cause stays in its place in the document while others come and go before it. */
function keyOf({ code, resource }: Warning, before: Warning[]): string {
  const alike = before.filter((other) => other.code === code && other.resource === resource);
  return `${code} ${resource ?? ""} ${alike.length}`;
}

function Item({ warning }: { warning: Warning }) {
  const { severity, code, resource, text, advice } = warning;
  return (
    <li class={severity} data-testid="warning" data-code={code} data-severity={severity}>
      <Glyph sign={severity} label={kWords[severity]} />
      <div>
        <p>
          {resource !== null && (
            <a href={hrefOf({ page: "provider", name: resource })}>{resource}</a>
          )}{" "}
          <strong>{text}</strong>
        </p>
        {advice !== "" && <p class="advice">{advice}</p>}
      </div>
    </li>
  );
}

function Silence({ since, why }: { since: number; why: string | null }) {
  return (
    <li class="critical" data-testid="silence">
      <Glyph sign="critical" label="Critical" />
      <div>
        <p>
          <strong>
            The daemon has sent nothing since {clockSeconds(since)}
            {why !== null && `: ${why.replace(/\.$/, "")}`}.
          </strong>
        </p>
        <p class="advice">What is below is from then. The page tries again by itself.</p>
      </div>
    </li>
  );
}

export function Warnings() {
  if (live.value === null) return null;
  const warnings = sorted();
  const since = silentSince.value;
  if (warnings.length === 0 && since === null) {
    return (
      <section class="warnings" aria-label="Warnings" data-testid="warnings">
        <p class="all-clear" data-testid="all-clear">
          <Glyph sign="clear" /> <strong>All clear.</strong> Nothing needs to be changed.
        </p>
      </section>
    );
  }
  const shown = all.value ? warnings : warnings.slice(0, kShown);
  const hidden = warnings.slice(kShown);
  const critical = hidden.filter(({ severity }) => severity === "critical").length;
  return (
    <section class="warnings" aria-label="Warnings" data-testid="warnings">
      <ul>
        {since !== null && <Silence since={since} why={silentWhy.value} />}
        {shown.map((warning, place) => (
          <Item key={keyOf(warning, shown.slice(0, place))} warning={warning} />
        ))}
      </ul>
      {hidden.length > 0 && (
        <button
          type="button"
          class="quiet"
          aria-expanded={all.value}
          onClick={() => (all.value = !all.value)}
        >
          {all.value
            ? "Show fewer"
            : `Show ${hidden.length} more${critical > 0 ? `, ${critical} of them critical` : ""}`}
        </button>
      )}
    </section>
  );
}

/**
 * Tells screen readers what comes: of a live region they read what is added to it, so each cause
 * is a line of its own, without figures that move, in an order that moves none of them.
 */
export function Announcer() {
  const silent = silentSince.value !== null;
  const warnings = live.value?.warnings.filter(({ severity }) => severity !== "info") ?? [];
  const causes = new Set(
    warnings.map(({ severity, code, resource }) => {
      return `${kWords[severity]}: ${code.replaceAll("_", " ")} ${resource ?? ""}`;
    }),
  );
  if (live.value !== null && !silent && causes.size === 0) causes.add("No warnings");
  return (
    <div class="unseen" aria-live="polite">
      {live.value !== null && <p>{silent ? "No data from the daemon" : "Live"}</p>}
      {[...causes].sort().map((cause) => (
        <p key={cause}>{cause}</p>
      ))}
    </div>
  );
}
