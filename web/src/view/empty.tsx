// What there is to do when there is nothing to show.
import { hasToken } from "../api";

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

/** How to make a provider's first call. */
export function TryIt({ name }: { name: string }) {
  const token = hasToken() ? "-H 'Authorization: Bearer TOKEN' " : "";
  const body = JSON.stringify({ resource: name });
  return (
    <div class="try" data-testid="no-traffic">
      <p>No calls yet. Ask for admission, and watch it arrive here:</p>
      <pre>{`curl ${token}-d '${body}' ${location.origin}/v1/acquire`}</pre>
    </div>
  );
}
