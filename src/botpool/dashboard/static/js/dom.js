/** Elements, made and changed one by one. Everything from the server is written as text: the
 * page's policy lets no text become markup. */

/** `attributes`: functions listen, `text` is the content, true/false/null as HTML has them. */
export function make(tag, attributes = {}, ...children) {
  return build(document.createElement(tag), attributes, children);
}

export function drawn(tag, attributes = {}, ...children) {
  return build(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function build(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (name === "text") element.textContent = value;
    else assign(element, name, value);
  }
  element.append(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined),
  );
  return element;
}

/** Set what is new: an attribute written twice costs a style pass for nothing. */
export function assign(element, name, value) {
  if (value === null || value === undefined || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value === true ? "" : value)) {
    element.setAttribute(name, value === true ? "" : value);
  }
}

/** Write only what is new: the page stays smooth, and a notice is read aloud once. */
export function write(node, text) {
  if (node.textContent !== String(text)) node.textContent = text;
}

/** A length in CSS that follows data, which no stylesheet can know. */
export function measure(element, name, value) {
  if (element.style.getPropertyValue(name) !== value) element.style.setProperty(name, value);
}

const known = new WeakMap();

/** Make the children of `parent` follow `items`, one element for each key: kept, moved, removed. */
export function follow(parent, items, keyOf, create, fill = () => {}) {
  const before = known.get(parent) ?? new Map();
  const after = new Map();
  for (const item of items) after.set(keyOf(item), before.get(keyOf(item)) ?? create(item));
  before.forEach((element, key) => after.has(key) || element.remove());
  let place = parent.firstElementChild;
  for (const item of items) {
    const element = after.get(keyOf(item));
    if (element === place) place = place.nextElementSibling;
    else parent.insertBefore(element, place);
    fill(element, item);
  }
  known.set(parent, after);
}
