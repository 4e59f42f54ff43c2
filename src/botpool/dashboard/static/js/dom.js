/** Creates and updates DOM elements. Text from the server is set as text, never as markup. */

/** Create an HTML element. In `attributes`, a function is an event listener, `text` is the text
 * content, and true, false and null set or remove a boolean attribute. */
export function html(tag, attributes = {}, ...children) {
  return build(document.createElement(tag), attributes, children);
}

/** Create an SVG element, with the same arguments as `html`. */
export function svg(tag, attributes = {}, ...children) {
  return build(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function build(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (name === "text") element.textContent = value;
    else setAttribute(element, name, value);
  }
  element.append(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined),
  );
  return element;
}

/** Set an attribute if its value changed: setting an equal value would still cost a style pass. */
export function setAttribute(element, name, value) {
  if (value === null || value === undefined || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value === true ? "" : value)) {
    element.setAttribute(name, value === true ? "" : value);
  }
}

/** Set the text if it changed, so that a screen reader announces a notice only once. */
export function setText(node, text) {
  if (node.textContent !== String(text)) node.textContent = text;
}

/** Set a CSS property of one element if its value changed. */
export function setStyle(element, name, value) {
  if (element.style.getPropertyValue(name) !== value) element.style.setProperty(name, value);
}

const childrenByKey = new WeakMap();

/** Make the children of `parent` match `items`: keep, create, move and remove elements by key, and
 * call `fill(element, item)` for each. */
export function syncChildren(parent, items, keyOf, create, fill = () => {}) {
  const before = childrenByKey.get(parent) ?? new Map();
  const after = new Map();
  for (const item of items) after.set(keyOf(item), before.get(keyOf(item)) ?? create(item));
  before.forEach((element, key) => after.has(key) || element.remove());
  let next = parent.firstElementChild;
  for (const item of items) {
    const element = after.get(keyOf(item));
    if (element === next) next = next.nextElementSibling;
    else parent.insertBefore(element, next);
    fill(element, item);
  }
  childrenByKey.set(parent, after);
}
