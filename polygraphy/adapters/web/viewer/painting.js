// Draws what is visible. At most one row per line of pixels is drawn, and texts only where they can
// be read, so that the cost is that of the screen and not that of the model.

const READABLE = 0.35;
const WITH_WIRES = 0.04;
const LEAST = 6;  // Pixels of the width of a vertex, however small the scale.

function colors() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  return {
    back: of("--back"), front: of("--front"), quiet: of("--quiet"), wire: of("--wire"),
    card: of("--card"), edge: of("--edge"), mark: of("--mark"), unknown: of("--unknown"),
    errors: [0, 1, 2, 3, 4].map((step) => of(`--error-${step}`)), onWorst: of("--on-worst"),
  };
}

/** A hue for an operator: the same in every model. */
function hueOf(op) {
  let sum = 7;
  for (let i = 0; i < op.length; i++) sum = (sum * 31 + op.charCodeAt(i)) % 3600;
  return sum / 10;
}

/** The worst step of the errors of a node's outputs; -1 where a report says nothing about them. */
function levelOf(errors, node) {
  if (!errors) return -1;
  return node[OUTPUTS].reduce((most, name) => Math.max(most, Object.hasOwn(errors, name) ? errors[name][0] : -1), -1);
}

class Painter {
  constructor(canvas, errors) {
    this.canvas = canvas;
    this.errors = errors;
    this.context = canvas.getContext("2d");
    this.drawn = 0;
  }

  /** Draw a placed graph; `view` says which point is in the left upper corner, and the scale. */
  paint(placed, view, chosen, isOpen) {
    const ratio = window.devicePixelRatio || 1;
    const width = this.canvas.clientWidth, height = this.canvas.clientHeight;
    if (this.canvas.width !== Math.round(width * ratio)) this.canvas.width = Math.round(width * ratio);
    if (this.canvas.height !== Math.round(height * ratio)) this.canvas.height = Math.round(height * ratio);
    const context = this.context;
    this.colors = colors();
    this.scale = view.scale;
    this.chosen = chosen;
    this.isOpen = isOpen;
    this.drawn = 0;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = this.colors.back;
    context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    const factor = ratio * view.scale;
    context.setTransform(factor, 0, 0, factor, -view.x * factor, -view.y * factor);
    const seen = { left: view.x, top: view.y, right: view.x + width / view.scale, bottom: view.y + height / view.scale };
    this.graph(placed, 0, 0, seen);
  }

  graph(placed, dx, dy, seen) {
    const context = this.context;
    const first = Math.max(0, rowAt(placed, seen.top - dy) - 1);
    const rows = membersOf(placed.graph);
    context.save();
    context.translate(dx, dy);
    const inner = { left: seen.left - dx, right: seen.right - dx, top: seen.top - dy, bottom: seen.bottom - dy };
    if (this.scale >= WITH_WIRES) this.wires(placed, first, inner);
    let next = -Infinity;
    for (let row = first; row < rows.length && placed.tops[row] <= inner.bottom; row++) {
      if (placed.bottoms[row] * this.scale < next) continue;
      next = placed.tops[row] * this.scale + 1;
      for (const one of rows[row]) {
        if (one.wire !== undefined) continue;
        const [x, , width] = placed.boxes[one.vertex];
        if (x <= inner.right && x + width >= inner.left) this.vertex(placed, one.vertex, inner);
      }
    }
    context.restore();
  }

  wires(placed, first, seen) {
    const { below, straight } = crossingsOf(placed.graph);
    const shown = new Set();
    for (let row = first; row < below.length && placed.tops[row] <= seen.bottom; row++) {
      for (const number of below[row]) shown.add(number);
    }
    const chosen = this.chosen && this.chosen.graph === placed.number ? this.chosen.vertex : -1;
    const context = this.context;
    context.lineWidth = Math.max(1.2, 0.7 / this.scale);
    const marked = [];
    const trace = (number) => {
      const wire = placed.graph.wires[number];
      if (wire[START] === chosen || wire[END] === chosen) marked.push(number);
      else this.wire(placed, number);
    };
    context.strokeStyle = this.colors.wire;
    context.beginPath();
    for (const number of shown) trace(number);
    context.stroke();
    context.globalAlpha = 0.45;
    context.beginPath();
    for (const number of straight) {
      const wire = placed.graph.wires[number];
      const from = placed.boxes[wire[START]], to = placed.boxes[wire[END]];
      if (Math.min(from[1], to[1]) <= seen.bottom && Math.max(from[1], to[1]) + NODE.height >= seen.top) trace(number);
    }
    context.stroke();
    context.globalAlpha = 1;
    context.strokeStyle = this.colors.mark;
    context.beginPath();
    for (const number of marked) this.wire(placed, number);
    context.stroke();
  }

  wire(placed, number) {
    const wire = placed.graph.wires[number];
    const [x, y, width, height] = placed.boxes[wire[START]];
    const [endX, endY, endWidth] = placed.boxes[wire[END]];
    const context = this.context;
    let fromX = x + width / 2, fromY = y + height;
    context.moveTo(fromX, fromY);
    const to = (nextX, nextY) => {
      const middle = (fromY + nextY) / 2;
      context.bezierCurveTo(fromX, middle, nextX, middle, nextX, nextY);
      fromX = nextX;
      fromY = nextY;
    };
    const top = placed.graph.rows[wire[START]], bottom = placed.graph.rows[wire[END]];
    const isDown = top < bottom;  // A wire that closes a circle is not.
    if (isDown && placed.bottoms[top] > fromY) context.lineTo(fromX, (fromY = placed.bottoms[top]));
    placed.bends[number].forEach((bend, position) => {
      to(bend, placed.tops[top + position + 1]);
      fromY = placed.bottoms[top + position + 1];
      context.lineTo(bend, fromY);
    });
    to(endX + endWidth / 2, isDown ? placed.tops[bottom] : endY);
    if (isDown) context.lineTo(fromX, endY);
  }

  vertex(placed, vertex, seen) {
    this.drawn += 1;
    const context = this.context, colors = this.colors;
    let [x, y, width, height] = placed.boxes[vertex];
    const least = LEAST / this.scale;
    if (width < least) {
      x -= (least - width) / 2;
      width = least;
      height = Math.max(height, 1 / this.scale);
    }
    const found = vertexOf(placed.graph, vertex);
    const isChosen = this.chosen && this.chosen.graph === placed.number && this.chosen.vertex === vertex;
    const isNode = found.kind === "node";
    const graphs = placed.inside.get(vertex);
    const [fill, edge] = this.shade(placed, found, graphs);
    context.beginPath();
    if (this.scale < READABLE) context.rect(x, y, width, height);
    else context.roundRect(x, y, width, height, isNode ? 7 : height / 2);
    context.fillStyle = colors.card;
    context.fill();
    context.fillStyle = this.scale < WITH_WIRES ? edge : fill;  // Far away, only strong colors are seen.
    context.fill();
    context.strokeStyle = isChosen ? colors.mark : edge;
    context.lineWidth = isChosen ? Math.max(2.5, 2 / this.scale) : 1;
    context.stroke();
    if (this.scale >= READABLE) this.label(placed, vertex, found, graphs);
    for (const { inner, x: dx, y: dy } of graphs ?? []) {
      if (this.scale >= READABLE) {
        this.text(inner.graph.title || "graph", x + dx, y + dy - 12, 400, colors.quiet, "11px system-ui, sans-serif");
      }
      this.graph(inner, x + dx, y + dy, seen);
    }
  }

  /** The colors of a vertex: inside, and at its edge. */
  shade(placed, found, graphs) {
    const { card, edge, unknown, errors } = this.colors;
    if (found.kind !== "node" || graphs) return [card, edge];
    if (this.errors && placed.number === 0) {
      const level = levelOf(this.errors, found.node);
      if (level < 0) return [unknown, edge];
      return [errors[level], level ? errors[4] : errors[0]];
    }
    const hue = hueOf(found.node[OP]);
    return [`hsl(${hue} 55% 50% / .22)`, `hsl(${hue} 45% 50%)`];
  }

  label(placed, vertex, found, graphs) {
    const [x, y, width, height] = placed.boxes[vertex];
    const level = found.kind === "node" && placed.number === 0 ? levelOf(this.errors, found.node) : -1;
    const { mark } = this.colors;
    const front = level === 4 ? this.colors.onWorst : this.colors.front;
    const quiet = level >= 2 ? front : this.colors.quiet;  // Gray cannot be read on strong colors.
    const room = width - 20;
    if (found.kind !== "node") {
      this.text(found.name, x + 14, y + 18, room - 8, front, "600 12px system-ui, sans-serif");
      this.text(typeText(placed.graph.tensors[found.name]), x + 14, y + 35, room - 8, quiet, "11px system-ui, sans-serif");
      return;
    }
    const node = found.node;
    const hasGraphs = node[INSIDE].length > 0;
    this.text(node[OP], x + 10, y + 18, room - (hasGraphs ? 18 : 0), front, "600 13px system-ui, sans-serif");
    if (hasGraphs) this.text(graphs ? "\u2212" : "+", x + width - 22, y + 19, 20, mark, "700 16px system-ui, sans-serif");
    if (!graphs) this.text(node[NAME] || node[OUTPUTS][0] || "", x + 10, y + height - 11, room, quiet, "11px system-ui, sans-serif");
  }

  /** Write a text, without its middle where there is no room for it: names differ at their ends. */
  text(text, x, y, room, color, font) {
    const context = this.context;
    context.font = font;
    context.fillStyle = color;
    const width = context.measureText(text.slice(0, 400)).width;
    const most = Math.floor(room / width * Math.min(400, text.length));
    context.fillText(text.length > most ? cut(text, Math.max(4, most - most % 2)) : text, x, y);
  }
}

/** Data type and shape of a tensor in words. */
function typeText(type) {
  if (!type) return "";
  const [dtype, shape] = type;
  const dims = shape === null || shape === undefined ? "" : `[${shape.map((dim) => dim ?? "?").join(", ")}]`;
  return `${dtype ?? "unknown type"}${dims ? ` ${dims}` : ""}`;
}
