// The past of the provider on show. What draws it is fetched apart, so that figures come first.
import { signal } from "@preact/signals";
import { history, timeSpan } from "../state";
import type { Resource, Span } from "../wire";
import { TryIt } from "./empty";
import { still } from "./journey";

const kSpans: [Span, string][] = [
  ["1h", "1 hour"],
  ["24h", "24 hours"],
];
const drawing = signal<typeof import("./plots") | null>(null);
const missing = signal(false);
import("./plots").then(
  (loaded) => (drawing.value = loaded),
  () => (missing.value = true),
);

function Toggle() {
  return (
    <div class="toggle" role="group" aria-label="Time span">
      {kSpans.map(([value, label]) => (
        <button
          key={value}
          type="button"
          aria-pressed={timeSpan.value === value}
          onClick={() => (timeSpan.value = value)}
          data-testid={`span-${value}`}
        >
          {label}
        </button>
      ))}
    </div>
  );
}

/** Without `resource` there are no live figures of it. */
export function Charts({ resource }: { resource?: Resource }) {
  const now = history.value;
  const Plots = drawing.value?.Plots;
  return (
    <section class="past" aria-labelledby="past-title" data-testid="charts">
      <div class="heading">
        <h2 id="past-title">How did it go?</h2>
        <Toggle />
      </div>
      {missing.value ? (
        <p class="problem">The charts could not be loaded; reload the page.</p>
      ) : now === null || Plots === undefined ? (
        <div class="plots pending" />
      ) : now.data.time_ms.length === 0 ? (
        <>
          <p class="hint">Nothing yet. Once it is used, a point is added every ten seconds.</p>
          {resource !== undefined && still(resource) && <TryIt resource={resource} />}
        </>
      ) : (
        <Plots data={now.data} version={now.version} />
      )}
    </section>
  );
}
