// Who uses a provider, who waits for it, and who waited longest.
import { useState } from "preact/hooks";
import { clock, count, percent, plural, span } from "../format";
import type { Agent, Resource } from "../wire";
import { Columns } from "./columns";

const kShown = 8;

/** The first of a list, and a button for the others. */
function useFold<T>(items: T[]): [T[], preact.ComponentChildren] {
  const [open, setOpen] = useState(false);
  if (items.length <= kShown + 1) return [items, null];
  const button = (
    <button type="button" class="quiet" aria-expanded={open} onClick={() => setOpen(!open)}>
      {open ? "Show fewer" : `Show ${items.length - kShown} more`}
    </button>
  );
  return [open ? items : items.slice(0, kShown), button];
}

function AgentRow({ agent }: { agent: Agent }) {
  const { name, share, waiting, in_flight, others } = agent;
  const now = [
    waiting > 0 ? `${count(waiting)} waiting` : "",
    in_flight > 0 ? `${count(in_flight)} in flight` : "",
  ].filter((text) => text !== "");
  const title = others === undefined ? name : `${count(others)} others`;
  return (
    <li data-testid="agent" data-agent={name}>
      <span class={others === undefined ? "name" : "name rest"} title={title}>
        {title}
      </span>
      <span class="share">{percent(share)}</span>
      <span class="bar" aria-hidden="true">
        <i style={{ width: `${100 * share}%` }} />
      </span>
      <span class="detail">{[`${count(agent.admitted)} admitted`, ...now].join(" · ")}</span>
    </li>
  );
}

export function Agents({ resource: { agents, agents_total } }: { resource: Resource }) {
  const others = agents.find((agent) => agent.others !== undefined);
  const [shown, fold] = useFold(agents.filter((agent) => agent !== others));
  return (
    <section class="agents" aria-labelledby="agents-title">
      <div class="heading">
        <h2 id="agents-title">Who uses it?</h2>
        {agents_total > 0 && <p class="detail">{plural(agents_total, "agent")}, last 10 min</p>}
      </div>
      {agents.length === 0 ? (
        <p class="hint">Nobody in the last 10 minutes.</p>
      ) : (
        <ol data-testid="agents">
          {shown.map((agent) => (
            <AgentRow key={agent.name} agent={agent} />
          ))}
          {others !== undefined && <AgentRow agent={others} />}
        </ol>
      )}
      {fold}
    </section>
  );
}

function Who({ agent, model }: { agent: string; model: string }) {
  return (
    <span class="who">
      <span class="name" title={agent}>
        {agent}
      </span>{" "}
      {model !== "" && (
        <span class="detail" title={model}>
          {model}
        </span>
      )}
    </span>
  );
}

export function Queue({ resource: { queue, waiting } }: { resource: Resource }) {
  const more = waiting - queue.length;
  const [shown, fold] = useFold(queue);
  return (
    <section class="queue" aria-labelledby="queue-title">
      <div class="heading">
        <h2 id="queue-title">Who waits?</h2>
        {waiting > 0 && <p class="detail">{plural(waiting, "call")}, the longest first</p>}
      </div>
      {queue.length === 0 ? (
        <p class="hint">Nobody waits.</p>
      ) : (
        <table data-testid="queue">
          <Columns texts={["Agent"]} numbers={["Tokens", "Waited"]} />
          <tbody>
            {shown.map((waiter, place) => (
              <tr key={place} data-testid="waiter">
                <td>
                  <Who agent={waiter.agent} model={waiter.model} />
                  {waiter.priority !== 0 && <small class="tag">priority {waiter.priority}</small>}
                </td>
                <td class="number">{waiter.tokens > 0 ? count(waiter.tokens) : "–"}</td>
                <td class="number">{span(waiter.waited_ms)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {fold}
      {more > 0 && queue.length > 0 && <p class="hint">and {count(more)} more</p>}
    </section>
  );
}

export function Slowest({ resource: { slowest } }: { resource: Resource }) {
  if (slowest.length === 0) return null;
  return (
    <section class="slowest" aria-labelledby="slowest-title">
      <div class="heading">
        <h2 id="slowest-title">Who waited longest?</h2>
        <p class="detail">last hour</p>
      </div>
      <table data-testid="slowest">
        <Columns texts={["Agent"]} numbers={["Waited"]} />
        <tbody>
          {slowest.map((wait) => (
            <tr key={`${wait.at_ms} ${wait.agent}`}>
              <td>
                <Who agent={wait.agent} model={wait.model} />
                <p class="detail">
                  at {clock(wait.at_ms)}, held by {wait.limit}
                </p>
              </td>
              <td class="number">{span(wait.waited_ms)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
