// The picture of the stream: README's drawing as HTML. Names, labels and the two ends of the arrow back are read from
// the drawing, so that the two cannot differ. Must not know how the picture looks (.vitepress/theme/style.css).

/** README's drawing has a line of stations with arrows between them, a line of `^` and `│`, and the arrow back. */
export function pictureOf(drawing) {
  const [line, ends, back] = drawing.split("\n");
  const parts = [...line.matchAll(/(?<station>[\w ]*\w)|──(?:(?<label>[^─>]+)──)?>/g)];
  const column = (mark) => parts.findIndex(({ 0: text, index }) => within(ends.indexOf(mark), index, text.length)) + 1;
  const [to, from] = [column("^"), column("│")];
  const [, why] = /└─+ (.*) <─+┘/.exec(back) ?? [];
  if (parts.length < 3 || parts.length % 2 === 0 || to === 0 || from <= to || why === undefined)
    throw new Error(`this is no drawing of the stream:\n${drawing}`);
  const cells = parts.map(({ groups: { station, label = "" } }) =>
    station === undefined ? `<span class="flow">${label.trim()}</span>` : `<b>${station.trim()}</b>`,
  );
  const columns = `repeat(${(parts.length - 1) / 2}, auto minmax(0, 1fr)) auto`;
  return [
    `<figure class="stream" style="--columns: ${columns}">`,
    ...cells,
    `<span class="back" style="--from: ${to}; --to: ${from + 1}">${why}</span>`,
    "</figure>",
  ].join("");
}

const within = (position, from, length) => position >= from && position < from + length;
