/** Renders the server's OpenAPI document as a reference page. */
import { html } from "./dom.js";
import { fetchJson } from "./http.js";

const METHODS = ["get", "post", "delete"];
const find = (id) => document.getElementById(id);

const definition = await fetchJson("openapi.json");
find("intro").textContent =
  `${definition.info.title} ${definition.info.version}. ${definition.info.description} ` +
  "Send your key as “Authorization: Bearer <key>”; create one with “botpool key create”.";

const operations = Object.entries(definition.paths).flatMap(([path, methods]) =>
  METHODS.filter((method) => methods[method]).map((method) => ({
    path,
    method,
    ...methods[method],
  })),
);
const groups = Map.groupBy(operations, (operation) => operation.tags?.[0] ?? "other");

for (const [tag, members] of groups) {
  find("contents").append(
    html("h2", { text: `For ${tag}` }),
    html(
      "ul",
      {},
      members.map((operation) =>
        html(
          "li",
          {},
          html("a", { href: `#${anchor(operation)}` }, badge(operation), operation.path),
        ),
      ),
    ),
  );
  find("operations").append(
    html(
      "section",
      { "aria-labelledby": tag },
      html("h2", { id: tag, text: `For ${tag}` }),
      members.map(section),
    ),
  );
}
document.querySelector(`[id="${CSS.escape(location.hash.slice(1))}"]`)?.scrollIntoView();

function anchor({ method, path }) {
  return `${method}${path.replaceAll(/\W+/g, "-")}`;
}

function badge({ method }) {
  return html("b", { class: `method ${method}`, text: method.toUpperCase() });
}

function section(operation) {
  const { parameters = [], requestBody, responses } = operation;
  const body = requestBody?.content?.["application/json"]?.schema;
  return html(
    "article",
    { class: "card", id: anchor(operation) },
    html("h3", {}, badge(operation), html("code", { text: operation.path })),
    (operation.description ?? operation.summary ?? "")
      .split("\n\n")
      .map((text) => html("p", {}, formatText(text))),
    parameters.length
      ? fieldList(
          "Parameters",
          parameters.map(({ name, in: location, required, description, schema }) => ({
            name,
            required,
            type: `${typeOf(schema)}, ${location}`,
            description: description ?? schema.description,
          })),
        )
      : null,
    body ? fieldList("Body", fieldsOf(resolve(body))) : null,
    html("h4", { text: "Responses" }),
    html(
      "dl",
      { class: "responses" },
      Object.entries(responses).map(([status, response]) => responseEntry(status, response)),
    ),
  );
}

/** Text with parts between backticks as code. */
function formatText(text) {
  return text.split("`").map((part, index) => (index % 2 ? html("code", { text: part }) : part));
}

function responseEntry(status, { description, content = {} }) {
  const [media, { schema } = {}] = Object.entries(content)[0] ?? [];
  const rows = schema && status < "300" ? fieldsOf(resolve(schema)) : [];
  return html(
    "div",
    {},
    html("dt", { text: status }),
    html(
      "dd",
      {},
      html("span", { text: [description, media].filter(Boolean).join(" · ") }),
      rows.length
        ? html("details", {}, html("summary", { text: typeOf(schema) }), fieldList("", rows))
        : null,
    ),
  );
}

function fieldList(title, rows) {
  return [
    title ? html("h4", { text: title }) : null,
    html(
      "ul",
      { class: "fields" },
      rows.map(({ name, type, required, description }) =>
        html(
          "li",
          {},
          html("code", { text: name }),
          html("span", { class: "soft", text: `${type}${required ? ", required" : ""}` }),
          description ? html("span", { text: description }) : null,
        ),
      ),
    ),
  ];
}

function fieldsOf({ properties = {}, required = [] }) {
  return Object.entries(properties).map(([name, schema]) => ({
    name,
    type: typeOf(schema),
    required: required.includes(name),
    description: schema.description,
  }));
}

/** The schema behind a reference, or the one alternative that is not null. */
function resolve(schema) {
  if (schema.$ref) return resolve(definition.components.schemas[schema.$ref.split("/").at(-1)]);
  const [only] = (schema.anyOf ?? []).filter(({ type }) => type !== "null");
  return only ? resolve(only) : schema;
}

function typeOf(schema) {
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if (schema.anyOf) return schema.anyOf.map(typeOf).join(" or ");
  if (schema.enum) return schema.enum.map(String).join(" | ");
  if (schema.type === "array") return `list of ${typeOf(schema.items ?? {})}`;
  return [
    schema.format ?? schema.type ?? "any",
    schema.default !== undefined && schema.default !== null
      ? `default ${JSON.stringify(schema.default)}`
      : "",
  ]
    .filter(Boolean)
    .join(", ");
}
