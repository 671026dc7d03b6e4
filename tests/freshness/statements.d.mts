export declare const TIMES: { readonly settle: number; readonly maxFill: number; readonly maxLag: number };
export declare const SLOT: string;
export declare const PUBLICATION: string;
export declare const TABLES: readonly string[];
/** Of the partitioned table `whole`: each holds one row. */
export declare const LEAVES: readonly string[];
export declare const TENANTS: readonly number[];
export declare const PATHS: readonly string[];

export interface Statement {
  readonly text: string;
  readonly values?: readonly number[];
  /** Seconds. */
  readonly maxAge: number;
  /** Its rows are the tenant's. */
  readonly tenant?: number;
}
export declare function statementOf(path: string): Statement;
