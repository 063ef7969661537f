// What happened, newest first.
import { signal } from "@preact/signals";
import { stamp } from "../format";
import { lineOf } from "../newsline";
import { hrefOf } from "../route";
import { live, news } from "../state";
import type { News } from "../wire";

const kShown = 12;
const everything = signal(false);

function Entry({ item, here }: { item: News; here: string | undefined }) {
  const line = lineOf(item);
  const now = live.value?.time_ms ?? Date.now();
  return (
    <li class={line.tone} data-testid="event" data-type={item.type}>
      <time dateTime={item.time}>{stamp(Date.parse(item.time), now)}</time>
      <span class="label">{line.label}</span>
      <span class="text">
        {item.resource && item.resource !== here && item.type !== "operated" && (
          <a href={hrefOf({ page: "provider", name: item.resource })}>{item.resource}</a>
        )}{" "}
        {line.text}
      </span>
    </li>
  );
}

/** Of one provider, or with `all` the whole log as a page of its own. */
export function Log({ all = false, name }: { all?: boolean; name?: string }) {
  const wide = all || everything.value;
  const items = news.value
    .filter(
      ({ type, resource }) => wide || (resource ? resource === name : type !== "source"),
    )
    .reverse();
  const Title = all ? "h1" : "h2";
  return (
    <section class="log" aria-labelledby="log-title" data-testid="log">
      <div class="heading">
        <Title id="log-title">What happened?</Title>
        {!all && (
          <label>
            <input
              type="checkbox"
              checked={everything.value}
              onChange={(event) => (everything.value = event.currentTarget.checked)}
            />{" "}
            all providers
          </label>
        )}
      </div>
      {items.length === 0 ? (
        <p class="hint">
          Nothing yet. Changes by operators, 429s, lowered limits and troubles of the store show up
          here.
        </p>
      ) : (
        <ol>
          {items.slice(0, all ? items.length : kShown).map((item, place) => (
            <Entry key={place} item={item} here={name} />
          ))}
        </ol>
      )}
      {!all && items.length > kShown && <a href={hrefOf({ page: "events" })}>All events</a>}
    </section>
  );
}
