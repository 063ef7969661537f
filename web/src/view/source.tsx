import { useRef, useState } from "preact/hooks";
import { get, reasonOf, send } from "../api";
import { bytes, clockSeconds, fromNow, moment, plural, span } from "../format";
import { hrefOf } from "../route";
import { live } from "../state";
import type { Source, SourceResult } from "../wire";
import { Columns } from "./columns";
import { bad, kSourceStates, statusOf, troubled, useSources } from "./sources";

const kBodyShown = 65_536;

/** The beginning of a body as text, whatever it is; never as HTML. */
async function bodyOf({ name, results = [], failures }: Source): Promise<string | null> {
  const never = results !== null && failures >= results.length && results.every(bad);
  if (never) return null;
  const answer = await send(`v1/sources/${encodeURIComponent(name)}/body`);
  const whole = await answer.arrayBuffer();
  const text = new TextDecoder().decode(whole.slice(0, kBodyShown));
  const more = whole.byteLength - kBodyShown;
  return more > 0 ? `${text}\n… and ${bytes(more)} more` : text;
}

function Facts({ source, now }: { source: Source; now: number }) {
  const headers = Object.entries(source.headers ?? {});
  const state = kSourceStates[source.state];
  const facts: [string, preact.ComponentChildren][] = [
    ["Address", source.url],
    ["State", <span class={troubled(source) ? "bad" : undefined}>{state}</span>],
    ["Due", `${fromNow(source.due_at_ms, now)}, every ${span(source.every_ms)}`],
    ["Time-out", span(source.timeout_ms)],
    [
      "Limits of",
      source.resource === null ? (
        "none: its domain is not limited"
      ) : (
        <a href={hrefOf({ page: "provider", name: source.resource })}>{source.resource}</a>
      ),
    ],
    ["Failures in a row", String(source.failures)],
    ["Had to wait for a limit", plural(source.rate_limited, "time")],
  ];
  if (headers.length > 0) {
    facts.push(["Headers", headers.map(([name, value]) => `${name}: ${value}`).join(", ")]);
  }
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Results({ results, now }: { results: SourceResult[] | null; now: number }) {
  if (results === null) return <p class="hint">The store does not answer; they are in it.</p>;
  if (results.length === 0) return <p class="hint">It was not fetched yet.</p>;
  return (
    <table data-testid="source-results">
      <Columns texts={["When", "Status"]} numbers={["Took", "Size"]} />
      <tbody>
        {results.map((result) => (
          <tr key={result.at_ms}>
            <td title={moment(result.at_ms, now)}>
              {clockSeconds(result.at_ms)} <span class="detail">{fromNow(result.at_ms, now)}</span>
            </td>
            <td class={bad(result) ? "bad" : undefined}>
              {statusOf(result)} {result.message !== "" && <small>{result.message}</small>}
            </td>
            <td class="number">{span(result.took_ms)}</td>
            <td class="number">{bytes(result.bytes)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function SourcePage({ name }: { name: string }) {
  const [source, setSource] = useState<Source | null>(null);
  const [body, setBody] = useState<string | null>(null);
  const bodyAt = useRef<number | null>(null);
  const [problem, setProblem] = useState<unknown>(null);
  useSources(read, name, source === null ? [] : [source], problem);
  function read(): void {
    get<Source>(`v1/sources/${encodeURIComponent(name)}`)
      .then((found) => {
        setSource(found);
        setProblem(null);
        const at = found.last?.at_ms ?? null;
        if (at === bodyAt.current) return;
        bodyAt.current = at;
        bodyOf(found).then(
          (text) => {
            if (bodyAt.current === at) setBody(text);
          },
          () => {
            if (bodyAt.current !== at) return;
            bodyAt.current = null;
            setBody(null);
          },
        );
      })
      .catch(setProblem);
  }
  const now = live.value?.time_ms ?? Date.now();
  return (
    <article class="source" data-testid="source-page" data-name={name}>
      <a class="back always" href={hrefOf({ page: "sources" })}>
        All sources
      </a>
      <h1>{name}</h1>
      {problem !== null && <p class="problem">{reasonOf(problem)}</p>}
      {source !== null && (
        <>
          <Facts source={source} now={now} />
          <h2>Results</h2>
          <Results results={source.results ?? null} now={now} />
        </>
      )}
      {body !== null && (
        <>
          <h2>Latest body</h2>
          <pre class="body" tabIndex={0} aria-label="Latest body" data-testid="source-body">
            {body}
          </pre>
        </>
      )}
    </article>
  );
}
