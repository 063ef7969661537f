// Where the reader is, by the address's hash, so that links and the back button work.
import { signal } from "@preact/signals";

export type Route =
  | { page: "home" }
  | { page: "provider"; name: string }
  | { page: "sources" }
  | { page: "source"; name: string }
  | { page: "events" };

export function parse(hash: string): Route {
  const [, page = "", name = ""] = hash.replace(/^#/, "").split("/");
  if (page === "provider" && name !== "") return { page, name: decode(name) };
  if (page === "source" && name !== "") return { page, name: decode(name) };
  if (page === "sources" || page === "events") return { page };
  return { page: "home" };
}

export function hrefOf(route: Route): string {
  if (route.page === "home") return "#/";
  if ("name" in route) return `#/${route.page}/${encodeURIComponent(route.name)}`;
  return `#/${route.page}`;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export const route = signal<Route>(parse(location.hash));
addEventListener("hashchange", () => {
  route.value = parse(location.hash);
  scrollTo(0, 0);
});
