/** What a view keeps in the address, so that it can be sent to a colleague or reloaded. */

/** Change the query of the present address without leaving the view. */
export function rewrite(values) {
  const [path] = location.hash.split("?");
  const given = Object.entries(values).filter(([, value]) => value);
  const text = new URLSearchParams(given).toString();
  history.replaceState(null, "", `${path || "#/"}${text ? `?${text}` : ""}`);
}
