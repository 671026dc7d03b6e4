//! Any bytes for any type give JSON or an error. The output of single types is tested in their files.

use super::*;
use alloc::string::String;
use alloc::vec::Vec;
use proptest::prelude::*;

/// Types with a binary form of their own. A new one is added here.
#[rustfmt::skip]
const SCALARS: &[u32] = &[
    oid::BOOL, oid::INT2, oid::INT4, oid::INT8, oid::OID, oid::FLOAT4, oid::FLOAT8, oid::NUMERIC, oid::TEXT,
    oid::VARCHAR, oid::BPCHAR, oid::NAME, oid::UNKNOWN, oid::CHAR, oid::BYTEA, oid::UUID, oid::DATE, oid::TIME,
    oid::TIMETZ, oid::TIMESTAMP, oid::TIMESTAMPTZ, oid::INTERVAL, oid::JSON, oid::JSONB, oid::REFCURSOR, oid::CSTRING,
    oid::HSTORE, oid::VECTOR, 27, 28, 29, 600, 601, 602, 603, 604, 628, 650, 718, 774, 829, 869, 1560, 1562, 3220,
];
/// xid8 and jsonpath, which are scalars too, and the types that are made of others.
const OTHERS: &[u32] = &[
    5069, 4072, 2249, 2287, 3904, 3906, 3908, 3910, 3912, 3926, 4451, 4532, 4533, 4534, 4535, 4536,
];

fn arrays() -> impl Iterator<Item = (u32, u32)> + Clone {
    oid::ARRAYS
        .iter()
        .map(|(array, element)| (u32::from(*array), u32::from(*element)))
}

/// The OIDs of all types with a binary form.
fn known() -> impl Iterator<Item = u32> {
    let arrays = arrays().map(|(array, _)| array);
    SCALARS.iter().chain(OTHERS).copied().chain(arrays)
}

fn encoded(
    type_oid: u32,
    format_code: i16,
    strings: AsStrings,
    value: &[u8],
) -> Result<Vec<u8>, InvalidValue> {
    let mut out = Vec::from(*b"before");
    Encoder::new(type_oid, format_code, strings)
        .unwrap()
        .encode(value, &mut out)?;
    assert_eq!(out.drain(..6).as_slice(), b"before");
    Ok(out)
}

/// The JSON of a binary value.
pub(super) fn json(type_oid: u32, value: impl AsRef<[u8]>) -> String {
    String::from_utf8(encoded(type_oid, 1, AsStrings::NONE, value.as_ref()).unwrap()).unwrap()
}

/// The JSON of a binary value for JavaScript objects.
pub(super) fn objects_json(type_oid: u32, value: &[u8]) -> String {
    String::from_utf8(encoded(type_oid, 1, AsStrings::ALL, value).unwrap()).unwrap()
}

/// The JSON of a value in text form.
pub(super) fn text_json(type_oid: u32, value: &str) -> String {
    String::from_utf8(encoded(type_oid, 0, AsStrings::NONE, value.as_bytes()).unwrap()).unwrap()
}

/// Asserts that the bytes are not a binary value of the type.
pub(super) fn refused(type_oid: u32, value: &[u8]) {
    for strings in [AsStrings::NONE, AsStrings::ALL] {
        assert_eq!(
            encoded(type_oid, 1, strings, value).map_err(|error| error.type_oid),
            Err(type_oid),
            "{value:x?}"
        );
    }
}

/// Asserts that the text is not a value of the type.
pub(super) fn text_refused(type_oid: u32, value: &str) {
    assert_eq!(
        encoded(type_oid, 0, AsStrings::NONE, value.as_bytes()).map_err(|error| error.type_oid),
        Err(type_oid),
        "{value}"
    );
}

/// The core searches them by bisection, so a pair out of order hides other types.
#[test]
fn lists_of_types_are_sorted() {
    for list in [oid::ARRAYS, oid::RANGES, oid::MULTIRANGES] {
        let wrong = list.windows(2).find(|pair| !pair.is_sorted());
        assert_eq!(wrong, None, "src/types/oid.rs: these two are not in order");
    }
    let twice = oid::ARRAYS
        .iter()
        .find(|pair| oid::ARRAYS_OF_TEXT.contains(pair));
    assert_eq!(
        twice, None,
        "src/types/oid.rs: ARRAYS_OF_TEXT still has this one"
    );
}

#[test]
fn binary_is_asked_for_where_it_can_be_read() {
    for type_oid in 0..10_000 {
        let known = SCALARS.contains(&type_oid)
            || OTHERS.contains(&type_oid)
            || arrays().any(|(array, _)| array == type_oid);
        assert_eq!(
            has_binary_encoder(type_oid),
            known,
            "type {type_oid}: SCALARS above must list exactly the types with a binary form"
        );
        assert!(
            !known || from_text::forms::of_text_only(type_oid).is_none(),
            "type {type_oid} has a binary form: take it out of `of_text_only`"
        );
        assert_eq!(
            Encoder::new(type_oid, 1, AsStrings::ALL).map(drop),
            if known {
                Ok(())
            } else {
                Err(UnknownBinary { type_oid })
            }
        );
        assert!(Encoder::new(type_oid, 0, AsStrings::NONE).is_ok());
        assert!(Encoder::new(type_oid, 2, AsStrings::NONE).is_err());
    }
}

/// Where times may be floats, Bind asks for the text form. The exceptions are bool, integers and floats, which every
/// server writes alike, and types that contain floats but no times, because the text of a float may lack digits.
#[test]
fn float_times_are_asked_for_as_text() {
    // 20000 contains a float, 20001 a time, 20002 both; 20003 is an array of 20002.
    let types = Types::new(
        &[
            20000, 4, 1, 0, 20001, 4, 1, 1, 20002, 4, 2, 0, 20003, 1, 20002, 0,
        ],
        &[701, 0, 1, 1184, 1, 2],
        "ft",
    );
    let float_times = types.clone().with_float_times(true);
    let fixed = [
        oid::BOOL,
        oid::INT2,
        oid::INT4,
        oid::INT8,
        oid::OID,
        oid::FLOAT4,
        oid::FLOAT8,
    ];
    for type_oid in (0..10_000).chain(20_000..20_004) {
        let is_array_of_floats = [1021, 1022].contains(&type_oid);
        let binary = fixed.contains(&type_oid) || is_array_of_floats || type_oid == 20000;
        assert_eq!(
            float_times.has_binary_encoder(type_oid),
            binary,
            "{type_oid}"
        );
        assert_eq!(
            Encoder::with_types(type_oid, 1, AsStrings::NONE, &float_times).is_ok(),
            binary,
            "{type_oid}"
        );
    }
    let read = |type_oid, text: &str, types: &Types| {
        let mut out = Vec::new();
        let encoder = Encoder::with_types(type_oid, 0, AsStrings::NONE, types).unwrap();
        encoder.encode(text.as_bytes(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let time = "2024-01-02 03:04:05+00";
    let json = "\"2024-01-02T03:04:05+00:00\"";
    assert_eq!(read(1184, time, &float_times), json);
    assert_eq!(
        read(20001, &std::format!("(\"{time}\")"), &float_times),
        std::format!("{{\"t\":{json}}}")
    );
    // Neither form can be trusted, so the value is the server's text.
    let both = std::format!("(0.1,\"{time}\")");
    assert_eq!(
        read(20002, &both, &float_times),
        std::format!("\"(0.1,\\\"{time}\\\")\"")
    );
    assert_eq!(
        read(20002, &both, &types),
        std::format!("{{\"f\":0.1,\"t\":{json}}}")
    );
}

#[test]
fn objects_get_big_numbers_as_strings() {
    assert_eq!(
        objects_json(oid::INT8, &i64::MIN.to_be_bytes()),
        "\"-9223372036854775808\""
    );
    assert_eq!(
        objects_json(oid::NUMERIC, &[0, 1, 0, 0, 0, 0, 0, 1, 0, 5]),
        "\"5.0\""
    );
    assert_eq!(
        objects_json(oid::NUMERIC, &[0, 0, 0, 0, 0xc0, 0, 0, 0]),
        "\"NaN\""
    );
    assert_eq!(objects_json(oid::INT4, &[0, 0, 0, 7]), "7");
    assert_eq!(
        encoded(oid::INT8, 0, AsStrings::ALL, b"7").unwrap(),
        b"\"7\""
    );
    assert_eq!(
        encoded(oid::NUMERIC, 0, AsStrings::ALL, b"Infinity").unwrap(),
        b"\"Infinity\""
    );
}

/// Bytes that get further into a decoder than noise does: small numbers of the usual widths, lengths that fit, known
/// OIDs.
fn plausible() -> impl Strategy<Value = Vec<u8>> {
    let field = prop_oneof![
        (-2..12_i32).prop_map(|number| number.to_be_bytes().to_vec()),
        (-2..12_i16).prop_map(|number| number.to_be_bytes().to_vec()),
        prop::sample::select(SCALARS).prop_map(|oid| oid.to_be_bytes().to_vec()),
        any::<i64>().prop_map(|number| number.to_be_bytes().to_vec()),
        "[ -~]{0,20}".prop_map(String::into_bytes),
        any::<String>().prop_map(String::into_bytes),
    ];
    prop::collection::vec(field, 0..12).prop_map(|fields| fields.concat())
}

/// Returns an array of the element type with these elements.
fn array_of(element_oid: u32, elements: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes: Vec<u8> = [1, 0, element_oid, elements.len() as u32, 1]
        .iter()
        .flat_map(|field| field.to_be_bytes())
        .collect();
    for element in elements {
        bytes.extend((element.len() as u32).to_be_bytes());
        bytes.extend(element);
    }
    bytes
}

/// Returns whether the output is JSON, or need not be: a json value is only as good as what the server sent.
fn checks_out(type_oid: u32, output: &[u8]) -> bool {
    // A record may contain json too.
    let raw = [
        oid::JSON,
        oid::JSONB,
        oid::JSON_ARRAY,
        oid::JSONB_ARRAY,
        2249,
        2287,
    ];
    raw.contains(&type_oid)
        || str::from_utf8(output).is_err()
        || serde_json::from_slice::<serde::de::IgnoredAny>(output).is_ok()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_bytes_give_json_or_an_error(noise: Vec<u8>, plausible in plausible(), length in 0..20_usize) {
        let cut = noise.get(..length).unwrap_or(&noise);
        for value in [&noise[..], cut, &plausible] {
            for type_oid in known().chain([999_999]) {
                for strings in [AsStrings::NONE, AsStrings::ALL] {
                    for format_code in [0, 1] {
                        if format_code == 1 && !has_binary_encoder(type_oid) {
                            continue;
                        }
                        if let Ok(output) = encoded(type_oid, format_code, strings, value) {
                            prop_assert!(checks_out(type_oid, &output), "{type_oid} {value:x?}");
                        }
                    }
                }
            }
        }
    }

    /// Every element is written as it is alone, and one invalid element makes the array invalid.
    #[test]
    fn an_array_is_its_elements(
        elements in prop::collection::vec(prop_oneof![plausible(), prop::collection::vec(any::<u8>(), 0..17)], 1..6)
    ) {
        for (array_oid, element_oid) in arrays() {
            for strings in [AsStrings::NONE, AsStrings::ALL] {
                let alone = elements.iter().map(|element| encoded(element_oid, 1, strings, element));
                let alone: Result<Vec<_>, _> = alone.collect();
                let together = encoded(array_oid, 1, strings, &array_of(element_oid, &elements));
                match alone {
                    Ok(alone) => prop_assert_eq!(together.unwrap(), [b"[", &alone.join(&b","[..])[..], b"]"].concat()),
                    Err(error) if error.is_unknown_type() => prop_assert_eq!(together, Err(error)),
                    Err(error) => prop_assert_eq!(together, Err(InvalidValue { type_oid: array_oid, ..error })),
                }
            }
        }
    }
}
