// From rows and columns to places on a plane. A node that is open is as large as the graphs in it,
// and moves what is beside and below it.

const NODE = { width: 180, height: 46 };
const GAP = { x: 20, y: 36 };
const FRAME = { head: 30, pad: 18, between: 24 };
const BEND_WIDTH = 0.2 * NODE.width;

const NAME = 0, OP = 1, DOMAIN = 2, INPUTS = 3, OUTPUTS = 4, ATTRIBUTES = 5, INSIDE = 6;
const START = 0, END = 1, TENSOR = 2, FIRST_BEND = 3;

/** What stands at a vertex: an input, a node or an output of its graph. */
function vertexOf(graph, vertex) {
  const node = vertex - graph.inputs.length;
  if (node < 0) return { kind: "input", name: graph.inputs[vertex] };
  if (node < graph.nodes.length) return { kind: "node", node: graph.nodes[node], index: node };
  return { kind: "output", name: graph.outputs[node - graph.nodes.length] };
}

function insideOf(graph, vertex) {
  const found = vertexOf(graph, vertex);
  return found.kind === "node" ? found.node[INSIDE] : [];
}

/** The members of each row from left to right: vertices, and bends of wires. */
function membersOf(graph) {
  if (graph.members) return graph.members;
  const rows = [];
  const put = (row, member) => (rows[row] ??= []).push(member);
  graph.rows.forEach((row, vertex) => put(row, { vertex, column: graph.columns[vertex] }));
  graph.wires.forEach((wire, number) => {
    const top = graph.rows[wire[START]];
    for (let bend = FIRST_BEND; bend < wire.length; bend++) {
      put(top + bend - FIRST_BEND + 1, { wire: number, bend: bend - FIRST_BEND, column: wire[bend] });
    }
  });
  for (const row of rows) row.sort((a, b) => a.column - b.column);
  graph.members = rows;
  return rows;
}

/** The wires that cross the gap below each row, and those that go straight over many rows. */
function crossingsOf(graph) {
  if (graph.crossings) return graph.crossings;
  const below = graph.members.map(() => []);
  const straight = [];
  graph.wires.forEach((wire, number) => {
    const top = graph.rows[wire[START]], bottom = graph.rows[wire[END]];
    if (bottom - top === 1 || wire.length > FIRST_BEND) {
      for (let row = top; row < bottom; row++) below[row].push(number);
    } else {
      straight.push(number);
    }
  });
  graph.crossings = { below, straight };
  return graph.crossings;
}

/** The largest of some numbers, however many there are. */
function largest(numbers) {
  return numbers.reduce((most, one) => Math.max(most, one), 0);
}

/** The centers of one row: those wanted where nothing is wide, else pushed apart. */
function centersOf(members, widths, wanted) {
  const centers = [];
  let shift = 0;
  members.forEach((_, position) => {
    let center = wanted[position];
    if (position > 0) {
      const least = centers[position - 1] + (widths[position - 1] + widths[position]) / 2 + GAP.x;
      center = Math.max(center, least);
    }
    centers.push(center);
    shift += center - wanted[position];
  });
  return centers.map((center) => center - shift / members.length);
}

/**
 * Place a graph, its left upper corner at the origin.
 * Boxes hold [x, y, width, height] of each vertex; `bends` the x of each wire in the rows between.
 * A graph is not shown inside itself, as a function would be that calls itself; `around` are the
 * graphs that it is in.
 */
function place(documented, number, isOpen, around = []) {
  const graph = documented.graphs[number];
  const members = membersOf(graph);
  const placed = {
    number, graph, boxes: new Array(graph.rows.length), bends: graph.wires.map(() => []),
    tops: [], bottoms: [], inside: new Map(), width: 0, height: 0,
  };
  const within = [...around, number];
  const sizes = graph.rows.map((_, vertex) => sizeOf(documented, placed, vertex, isOpen, within));
  let y = 0, left = Infinity, right = -Infinity;
  for (const row of members) {
    const widths = row.map((one) => (one.wire === undefined ? sizes[one.vertex][0] : BEND_WIDTH));
    const wanted = row.map((one) => one.column * (NODE.width + GAP.x));
    const isWide = widths.some((width) => width > NODE.width);
    const centers = isWide ? centersOf(row, widths, wanted) : wanted;
    const height = largest(row.map((one) => (one.wire === undefined ? sizes[one.vertex][1] : 0)));
    row.forEach((one, position) => {
      const center = centers[position];
      left = Math.min(left, center - widths[position] / 2);
      right = Math.max(right, center + widths[position] / 2);
      if (one.wire !== undefined) {
        placed.bends[one.wire][one.bend] = center;
      } else {
        const [width, own] = sizes[one.vertex];
        placed.boxes[one.vertex] = [center - width / 2, y + (height - own) / 2, width, own];
      }
    });
    placed.tops.push(y);
    placed.bottoms.push(y + height);
    y += height + GAP.y;
  }
  if (!members.length) left = right = 0;
  for (const box of placed.boxes) box[0] -= left;
  for (const bends of placed.bends) for (let i = 0; i < bends.length; i++) bends[i] -= left;
  placed.width = right - left;
  placed.height = Math.max(0, y - GAP.y);
  return placed;
}

function sizeOf(documented, placed, vertex, isOpen, around) {
  const inside = insideOf(placed.graph, vertex).filter((number) => !around.includes(number));
  if (!inside.length || !isOpen(placed.number, vertex)) return [NODE.width, NODE.height];
  let x = FRAME.pad, height = 0;
  const graphs = inside.map((number) => {
    const inner = place(documented, number, isOpen, around);
    const entry = { inner, x, y: FRAME.head + 20 };
    x += Math.max(inner.width, 120) + FRAME.between;
    height = Math.max(height, inner.height);
    return entry;
  });
  placed.inside.set(vertex, graphs);
  return [Math.max(x - FRAME.between + FRAME.pad, NODE.width), FRAME.head + 20 + height + FRAME.pad];
}

/** The first row whose bottom is at or below a height. */
function rowAt(placed, y) {
  let low = 0, high = placed.bottoms.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (placed.bottoms[middle] < y) low = middle + 1; else high = middle;
  }
  return low;
}

/** What is at a point: the innermost vertex, and where its graph begins. */
function hit(placed, x, y, path = []) {
  const row = rowAt(placed, y);
  for (const one of membersOf(placed.graph)[row] ?? []) {
    if (one.wire !== undefined) continue;
    const [left, top, width, height] = placed.boxes[one.vertex];
    if (x < left || x > left + width || y < top || y > top + height) continue;
    for (const { inner, x: dx, y: dy } of placed.inside.get(one.vertex) ?? []) {
      const found = hit(inner, x - left - dx, y - top - dy);
      if (found) return found;
    }
    return { graph: placed.number, vertex: one.vertex, x: x - left, y: y - top };
  }
  return null;
}

/** The box of a vertex, wherever it is inside open nodes; null where it is not shown. */
function boxOf(placed, number, vertex, dx = 0, dy = 0) {
  if (placed.number === number) {
    const [x, y, width, height] = placed.boxes[vertex];
    return [x + dx, y + dy, width, height];
  }
  for (const [outer, graphs] of placed.inside) {
    const [x, y] = placed.boxes[outer];
    for (const entry of graphs) {
      const found = boxOf(entry.inner, number, vertex, dx + x + entry.x, dy + y + entry.y);
      if (found) return found;
    }
  }
  return null;
}
