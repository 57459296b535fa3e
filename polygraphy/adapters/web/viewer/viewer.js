// Puts document, canvas and panel together, and answers the mouse and the keyboard.

class Viewer {
  constructor(documented, canvas, panel) {
    this.documented = documented;
    this.canvas = canvas;
    this.painter = new Painter(canvas, documented.errors);
    this.panel = new Panel(panel, documented, {
      go: (graph, vertex) => this.go(graph, vertex),
      search: (text) => this.search(text),
      toggle: (graph, vertex) => this.toggle(graph, vertex),
    });
    this.open = new Set();
    this.chosen = null;
    this.view = { x: 0, y: 0, scale: 1 };
    this.homes = this.findHomes();
    this.texts = this.findTexts();
    this.arrange();
    this.start();
    this.panel.model();
  }

  /** The vertex that holds each graph. The body of a function is shown in one call at a time. */
  findHomes() {
    const homes = new Map();
    const waiting = [0];
    for (const number of waiting) {
      const graph = this.documented.graphs[number];
      graph.nodes.forEach((node, index) => {
        for (const inner of node[INSIDE]) {
          if (inner === 0 || homes.has(inner)) continue;
          homes.set(inner, [number, graph.inputs.length + index]);
          waiting.push(inner);
        }
      });
    }
    return homes;
  }

  findTexts() {
    const texts = [];
    this.documented.graphs.forEach((graph, number) => {
      graph.rows.forEach((_, vertex) => {
        const found = vertexOf(graph, vertex);
        const words = found.kind === "node"
          ? [found.node[NAME], found.node[OP], ...found.node[OUTPUTS], ...found.node[INPUTS]]
          : [found.name];
        texts.push([number, vertex, words.join("\n").toLowerCase()]);
      });
    });
    return texts;
  }

  isOpen(graph, vertex) {
    return this.open.has(`${graph}:${vertex}`);
  }

  arrange() {
    this.placed = place(this.documented, 0, (graph, vertex) => this.isOpen(graph, vertex));
    this.repaint();
  }

  repaint() {
    if (this.isWaiting) return;
    this.isWaiting = true;
    requestAnimationFrame(() => {
      this.isWaiting = false;
      this.painter.paint(this.placed, this.view, this.chosen);
    });
  }

  /** Begin at what fails first, or at the top, so large that it can be read. */
  start() {
    const scale = Math.min(1, Math.max(0.6, this.canvas.clientWidth / (this.placed.width + 60)));
    this.view = { scale, x: this.placed.width / 2 - this.canvas.clientWidth / scale / 2, y: -20 / scale };
    const first = this.placed.boxes[0];
    if (first && this.placed.width * scale > this.canvas.clientWidth) {
      this.view.x = first[0] + first[2] / 2 - this.canvas.clientWidth / scale / 2;
    }
    const failed = this.panel.firstFailed(this.documented.graphs[0]);
    if (failed >= 0) this.bring(0, failed);
    this.repaint();
  }

  fit() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const scale = Math.min(1, width / (this.placed.width + 40), height / (this.placed.height + 40));
    this.view = {
      scale,
      x: this.placed.width / 2 - width / scale / 2,
      y: this.placed.height / 2 - height / scale / 2,
    };
    this.repaint();
  }

  /** Zoom so that a point of the canvas stays where it is. */
  zoom(factor, x = this.canvas.clientWidth / 2, y = this.canvas.clientHeight / 2) {
    const scale = Math.min(4, Math.max(1e-4, this.view.scale * factor));
    this.view.x += x / this.view.scale - x / scale;
    this.view.y += y / this.view.scale - y / scale;
    this.view.scale = scale;
    this.repaint();
  }

  choose(graph, vertex) {
    this.chosen = { graph, vertex };
    this.panel.vertex(graph, vertex);
    this.repaint();
  }

  /** Choose a vertex, open what is around it, and bring it to the middle. */
  go(graph, vertex) {
    let isNew = false;
    for (let home = this.homes.get(graph); home; home = this.homes.get(home[0])) {
      const key = home.join(":");
      isNew ||= !this.open.has(key);
      this.open.add(key);
    }
    if (isNew) this.arrange();
    this.choose(graph, vertex);
    this.bring(graph, vertex);
  }

  bring(graph, vertex) {
    const box = boxOf(this.placed, graph, vertex);
    if (!box) return;
    this.view.scale = Math.max(this.view.scale, 0.8);
    this.view.x = box[0] + box[2] / 2 - this.canvas.clientWidth / this.view.scale / 2;
    this.view.y = box[1] + Math.min(box[3], 200) / 2 - this.canvas.clientHeight / this.view.scale / 2;
    this.repaint();
  }

  /** Open or close a node, which stays where it is on the screen. */
  toggle(graph, vertex) {
    const before = boxOf(this.placed, graph, vertex);
    const key = `${graph}:${vertex}`;
    if (!this.open.delete(key)) this.open.add(key);
    this.arrange();
    const after = boxOf(this.placed, graph, vertex);
    if (before && after) {
      this.view.x += after[0] + after[2] / 2 - before[0] - before[2] / 2;
      this.view.y += after[1] - before[1];
    }
  }

  openAll() {
    for (const [number, graph] of this.documented.graphs.entries()) {
      if (graph.isFunction) continue;
      graph.nodes.forEach((node, index) => {
        if (node[INSIDE].some((inner) => !this.documented.graphs[inner].isFunction)) {
          this.open.add(`${number}:${graph.inputs.length + index}`);
        }
      });
    }
    this.arrange();
  }

  /** Save what is shown, all of it, as a picture that other programs can change. */
  saveDrawing() {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([drawingOf(this.placed, this.painter)], { type: "image/svg+xml" }));
    link.download = `${this.documented.title}.svg`;
    link.click();
    URL.revokeObjectURL(link.href);
  }

  closeAll() {
    this.open.clear();
    this.arrange();
  }

  search(text) {
    const box = document.getElementById("search");
    if (box.value !== text) box.value = text;
    const wanted = text.trim().toLowerCase();
    if (!wanted) {
      this.panel.model();
      return;
    }
    this.found = this.texts.filter(([, , words]) => words.includes(wanted)).map(([graph, vertex]) => [graph, vertex]);
    this.next = 0;
    this.panel.results(this.found, this.found.length);
  }

  /** Go to the next of what was found, or the one before. */
  step(by) {
    if (!this.found || !this.found.length) return;
    const count = this.found.length;
    const at = ((this.next % count) + count) % count;
    this.next = at + by;
    this.go(...this.found[at]);
  }

  click(x, y) {
    const found = hit(this.placed, this.view.x + x / this.view.scale, this.view.y + y / this.view.scale);
    if (!found) {
      this.chosen = null;
      this.panel.model();
      this.repaint();
      return;
    }
    this.choose(found.graph, found.vertex);
    const graph = this.documented.graphs[found.graph];
    if (insideOf(graph, found.vertex).length && found.y < FRAME.head && found.x > this.widthOf(found) - 30) {
      this.toggle(found.graph, found.vertex);
    }
  }

  widthOf({ graph, vertex }) {
    return boxOf(this.placed, graph, vertex)?.[2] ?? NODE.width;
  }
}

function listen(viewer) {
  const { canvas } = viewer;
  const box = document.getElementById("search");
  let from = null, moved = false;
  canvas.addEventListener("pointerdown", (event) => {
    from = [event.clientX, event.clientY];
    moved = false;
    canvas.setPointerCapture(event.pointerId);
    canvas.classList.add("moving");
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!from) return;
    const [dx, dy] = [event.clientX - from[0], event.clientY - from[1]];
    if (!moved && Math.abs(dx) + Math.abs(dy) < 4) return;
    moved = true;
    viewer.view.x -= dx / viewer.view.scale;
    viewer.view.y -= dy / viewer.view.scale;
    from = [event.clientX, event.clientY];
    viewer.repaint();
  });
  canvas.addEventListener("pointerup", (event) => {
    if (from && !moved) viewer.click(event.offsetX, event.offsetY);
    from = null;
    canvas.classList.remove("moving");
  });
  canvas.addEventListener("dblclick", (event) => {
    const found = hit(viewer.placed, viewer.view.x + event.offsetX / viewer.view.scale, viewer.view.y + event.offsetY / viewer.view.scale);
    if (found && insideOf(viewer.documented.graphs[found.graph], found.vertex).length) viewer.toggle(found.graph, found.vertex);
  });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 20 : 1;
    viewer.zoom(Math.exp(-event.deltaY * lines * 0.0015), event.offsetX, event.offsetY);
  }, { passive: false });
  const press = (id, action) => document.getElementById(id).addEventListener("click", action);
  press("fit", () => viewer.fit());
  press("larger", () => viewer.zoom(1.4));
  press("smaller", () => viewer.zoom(1 / 1.4));
  press("open-all", () => viewer.openAll());
  press("close-all", () => viewer.closeAll());
  press("save-svg", () => viewer.saveDrawing());
  let timer = 0;
  box.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => viewer.search(box.value), 120);
  });
  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter") viewer.step(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") { viewer.search(""); canvas.focus(); }
  });
  document.addEventListener("keydown", (event) => {
    if (event.target === box || event.ctrlKey || event.metaKey || event.altKey) return;
    const keys = {
      "/": () => box.focus(), f: () => viewer.fit(), "+": () => viewer.zoom(1.4), "-": () => viewer.zoom(1 / 1.4),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  new ResizeObserver(() => viewer.repaint()).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => viewer.repaint());
}

const viewer = new Viewer(
  JSON.parse(document.getElementById("document").textContent),
  document.getElementById("graph"),
  document.getElementById("panel"),
);
listen(viewer);
window.viewer = viewer;
