// Small signs that differ by shape, not by colour alone.
import type { ResourceState, Severity } from "../wire";

export type Sign =
  ResourceState | Severity | "clear" | "refused" | "limited" | "reduced" | "recovered";

const kShapes: Record<Sign, string> = {
  open: "M6 2.2a3.8 3.8 0 1 0 0 7.6a3.8 3.8 0 1 0 0-7.6z",
  held: "M2 1.5h8L6.9 6L10 10.5H2L5.1 6z",
  paused: "M2.5 1.5h2.6v9H2.5zM6.9 1.5h2.6v9H6.9z",
  exhausted: "M1.5 1.5h9v9h-9zM3.3 3.3v5.4h5.4V3.3z",
  critical: "M6 .4L11.6 6L6 11.6L.4 6zM5.2 3v3.6h1.6V3zM5.2 7.4V9h1.6V7.4z",
  warning: "M6 .8L11.8 11.2H.2zM5.2 4.4v3.2h1.6V4.4zM5.2 8.4V10h1.6V8.4z",
  info: "M6 .6a5.4 5.4 0 1 0 0 10.8A5.4 5.4 0 1 0 6 .6zM5.2 2.8v1.6h1.6V2.8zM5.2 5.2v4h1.6v-4z",
  clear: "M1 6.4L2.5 4.9L4.8 7.2L9.6 2.4L11 3.8L4.8 10z",
  refused: "M2.2 1L6 4.8L9.8 1L11 2.2L7.2 6L11 9.8L9.8 11L6 7.2L2.2 11L1 9.8L4.8 6L1 2.2z",
  limited: "M6 .8L11.2 6L6 11.2L.8 6z",
  reduced: "M.8 2h10.4L6 11z",
  recovered: "M.8 10h10.4L6 1z",
};

export function Glyph({ sign, label }: { sign: Sign; label?: string }) {
  return (
    <svg
      class={`glyph ${sign}`}
      viewBox="0 0 12 12"
      role={label === undefined ? undefined : "img"}
      aria-label={label}
      aria-hidden={label === undefined ? "true" : undefined}
    >
      <path d={kShapes[sign]} fill-rule="evenodd" />
    </svg>
  );
}

/** The sign as a path for a canvas. */
export function pathOf(sign: Sign): Path2D {
  return new Path2D(kShapes[sign]);
}

export function Mark() {
  return (
    <svg class="mark" viewBox="0 0 32 32" aria-hidden="true">
      <path class="water" d="M1 11h13v13H1z" />
      <path class="water" d="M18 19.5c5 0 4 2.5 13 2.5v2H18z" />
      <path class="post" d="M14 6h4v18h-4z" />
      <path class="post" d="M1 25h30v2.5H1z" />
    </svg>
  );
}
