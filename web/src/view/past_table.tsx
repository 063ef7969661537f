// The charts as text, a row for each twelfth or so of the time span.
import { clock, count, limitName, percent, span } from "../format";
import { mean, most } from "../history";
import type { History } from "../wire";
import { Columns } from "./columns";

const kRows = 12;

function sum(values: number[]): number {
  return values.reduce((all, value) => all + value, 0);
}

export function PastTable({ data }: { data: History }) {
  const length = data.time_ms.length;
  const step = Math.max(1, Math.ceil(length / kRows));
  const rows: number[] = [];
  for (let end = length; end > 0; end -= step) rows.push(end);
  return (
    <details class="as-table">
      <summary data-testid="charts-table">The same as a table</summary>
      <div class="scroll" tabIndex={0} role="region" aria-label="History as a table">
        <table>
          <Columns
            texts={["Until"]}
            numbers={[
              ...data.limits.map(limitName),
              ...["Wait", "API", "Waiting", "In flight", "Admitted", "Refused", "429"],
            ]}
          />
          <tbody>
            {rows.map((end) => {
              const part = <T,>(column: T[]) => column.slice(Math.max(0, end - step), end);
              return (
                <tr key={data.time_ms[end - 1]}>
                  <th scope="row">{clock(data.time_ms[end - 1] ?? 0)}</th>
                  {data.limits.map(({ scope, name, used }) => (
                    <td class="number" key={scope + name}>
                      {percent(most(part(used)))}
                    </td>
                  ))}
                  <td class="number">{span(mean(part(data.wait_ms), part(data.waits)))}</td>
                  <td class="number">
                    {span(mean(part(data.upstream_ms), part(data.answers)))}
                  </td>
                  <td class="number">{count(Math.max(...part(data.waiting)))}</td>
                  <td class="number">{count(Math.max(...part(data.in_flight)))}</td>
                  <td class="number">{count(sum(part(data.admitted)))}</td>
                  <td class="number">{count(sum(part(data.refused)))}</td>
                  <td class="number">{count(sum(part(data.limited)))}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </details>
  );
}
