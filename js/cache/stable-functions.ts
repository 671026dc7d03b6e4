// Functions of pg_catalog about which the catalog says too little, by their OIDs, which PostgreSQL's source fixes.
//
// A stable function may read what changes without a commit: the clock, statistics, the catalog. Those of STABLE do not:
// they depend on their arguments and on settings of the session alone (TimeZone, DateStyle, lc_numeric,
// default_text_search_config …), or on what only DDL changes (labels of an enum). Any other stable function is a
// reason. Not here, although they look alike: age(timestamp) subtracts from today; timetz(time) and timezone(text,
// timetz) take the zone's offset of today, and so do jsonb_path_query_tz and its kin; format_type, pg_get_*,
// has_*_privilege and obj_description read the catalog.
//
// Knows names, for people and for the test that compares them with each server. Must not know trees.

/** Reads `name oid oid … name oid …`. */
function named(text: string): ReadonlyMap<number, string> {
  const found = new Map<number, string>();
  let name = "";
  for (const word of text.trim().split(/\s+/))
    if (/^\d/.test(word)) found.set(Number(word), name);
    else name = word;
  return found;
}

export const STABLE: ReadonlyMap<number, string> = new Map([
  // Times
  ...named(`
    date_cmp_timestamptz 2357  date_eq_timestamptz 2353  date_ge_timestamptz 2355  date_gt_timestamptz 2354
    date_le_timestamptz 2352  date_lt_timestamptz 2351  date_ne_timestamptz 2356  timestamp_cmp_timestamptz 2526
    timestamp_eq_timestamptz 2522  timestamp_ge_timestamptz 2524  timestamp_gt_timestamptz 2523
    timestamp_le_timestamptz 2521  timestamp_lt_timestamptz 2520  timestamp_ne_timestamptz 2525
    timestamptz_cmp_date 2383  timestamptz_cmp_timestamp 2533  timestamptz_eq_date 2379
    timestamptz_eq_timestamp 2529  timestamptz_ge_date 2381  timestamptz_ge_timestamp 2531  timestamptz_gt_date 2380
    timestamptz_gt_timestamp 2530  timestamptz_le_date 2378  timestamptz_le_timestamp 2528  timestamptz_lt_date 2377
    timestamptz_lt_timestamp 2527  timestamptz_ne_date 2382  timestamptz_ne_timestamp 2532
    date 1178  date_add 6221  date_part 1171  date_subtract 6223  date_trunc 1217 1284  extract 6203
    generate_series 939  in_range 4135  interval_pl_timestamptz 2549  make_timestamptz 3462 3463
    overlaps 1305 1306 1307  time 2019  timestamp 2027  timestamptz 1174 1176 2028  timestamptz_mi_interval 1190
    timestamptz_pl_interval 1189  timetz 1388  timezone 6334 6335  to_char 1768 1770 1772 1773 1774 1775 1776 2049
    to_date 1780  to_number 1777  to_timestamp 1778`),
  // Texts
  ...named(`
    anytextcat 2004  array_to_string 384 395  concat 3058  concat_ws 3059  format 3539 3540  quote_literal 1285
    quote_nullable 1290  textanycat 2003`),
  // JSON
  ...named(`
    array_to_json 3153 3154  json_agg 3175  json_agg_strict 6276  json_agg_strict_transfn 6275
    json_agg_transfn 3173  json_build_array 3198 3199  json_build_object 3200 3201  json_object_agg 3197
    json_object_agg_strict 6280  json_object_agg_strict_transfn 6277  json_object_agg_transfn 3180
    json_object_agg_unique 6281  json_object_agg_unique_strict 6282  json_object_agg_unique_strict_transfn 6279
    json_object_agg_unique_transfn 6278  json_to_tsvector 4215  jsonb_agg 3267  jsonb_agg_finalfn 3266
    jsonb_agg_strict 6284  jsonb_agg_strict_transfn 6283  jsonb_agg_transfn 3265  jsonb_build_array 3271 3272
    jsonb_build_object 3273 3274  jsonb_object_agg_finalfn 3269  jsonb_object_agg_strict_transfn 6285
    jsonb_object_agg_transfn 3268  jsonb_object_agg_unique_strict_transfn 6287  jsonb_object_agg_unique_transfn 6286
    jsonb_to_tsvector 4213  row_to_json 3155 3156
    to_json 3176  to_jsonb 3787`),
  // Text search, by the setting default_text_search_config
  ...named(`
    phraseto_tsquery 5001  plainto_tsquery 3751  to_tsquery 3750  to_tsvector 3749 4209 4210
    ts_headline 3754 3755 4203 4204 4207 4208  ts_match_tq 3761  ts_match_tt 3760  websearch_to_tsquery 5009`),
  // Others
  ...named(`
    convert_from 1714  convert_to 1717  convert 1813  current_database 861  enum_first 3528  enum_last 3529
    enum_range 3530 3531  getdatabaseencoding 1039  length 1713  money 3811 3812 3824  numeric 3823
    pg_char_to_encoding 1264  pg_client_encoding 810  pg_encoding_to_char 1597  xml_is_well_formed 3051  xml 2896`),
]);

/**
 * They make values of any types from texts in JSON. Where one of the types is of dates or times, the JSON may say
 * `now`.
 */
export const JSON_TO_ROWS: ReadonlyMap<number, string> = named(`
    json_populate_record 3960  json_populate_recordset 3961  json_to_record 3204  json_to_recordset 3205
    jsonb_populate_record 3209  jsonb_populate_recordset 3475  jsonb_to_record 3490  jsonb_to_recordset 3491
    jsonb_populate_record_valid 6338`);

/** Their first argument names a configuration or a dictionary of text search, which only DDL changes. */
export const TEXT_SEARCH: ReadonlyMap<number, string> = named(`
    json_to_tsvector 4216  jsonb_to_tsvector 4214  phraseto_tsquery 5006  plainto_tsquery 3747  to_tsquery 3746
    to_tsvector 3745 4211 4212  ts_headline 3743 3744 4201 4202 4205 4206  ts_lexize 3723  websearch_to_tsquery 5007`);

/** They say who asks, or how. */
export const PERSONAL: ReadonlyMap<number, string> = named(`
    current_user 745  session_user 746  getpgusername 710  system_user 6311  current_schema 1402  current_schemas 1403
    current_setting 2077 3294`);
