/** What the package is made of: JSON of CycloneDX 1.6. */
export function sbom(): string;
