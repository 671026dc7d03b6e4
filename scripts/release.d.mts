/** Returns the reasons why this tag cannot be released. An empty list means that it can. */
export function objections(tag: string, state: { manifests: Record<string, string>; changelog: string }): string[];
/** Returns the section of CHANGELOG.md under `## 0.1.0`. */
export function sectionOf(changelog: string, version: string): string | undefined;
