/** The parts of the package, as JSON of CycloneDX 1.6. */
export function sbom(): string;
