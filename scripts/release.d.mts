/** Why this tag cannot be released; none: it can. */
export function objections(tag: string, state: { manifests: Record<string, string>; changelog: string }): string[];
/** What CHANGELOG.md has under `## 0.1.0`. */
export function sectionOf(changelog: string, version: string): string | undefined;
