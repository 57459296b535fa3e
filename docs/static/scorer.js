// What the search puts first: pages for users, then those made from docstrings, then those for developers.
var Scorer = {
  score: (result) => {
    const [page, , section, , score] = result;
    if (section) return score - 5;
    if (page.startsWith("how-to/") || page === "tutorial") return score + 4;
    if (page.startsWith("generated/") || page === "reference") return score - 10;
    if (page.startsWith("development/")) return score - 15;
    return score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
