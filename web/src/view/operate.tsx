// What an operator may do, each with a question first and its result after.
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { change, reasonOf } from "../api";
import { plural, unitWord } from "../format";
import { editable } from "../limits";
import type { Editable } from "../limits";
import type { Limit, Resource } from "../wire";

export type Operation =
  | { kind: "pause" | "resume" | "drain"; resource: Resource }
  | { kind: "limit"; resource: Resource; limit: Limit };

export const operation = signal<Operation | null>(null);
/** The result of the last operation, for a while. */
export const notice = signal("");

const kNoticeFor = 8_000;
let noticeTimer = 0;

function tell(text: string): void {
  notice.value = text;
  clearTimeout(noticeTimer);
  noticeTimer = window.setTimeout(() => (notice.value = ""), kNoticeFor);
}

interface Question {
  title: string;
  says: string;
  action: string;
  done: string;
}

function questionOf({ kind, resource }: Operation): Question {
  const { name, waiting, in_flight } = resource;
  const queue = plural(waiting, "call");
  switch (kind) {
    case "pause":
      return {
        title: `Pause ${name}?`,
        says:
          "No call is admitted until it is resumed; calls that come will wait. " +
          `${plural(in_flight, "call")} under way may finish.`,
        action: "Pause",
        done: `${name} is paused.`,
      };
    case "resume":
      return {
        title: `Resume ${name}?`,
        says: `Calls are admitted again as the limits allow, the ${queue} that wait first.`,
        action: "Resume",
        done: `${name} is open again.`,
      };
    case "drain":
      return {
        title: `Drain the queue of ${name}?`,
        says:
          `Everybody who waits (${queue} now) is turned away at once with 503 “drained”. ` +
          "Calls under way and calls that come later are not touched.",
        action: "Drain queue",
        done: `The queue of ${name} was drained.`,
      };
    case "limit":
      return {
        title: `Change a limit of ${name}`,
        says:
          "It holds at once for everybody; what was used stays counted. It lasts until the " +
          "configuration is read again: to keep it, write it into the provider’s file.",
        action: "Change",
        done: `The limit of ${name} was changed.`,
      };
  }
}

export function OperateDialog() {
  const what = operation.value;
  return what === null ? null : <Ask what={what} key={what} />;
}

function Ask({ what }: { what: Operation }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const field = useRef<HTMLInputElement>(null);
  const [limit, setLimit] = useState<Editable | null>(null);
  const [busy, setBusy] = useState(what.kind === "limit");
  const [problem, setProblem] = useState("");
  const sent = useRef(false);
  const question = questionOf(what);
  const { name } = what.resource;

  const attempt = async (work: () => Promise<void>) => {
    setBusy(true);
    setProblem("");
    try {
      await work();
    } catch (error) {
      if (dialog.current !== null) setProblem(reasonOf(error));
      else if (sent.current) tell(`It did not work: ${reasonOf(error)}`);
    }
    setBusy(false);
  };
  useEffect(() => {
    dialog.current?.showModal();
    if (what.kind !== "limit") return;
    void attempt(async () => setLimit(await editable(name, what.limit.name)));
  }, []);
  useEffect(() => {
    field.current?.focus();
    field.current?.select();
  }, [limit]);

  const close = () => dialog.current?.close();
  const closed = () => {
    if (operation.peek() === what) operation.value = null; // the next may have been asked already
  };
  const submit = (event: Event) => {
    event.preventDefault();
    sent.current = true;
    void attempt(async () => {
      if (what.kind !== "limit") {
        await change("POST", `v1/resources/${encodeURIComponent(name)}/${what.kind}`);
      } else {
        await limit?.send(Number(field.current?.value));
      }
      tell(question.done);
      close();
    });
  };
  return (
    <dialog
      ref={dialog}
      onClose={closed}
      aria-labelledby="ask-title"
      aria-describedby="ask-says"
      data-testid="dialog"
    >
      <form onSubmit={submit}>
        <h2 id="ask-title">{question.title}</h2>
        {what.kind === "limit" && limit !== null && (
          <Amount limit={what.limit} now={limit} field={field} />
        )}
        <p id="ask-says">{question.says}</p>
        {problem !== "" && (
          <p class="problem" role="alert" data-testid="dialog-problem">
            It did not work: {problem}
          </p>
        )}
        <div class="actions">
          <button type="button" onClick={close} data-testid="dialog-cancel">
            Cancel
          </button>
          <button
            type="submit"
            class="strong"
            disabled={busy || (what.kind === "limit" && limit === null)}
            data-testid="dialog-confirm"
          >
            {question.action}
          </button>
        </div>
      </form>
    </dialog>
  );
}

interface AmountProps {
  limit: Limit;
  now: Editable;
  field: preact.RefObject<HTMLInputElement>;
}

function Amount({ limit: { name, unit }, now, field }: AmountProps) {
  const usd = unit === "usd";
  const per = now.per === null ? "" : ` per ${now.per}`;
  return (
    <>
      <label for="ask-amount">{name}</label>
      <div class="amount">
        <input
          id="ask-amount"
          ref={field}
          type="number"
          inputMode="decimal"
          min={usd ? "0.000001" : "1"}
          step={usd ? "any" : "1"}
          required
          defaultValue={String(now.amount)}
          aria-describedby="ask-unit"
          data-testid="dialog-amount"
        />
        <span id="ask-unit">{(usd ? "dollars" : unitWord(unit)) + per}</span>
      </div>
    </>
  );
}
