// The graph as an SVG document: what the canvas shows, all of it, with text as text.

function escaped(text) {
  // What no XML may hold is replaced: a name in a model may be anything.
  return text.replace(/[^\t\n\r\x20-\ud7ff\ue000-\ufffd]/g, "\ufffd").replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);
}

/** The SVG of a placed graph, in the colors with which a painter draws it. */
function drawingOf(placed, painter) {
  painter.colors = colors();
  const { back } = painter.colors;
  const [width, height] = [placed.width + 40, placed.height + 40].map((size) => size.toFixed(1));
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="-20 -20 ${width} ${height}" font-family="sans-serif">`
    + `<rect x="-20" y="-20" width="${width}" height="${height}" fill="${back}"/>${graphDrawing(placed, painter)}</svg>`;
}

function graphDrawing(placed, painter) {
  const parts = placed.graph.wires.map((_, number) => {
    const path = [];
    const recorder = {
      moveTo: (x, y) => path.push(`M${x.toFixed(1)},${y.toFixed(1)}`),
      lineTo: (x, y) => path.push(`L${x.toFixed(1)},${y.toFixed(1)}`),
      bezierCurveTo: (...points) => path.push(`C${points.map((each) => each.toFixed(1)).join(" ")}`),
    };
    Painter.prototype.wire.call({ context: recorder }, placed, number);
    return `<path d="${path.join("")}" fill="none" stroke="${painter.colors.wire}"/>`;
  });
  placed.boxes.forEach((box, vertex) => parts.push(vertexDrawing(placed, vertex, box, painter)));
  return parts.join("\n");
}

function vertexDrawing(placed, vertex, [x, y, width, height], painter) {
  const found = vertexOf(placed.graph, vertex);
  const graphs = placed.inside.get(vertex);
  const [fill, edge] = painter.shade(placed, found, graphs);
  const { front, quiet } = painter.colors;
  const isNode = found.kind === "node";
  const title = isNode ? found.node[OP] : found.name;
  const about = isNode ? found.node[NAME] || found.node[OUTPUTS][0] || "" : typeText(placed.graph.tensors[found.name]);
  const line = (text, dy, color, size, weight) =>
    `<text x="${(x + 10).toFixed(1)}" y="${(y + dy).toFixed(1)}" font-size="${size}" font-weight="${weight}" fill="${color}">${escaped(cut(text, 26))}</text>`;
  const inner = (graphs ?? []).map((entry) =>
    `<g transform="translate(${(x + entry.x).toFixed(1)} ${(y + entry.y).toFixed(1)})">${graphDrawing(entry.inner, painter)}</g>`);
  return `<g><title>${escaped(`${title} ${about}`)}</title>`
    + `<rect x="${x.toFixed(1)}" y="${y.toFixed(1)}" width="${width}" height="${height}" rx="${isNode ? 7 : height / 2}" fill="${fill}" stroke="${edge}"/>`
    + line(title, 18, front, 13, 600) + (graphs ? "" : line(about, 35, quiet, 11, 400)) + inner.join("") + "</g>";
}

function cut(text, most) {
  return text.length <= most ? text : `${text.slice(0, most / 2)}\u2026${text.slice(-most / 2 + 1)}`;
}
