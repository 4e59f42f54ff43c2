/** The HTTP API as a page: drawn from the document that the server itself gives. */
import { make } from "./dom.js";
import { ask } from "./http.js";

const METHODS = ["get", "post", "delete"];
const find = (id) => document.getElementById(id);

const definition = await ask("openapi.json");
find("intro").textContent =
  `${definition.info.title} ${definition.info.version}. ${definition.info.description} ` +
  "Send your key as “Authorization: Bearer <key>”; make one with “botpool key create”.";

const calls = Object.entries(definition.paths).flatMap(([path, methods]) =>
  METHODS.filter((method) => methods[method]).map((method) => ({
    path,
    method,
    ...methods[method],
  })),
);
const groups = Map.groupBy(calls, (call) => call.tags?.[0] ?? "other");

for (const [tag, members] of groups) {
  find("contents").append(
    make("h2", { text: `For ${tag}` }),
    make(
      "ul",
      {},
      members.map((call) =>
        make("li", {}, make("a", { href: `#${anchor(call)}` }, badge(call), call.path)),
      ),
    ),
  );
  find("calls").append(
    make(
      "section",
      { "aria-labelledby": tag },
      make("h2", { id: tag, text: `For ${tag}` }),
      members.map(section),
    ),
  );
}
document.querySelector(`[id="${CSS.escape(location.hash.slice(1))}"]`)?.scrollIntoView();

function anchor({ method, path }) {
  return `${method}${path.replaceAll(/\W+/g, "-")}`;
}

function badge({ method }) {
  return make("b", { class: `method ${method}`, text: method.toUpperCase() });
}

function section(call) {
  const { parameters = [], requestBody, responses } = call;
  const body = requestBody?.content?.["application/json"]?.schema;
  return make(
    "article",
    { class: "card", id: anchor(call) },
    make("h3", {}, badge(call), make("code", { text: call.path })),
    (call.description ?? call.summary ?? "")
      .split("\n\n")
      .map((text) => make("p", {}, prose(text))),
    parameters.length
      ? fields(
          "Parameters",
          parameters.map(({ name, in: place, required, description, schema }) => ({
            name,
            required,
            type: `${typeOf(schema)}, ${place}`,
            description: description ?? schema.description,
          })),
        )
      : null,
    body ? fields("Body", fieldsOf(resolve(body))) : null,
    make("h4", { text: "Answers" }),
    make(
      "dl",
      { class: "answers" },
      Object.entries(responses).map(([status, response]) => answer(status, response)),
    ),
  );
}

/** What stands between backticks is code. */
function prose(text) {
  return text.split("`").map((part, index) => (index % 2 ? make("code", { text: part }) : part));
}

function answer(status, { description, content = {} }) {
  const [media, { schema } = {}] = Object.entries(content)[0] ?? [];
  const shown = schema && status < "300" ? fieldsOf(resolve(schema)) : [];
  return make(
    "div",
    {},
    make("dt", { text: status }),
    make(
      "dd",
      {},
      make("span", { text: [description, media].filter(Boolean).join(" · ") }),
      shown.length
        ? make("details", {}, make("summary", { text: typeOf(schema) }), fields("", shown))
        : null,
    ),
  );
}

function fields(title, rows) {
  return [
    title ? make("h4", { text: title }) : null,
    make(
      "ul",
      { class: "fields" },
      rows.map(({ name, type, required, description }) =>
        make(
          "li",
          {},
          make("code", { text: name }),
          make("span", { class: "soft", text: `${type}${required ? ", required" : ""}` }),
          description ? make("span", { text: description }) : null,
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

/** A reference, or the one schema that is not null. */
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
