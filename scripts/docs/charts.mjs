// Draws bars as static SVG. Lengths are fractions of the width, so a chart fits a phone and a screen while its text
// keeps its size. Colours are classes, which the theme fills for light and dark.

const ROW = 34;

const escape = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
const percent = (part) => `${(part * 100).toFixed(2)}%`;

/** Three digits, as in docs/benchmarks.md. */
export function figure(value, unit) {
  const text =
    value >= 100 ? Math.round(value).toLocaleString("en") : value >= 10 ? value.toFixed(1) : value.toFixed(2);
  return unit === "" ? text.replace(/\.0+$/, "") : `${text} ${unit}`;
}

/**
 * Draws one bar for each of `bars`: `{ label, kind, median, min, max }`, with a line from the minimum to the maximum of
 * the trials. `kind` is `own`, `peer` or `floor`.
 */
export function barsOf(title, unit, bars) {
  const longest = Math.max(...bars.map(({ median, max }) => Math.max(median, max)));
  const rows = bars.map(({ label, kind, median, min, max }, index) => {
    const y = index * ROW;
    const at = (value) => percent(longest === 0 ? 0 : value / longest);
    const range =
      min === max ? "" : `<line class="range" x1="${at(min)}" x2="${at(max)}" y1="${y + 24}" y2="${y + 24}"/>`;
    return [
      `<text x="0" y="${y + 14}" class="label ${kind}">${escape(label)}</text>`,
      `<text x="100%" y="${y + 14}" text-anchor="end" class="value">${figure(median, unit)}</text>`,
      `<rect class="track" x="0" y="${y + 20}" width="100%" height="8" rx="2"/>`,
      `<rect class="bar ${kind}" x="0" y="${y + 20}" width="${at(median)}" height="8" rx="2"/>${range}`,
    ].join("");
  });
  return [
    `<figure class="bars"><figcaption>${escape(title)}</figcaption>`,
    `<svg width="100%" height="${bars.length * ROW}">`,
    ...rows,
    "</svg></figure>",
  ].join("");
}
