// Parsers of one client, which take precedence over those for all clients.
//
// Knows parsers by OID and format. Must not know values.
import { types, type CustomTypes, type TypeFormat, type TypeParser } from "./types/index.ts";

export class TypeOverrides implements CustomTypes {
  readonly text: Record<number, TypeParser> = {};
  readonly binary: Record<number, TypeParser> = {};
  readonly _types: CustomTypes;

  constructor(userTypes?: CustomTypes) {
    this._types = userTypes ?? types;
  }

  getOverrides(format: string): Record<number, TypeParser> {
    if (format === "text") return this.text;
    return format === "binary" ? this.binary : {};
  }

  setTypeParser(oid: number, parser: TypeParser): void;
  setTypeParser(oid: number, format: TypeFormat, parser: TypeParser): void;
  setTypeParser(oid: number, format: TypeFormat | TypeParser, parser?: TypeParser): void {
    if (typeof format === "function") this.text[oid] = format;
    else this.getOverrides(format)[oid] = parser!;
  }

  getTypeParser(oid: number, format: TypeFormat = "text"): TypeParser {
    return this.getOverrides(format)[oid] ?? this._types.getTypeParser(oid, format);
  }
}
