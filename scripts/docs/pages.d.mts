/** The address of the repository, for links to files that are not pages. */
export const REPOSITORY: string;
export const root: string;
/** The path below which the site is served. */
export const base: string;
export const made: string[];
/** A file of the repository -> its page. */
export function sources(): Map<string, string>;
export function navigation(): { text: string; items: { text: string; link: string }[] }[];
/** Returns the pages that the navigation does not lead to. */
export function unlisted(): string[];
