// As much of a document as the console's elements need, and no more: nothing here reads markup.

class Node {
  constructor(text) {
    Object.assign(this, { text, parentNode: null });
  }

  remove() {
    if (this.parentNode) this.parentNode.childNodes.splice(this.parentNode.childNodes.indexOf(this), 1);
    this.parentNode = null;
  }

  get textContent() {
    return this.text;
  }
}

class Element extends Node {
  constructor(tag) {
    super("");
    Object.assign(this, { tag, childNodes: [], attributes: {}, dataset: {}, style: { setProperty(name, value) { this[name] = value; } } });
  }

  append(...children) {
    for (const child of children) {
      const node = child instanceof Node ? child : new Node(String(child));
      node.remove();
      node.parentNode = this;
      this.childNodes.push(node);
    }
  }

  replaceChildren(...children) {
    for (const node of [...this.childNodes]) node.remove();
    this.append(...children);
  }

  setAttribute(name, value) {
    this.attributes[name] = String(value);
  }

  addEventListener() {}

  get textContent() {
    return this.childNodes.map((node) => node.textContent).join("");
  }

  set textContent(text) {
    this.replaceChildren(text);
  }

  querySelector(tag) {
    for (const node of this.childNodes) {
      const found = node.tag === tag ? node : node.querySelector?.(tag);
      if (found) return found;
    }
    return null;
  }

  /** Tags and texts, short: attributes but for those of a link, its start and its class are left out. */
  get outline() {
    const { class: kind, href, start, target, rel } = this.attributes;
    const told = [kind && `.${kind}`, href && ` ${href}`, start && ` ${start}`, target && ` ${target}`, rel && ` ${rel}`].filter(Boolean).join("");
    return `<${this.tag}${told}>${this.childNodes.map((node) => node.outline ?? node.text).join("")}</${this.tag}>`;
  }

  get depth() {
    return 1 + this.childNodes.reduce((most, node) => Math.max(most, node.depth ?? 0), 0);
  }
}

globalThis.document = { createElement: (tag) => new Element(tag), createElementNS: (_, tag) => new Element(tag), dispatchEvent() {} };
