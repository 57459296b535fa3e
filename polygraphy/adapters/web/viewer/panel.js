// The panel beside the graph: the model, one vertex, or what a search found. All text is set as
// text; nothing of the model is ever read as markup.

const MOST_RESULTS = 200;

function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) element[key] = value;
  element.append(...children);
  return element;
}

class Panel {
  constructor(element, documented, actions) {
    this.element = element;
    this.documented = documented;
    this.actions = actions;
  }

  show(...parts) {
    this.element.replaceChildren(...parts.flat());
    this.element.scrollTop = 0;
  }

  /** The whole model. */
  model() {
    const graph = this.documented.graphs[0];
    this.show(
      make("h2", {}, this.documented.title),
      this.list("Model", this.documented.facts.map(([title, text]) => [title, text])),
      this.list("Errors", this.failures(graph)),
      this.list("Inputs", graph.inputs.map((name, vertex) => [this.link(name, 0, vertex), typeText(graph.tensors[name])])),
      this.list("Outputs", graph.outputs.map((name, index) => [
        this.link(name, 0, graph.inputs.length + graph.nodes.length + index), typeText(graph.tensors[name]),
      ])),
      this.modules(graph),
      this.list("Operators", this.documented.ops.map(([op, count]) => [
        make("button", { className: "link", onclick: () => this.actions.search(op) }, op), count.toLocaleString("en"),
      ])),
    );
  }

  /** One vertex of a graph. */
  vertex(number, vertex) {
    const graph = this.documented.graphs[number];
    const found = vertexOf(graph, vertex);
    if (found.kind !== "node") {
      this.show(
        make("h2", {}, found.name || "unnamed"),
        make("div", { className: "quiet" }, `${found.kind} of ${graph.title || "the graph"}`),
        this.list("Type", [["Data type and shape", typeText(graph.tensors[found.name]) || "unknown"]]),
        found.kind === "input" ? this.consumers(number, [found.name]) : this.list("From", [this.tensor(number, found.name)]),
      );
      return;
    }
    const [name, op, domain, inputs, outputs, attributes, inside] = found.node;
    this.show(
      make("h2", {}, op),
      make("div", { className: "quiet" }, [name || "unnamed", domain && `domain ${domain}`, `node ${found.index} of ${graph.title || "the graph"}`].filter(Boolean).join(" \u00b7 ")),
      inside.length ? make("p", {}, make("button", { onclick: () => this.actions.toggle(number, vertex) }, "Expand or collapse")) : [],
      this.errors(number, outputs),
      this.list("Attributes", attributes.map(([key, kind, value]) => [key, attributeText(kind, value)])),
      this.list("Inputs", inputs.map((tensor) => (tensor ? this.tensor(number, tensor) : ["(omitted)", ""]))),
      this.list("Outputs", outputs.filter(Boolean).map((tensor) => [tensor, typeText(graph.tensors[tensor]) || "unknown type"])),
      this.consumers(number, outputs.filter(Boolean)),
    );
  }

  /** What a search found: [graph, vertex] pairs, of so many in all. */
  results(found, total) {
    const list = make("div", { className: "results" });
    for (const [number, vertex] of found.slice(0, MOST_RESULTS)) {
      const graph = this.documented.graphs[number];
      const one = vertexOf(graph, vertex);
      const title = one.kind === "node" ? one.node[OP] : one.kind;
      const name = one.kind === "node" ? one.node[NAME] || one.node[OUTPUTS][0] || "" : one.name;
      list.append(make("button", { onclick: () => this.actions.go(number, vertex) }, title, make("br"), make("small", {}, name)));
    }
    const more = total > MOST_RESULTS ? `, ${MOST_RESULTS} listed` : "";
    this.show(make("h2", {}, `${total.toLocaleString("en")} found${more}`), list);
  }

  /** The scopes in the names of nodes, as a tree; nothing where they have none. */
  modules(graph) {
    const root = scopesOf(graph, (node) => this.failed(node));
    if (root.inner.size === 0) return [];
    return [make("h3", {}, "Modules"), make("div", { className: "modules" }, ...this.scope(root, graph))];
  }

  scope(scope, graph) {
    return [...scope.inner.values()].map((inner) => {
      const counted = `${inner.count.toLocaleString("en")} node${inner.count === 1 ? "" : "s"}`;
      const wrong = inner.failed ? `, ${inner.failed.toLocaleString("en")} failed` : "";
      const go = make("button", { className: "link", onclick: () => this.actions.go(0, graph.inputs.length + inner.first) }, counted);
      const head = [inner.name, " ", go, wrong];
      if (!inner.inner.size) return make("div", { className: "leaf" }, ...head);
      const made = make("details", {}, make("summary", {}, ...head));
      made.addEventListener("toggle", () => {  // Made when it is first opened: a model may have thousands.
        if (made.open && made.children.length === 1) made.append(...this.scope(inner, graph));
      });
      return made;
    });
  }

  failed(node) {
    return levelOf(this.documented.errors, node) > 0;
  }

  /** The vertex of the node that fails first; -1 where none does. */
  firstFailed(graph) {
    const first = graph.nodes.findIndex((node) => this.failed(node));
    return first < 0 ? first : graph.inputs.length + first;
  }

  /** What a report says about the whole model: how much failed, what failed first, and what is worst. */
  failures(graph) {
    const { errors } = this.documented;
    if (!errors) return [];
    const failed = graph.nodes.flatMap((node, index) => (this.failed(node) ? [index] : []));
    const counts = [Object.values(errors).filter(([level]) => level > 0).length, Object.keys(errors).length];
    const facts = [["Failed", counts.map((each) => each.toLocaleString("en")).join(" of ")]];
    if (!failed.length) return facts;
    const level = (index) => levelOf(errors, graph.nodes[index]);
    const worst = failed.reduce((most, index) => (level(index) > level(most) ? index : most));
    const linked = (index) => {
      const [name, op, , , outputs] = graph.nodes[index];
      return this.link(`${op} ${name || outputs[0]}`, 0, graph.inputs.length + index);
    };
    facts.push(["First to fail", linked(failed[0])]);
    if (worst !== failed[0]) facts.push(["Among the worst", linked(worst)]);
    return facts;
  }

  /** What a report says about the outputs of a node. */
  errors(number, names) {
    const { errors } = this.documented;
    if (!errors || number !== 0) return [];
    return this.list("Errors", names.filter((name) => errors[name]).map((name) => [
      name, `${errors[name][0] ? "failed" : "passed"}, ${errors[name][1]}`,
    ]));
  }

  list(title, entries) {
    if (!entries.length) return [];
    const terms = make("dl");
    for (const [term, text] of entries) terms.append(make("dt", {}, term), make("dd", {}, text));
    return [make("h3", {}, title), terms];
  }

  link(text, number, vertex) {
    return make("button", { className: "link", onclick: () => this.actions.go(number, vertex) }, text || "unnamed");
  }

  /** A tensor that is read: where it comes from, in this graph or one around it. */
  tensor(number, name) {
    for (let at = number; at !== null && at !== undefined; at = this.documented.graphs[at].parent) {
      const graph = this.documented.graphs[at];
      if (Object.hasOwn(graph.weights, name)) return [name, weightText(graph.weights[name])];
      const producer = producersOf(graph).get(name);
      if (producer !== undefined) return [this.link(name, at, producer), typeText(graph.tensors[name]) || "unknown type"];
    }
    return [name, "unknown origin"];
  }

  consumers(number, names) {
    const graph = this.documented.graphs[number];
    const wanted = new Set(names);
    const entries = graph.wires.filter((wire) => wanted.has(wire[TENSOR])).map((wire) => {
      const consumer = vertexOf(graph, wire[END]);
      const text = consumer.kind === "node" ? `${consumer.node[OP]} ${consumer.node[NAME]}` : `output ${consumer.name}`;
      return [this.link(text, number, wire[END]), wire[TENSOR]];
    });
    return this.list("Consumers", entries);
  }
}

const MOST_SCOPES = 12;

/** The tree of scopes in the names of nodes, which are parted by slashes, or by dots. */
function scopesOf(graph, isFailed) {
  const root = { name: "", inner: new Map(), count: 0, failed: 0, first: 0 };
  const parting = graph.nodes.some((node) => node[NAME].includes("/")) ? "/" : ".";
  graph.nodes.forEach((node, index) => {
    const parts = node[NAME].split(parting).filter(Boolean).slice(0, -1).slice(0, MOST_SCOPES);
    const failed = isFailed(node) ? 1 : 0;
    let scope = root;
    for (const part of parts) {
      if (!scope.inner.has(part)) scope.inner.set(part, { name: part, inner: new Map(), count: 0, failed: 0, first: index });
      scope = scope.inner.get(part);
      scope.count += 1;
      scope.failed += failed;
    }
  });
  return root;
}

function producersOf(graph) {
  if (!graph.producers) {
    graph.producers = new Map(graph.inputs.map((name, vertex) => [name, vertex]));
    graph.nodes.forEach((node, index) => {
      for (const name of node[OUTPUTS]) if (name) graph.producers.set(name, graph.inputs.length + index);
    });
  }
  return graph.producers;
}

function attributeText(kind, value) {
  if (kind === "tensor") return weightText(value);
  if (kind === "tensors") return value.map(weightText).join("\n");
  return `${value} (${kind})`;
}

/** A weight in words: type, bytes, file, and statistics where they are known. */
function weightText([dtype, shape, bytes, file, statistics]) {
  const lines = [`weight, ${typeText([dtype, shape])}, ${bytes.toLocaleString("en")} bytes`];
  if (file) lines.push(`in ${file}`);
  for (const [title, text] of statistics ?? []) lines.push(`${title}: ${text}`);
  return lines.join("\n");
}
