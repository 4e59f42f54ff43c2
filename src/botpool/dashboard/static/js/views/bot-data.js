/** The data that is kept with a bot: screenshots as pictures, artifacts and commands. */
import { html, syncChildren } from "../dom.js";
import { timeOfDay } from "../format.js";
import { fetchJson, serverNow } from "../http.js";

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

/** A card for each kind of data; a card without data is hidden. */
export function botData(id) {
  const pictures = card("Screenshots", "ul", "screenshots");
  const files = card("Artifacts", "ul", "files");
  const commands = card("Commands", "ul", "files");
  return {
    left: pictures.element,
    right: [files.element, commands.element],
    async load(bot) {
      const [screenshots, artifacts, sent] = await Promise.all([
        list(`v1/bots/${id}/screenshots`, "screenshots"),
        bot.artifactCount ? list(`v1/bots/${id}/artifacts`, "artifacts") : [],
        list(`v1/bots/${id}/commands?limit=500`, "commands"),
      ]);
      pictures.show(screenshots, (each) => each.number, picture(id));
      files.show(artifacts, (each) => `${each.kind} ${each.location}`, file);
      commands.show(sent, (each) => `${each.id} ${each.state}`, command);
    },
  };
}

/** The records of a list; none if the server has no such list or refuses it. */
async function list(path, part) {
  try {
    return (await fetchJson(path))[part] ?? [];
  } catch (error) {
    if (error.status === 0) throw error;
    return [];
  }
}

function card(title, tag, kind) {
  const items = html(tag, { class: kind });
  const element = html("section", { class: "card", hidden: true }, html("h2", { text: title }), items);
  return {
    element,
    show(records, keyOf, create) {
      element.hidden = records.length === 0;
      syncChildren(items, records, keyOf, create);
    },
  };
}

const picture = (id) => (shot) => {
  const address = `v1/bots/${id}/screenshots/${shot.number}`;
  const note = shot.note || `Screenshot ${shot.number}`;
  return html(
    "li",
    {},
    html(
      "a",
      { href: address, target: "_blank", rel: "noopener" },
      html("img", { src: address, alt: note, loading: "lazy" }),
    ),
    html("p", { class: "soft", text: `${note}, ${timeOfDay(shot.at, serverNow())}` }),
  );
};

function file(artifact) {
  const details = [size(artifact.sizeBytes), artifact.contentType].filter(Boolean).join(", ");
  return html(
    "li",
    {},
    html("p", {}, html("b", { text: artifact.kind }), ` ${details}`),
    html("code", { text: artifact.location }),
  );
}

function command(sent) {
  return html(
    "li",
    {},
    html("p", {}, html("b", { text: sent.kind }), ` ${sent.state}, ${timeOfDay(sent.at, serverNow())}`),
    html("code", { text: JSON.stringify(sent.data) }),
  );
}

function size(bytes) {
  if (bytes === null || bytes === undefined) return "";
  const step = Math.min(Math.floor(Math.log2(Math.max(bytes, 1)) / 10), UNITS.length - 1);
  return `${(bytes / 1024 ** step).toFixed(step ? 1 : 0)} ${UNITS[step]}`;
}
