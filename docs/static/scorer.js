// The order of search results: pages for users, then commands, then names of the API, then pages for developers.
var Scorer = {
  score: (result) => {
    const [page, , section] = result;
    const words = splitQuery(new URLSearchParams(location.search).get("q") || "");
    const score = result[4] + 8 * words.filter((word) => KEYWORDS[page]?.includes(word.toLowerCase())).length;
    if (section) return score - 5;
    if (page.startsWith("how-to/") || page === "tutorial") return score + 4;
    if (page.startsWith("generated/commands/")) {
      const name = words.filter((word) => word !== "polygraphy").join("-");
      return score + (page.endsWith(`/${name}`) ? 30 : name && page.includes(`/${name}-`) ? 12 : -2);
    }
    if (page.startsWith("generated/") || page === "reference") return score - 10;
    if (page.startsWith("development/")) return score - 15;
    return score;
  },
  objNameMatch: 4,
  objPartialMatch: 2,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

// Pages have American spelling; a query may have British spelling.
var splitQuery = (query) =>
  query
    .split(/[^\p{Letter}\p{Number}_\p{Emoji_Presentation}]+/gu)
    .filter((word) => word)
    .map((word) =>
      word
        .replace(/(?<=.{2})is(ation|ations|ed|er|ers|ing)$/i, (end) => `iz${end.slice(2)}`)
        .replace(/(?<=(al|im|ant|ial|ser|mar|ck|non)i)s(?=es?$)/i, "z")
        .replace(/(?<=^(un)?(col|behavi|fav|neighb|hon|lab))our/i, "or")
        .replace(/^(art)e(?=fact)/i, "$1i")
        .replace(/^analyse/i, "analyze")
        .replace(/^centre/i, "center")
        .replace(/^grey/i, "gray"),
    );
