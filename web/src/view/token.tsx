import { useEffect, useRef, useState } from "preact/hooks";
import { hasToken, setToken } from "../api";
import { start } from "../state";
import { Mark } from "./glyph";

export function TokenForm({ why }: { why: string }) {
  const field = useRef<HTMLInputElement>(null);
  const [odd, setOdd] = useState("");
  useEffect(() => field.current?.focus(), []);
  const submit = (event: Event) => {
    event.preventDefault();
    const token = field.current?.value.trim() ?? "";
    const [unsendable = ""] = token.match(/[^\x20-\x7e]/u) ?? [];
    setOdd(unsendable);
    if (unsendable !== "") return;
    setToken(token);
    start();
  };
  return (
    <main class="token">
      <form onSubmit={submit} data-testid="token-form">
        <h1>
          <Mark /> Weir
        </h1>
        <p class={odd !== "" || hasToken() ? "problem" : undefined} role="alert">
          {odd === "" ? why : `The token has a sign that cannot be sent: ${odd}`}
        </p>
        <p class="hint">It is kept in this tab only and sent to this daemon alone.</p>
        <label for="token">Token</label>
        <input
          id="token"
          ref={field}
          type="password"
          autocomplete="off"
          required
          data-testid="token-input"
        />
        <button type="submit" class="strong" data-testid="token-submit">
          Continue
        </button>
      </form>
    </main>
  );
}
