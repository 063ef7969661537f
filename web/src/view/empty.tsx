// What there is to do when there is nothing to show.
import { hasToken } from "../api";
import type { Resource } from "../wire";

export function Waiting({ why }: { why: string | null }) {
  return (
    <div class="empty" data-testid="waiting">
      {why === null ? (
        <p class="hint">Reading…</p>
      ) : (
        <>
          <h1>No data yet</h1>
          <p>{why} The page tries again by itself.</p>
        </>
      )}
    </div>
  );
}

export function NoProviders() {
  return (
    <div class="empty" data-testid="no-providers">
      <h1>No providers yet</h1>
      <p>A provider is an API whose quota is shared. Write down what it allows, a file each:</p>
      <pre>
        {"# fmp.yaml\nname: fmp\ndomain: financialmodelingprep.com\nlimit: 300\nperiod: 1m\n"}
        {"max_concurrency: 4"}
      </pre>
      <p>and start the daemon with it:</p>
      <pre>weir check fmp.yaml{"\n"}weir start --provider fmp.yaml</pre>
    </div>
  );
}

/** How to make a provider's first call: one that leaves nothing behind that must be released. */
export function TryIt({ resource: { name, limits } }: { resource: Resource }) {
  const token = hasToken() ? "-H 'Authorization: Bearer TOKEN' " : "";
  const slots = limits.some(({ unit }) => unit === "slots");
  const body = JSON.stringify({
    resource: name,
    agent: "me",
    ...(slots && { cost: { slots: 0 } }),
  });
  return (
    <div class="try" data-testid="no-traffic">
      <p>Ask for admission, and watch the call arrive:</p>
      <pre>{`curl ${token}-d '${body}' ${location.origin}/v1/acquire`}</pre>
    </div>
  );
}
