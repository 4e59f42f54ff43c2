/** Keeps the filters of a view in the address, for reloads and shared links. */

/** Replace the query of the current address without leaving the view. */
export function setQuery(values) {
  const [path] = location.hash.split("?");
  const present = Object.entries(values).filter(([, value]) => value);
  const text = new URLSearchParams(present).toString();
  history.replaceState(null, "", `${path || "#/"}${text ? `?${text}` : ""}`);
}
