// Headings with one block of code each, in a page between `<!-- tabs -->` and `<!-- /tabs -->`, become tabs of the
// site. In the repository and in the package they are headings, so the page reads well there too.
const PART = /<!-- tabs -->\n([^]*?)<!-- \/tabs -->/g;
const TAB = /\s*### (.+)\n\n```(\S+)[^\n]*\n([^]*?)```\s*/y;

/** Throws if anything else stands between the marks, or if one is missing. */
export function withTabs(page, text) {
  const result = text.replaceAll(PART, (_, part) => {
    const tabs = [];
    for (let at = 0; at < part.length; at = TAB.lastIndex) {
      TAB.lastIndex = at;
      const found = TAB.exec(part);
      if (!found) throw new Error(`${page}: between the marks of tabs stand headings with one block of code each`);
      const [, title, language, code] = found;
      tabs.push(`\`\`\`${language} [${title}]\n${code}\`\`\``);
    }
    return `::: code-group\n\n${tabs.join("\n\n")}\n\n:::`;
  });
  if (/<!-- \/?tabs -->/.test(result)) throw new Error(`${page}: a mark of tabs stands alone`);
  return result;
}
