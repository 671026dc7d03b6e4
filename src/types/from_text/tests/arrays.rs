//! Arrays and vectors.

use super::{all_refused, types};
use crate::types::tests::{text_json, text_refused};
use crate::types::{AsStrings, Encoder, oid};
use alloc::vec::Vec;

#[test]
fn arrays() {
    for (type_oid, text, expected) in [
        (oid::INT4_ARRAY, "{}", "[]"),
        (oid::INT4_ARRAY, "{1,NULL,-3}", "[1,null,-3]"),
        (oid::INT4_ARRAY, "{{1,2},{3,4}}", "[[1,2],[3,4]]"),
        (oid::INT4_ARRAY, "[2:3]={7,8}", "[7,8]"),
        (oid::INT4_ARRAY, "[-3:-2][0:0]={{7},{8}}", "[[7],[8]]"),
        (oid::INT4_ARRAY, "{{{{{{1},{2}}}}}}", "[[[[[[1],[2]]]]]]"),
        (
            oid::TEXT_ARRAY,
            "{\"\",\"NULL\",NULL,\"null\",\"a,b\",\"{}\",\"q\\\"\",\"\\\\\",\"}\",ünï}",
            "[\"\",\"NULL\",null,\"null\",\"a,b\",\"{}\",\"q\\\"\",\"\\\\\",\"}\",\"ünï\"]",
        ),
        (oid::BOOL_ARRAY, "{t,f}", "[true,false]"),
        (
            oid::BYTEA_ARRAY,
            "{\"\\\\x00ff\",\"a\\\\\\\\\\\\000\"}",
            "[\"\\\\x00ff\",\"\\\\x615c00\"]",
        ),
        (
            oid::FLOAT8_ARRAY,
            "{-0,NaN,-Infinity,1e+20}",
            "[-0,\"NaN\",\"-Infinity\",1e+20]",
        ),
        (oid::JSONB_ARRAY, "{\"{\\\"a\\\": 1}\"}", "[{\"a\": 1}]"),
        (1020, "{(3,4),(1,2);NULL}", "[\"(3,4),(1,2)\",null]"),
        (oid::INT2VECTOR, "1 -2 3", "[1,-2,3]"),
        (oid::OIDVECTOR, "", "[]"),
        (1006, "{\"1 2\",\"\"}", "[[1,2],[]]"),
    ] {
        assert_eq!(text_json(type_oid, text), expected);
    }
    all_refused(
        oid::INT4_ARRAY,
        &[
            "",
            "1",
            "{",
            "}",
            "{1",
            "{1}}",
            "{1} ",
            "{1,}",
            "{,}",
            "{1,{2}}",
            "{{1},2}",
            "{{},{}}",
            "{{1}{2}}",
            "{1;2}",
            "{a}",
            "{\"1}",
            "{1\\",
            "[1:2]",
            "[1:1]{1}",
            "{1, 2}",
            "{ 1}",
            "{null}",
            "{Null}",
            "{1\"2\"}",
            "{\"1\"2}",
            "{\"1\"\"2\"}",
            "{\"\\1\"}",
            "{\\1}",
            "{1\n}",
            "{2147483648}",
            "{1}{2}",
            "{{1}",
            "{{{{{{{1}}}}}}}",
            "1 2",
        ],
    );
    text_refused(oid::INT4_ARRAY, &"{".repeat(100_000));
    text_refused(oid::TEXT_ARRAY, "{\"\\a\"}");
    // As texts these would be quoted.
    all_refused(
        oid::TEXT_ARRAY,
        &["{a;b}}", "{,}", "{a,}", "{,a}", "{null}", "{a,Null}"],
    );
    text_refused(1020, "{(3,4),(1,2),(3,4),(1,2)}");
}

#[test]
fn json_in_an_array_is_text_where_the_caller_says_so() {
    let strings = AsStrings {
        json: true,
        ..AsStrings::NONE
    };
    for (type_oid, text, expected) in [
        (
            oid::JSON_ARRAY,
            "{\"{\\\"a\\\":\n1}\",NULL}",
            "[\"{\\\"a\\\":\\n1}\",null]",
        ),
        (20013, "(1)", "{\"i\":1}"),
    ] {
        let mut out = Vec::new();
        let encoder = Encoder::with_types(type_oid, 0, strings, &types()).unwrap();
        encoder.encode(text.as_bytes(), &mut out).unwrap();
        assert_eq!(str::from_utf8(&out), Ok(expected));
    }
}

#[test]
fn rows_of_a_level_have_one_length() {
    for (text, expected) in [
        ("{{1,2,3}}", "[[1,2,3]]"),
        ("{{{1},{2}},{{3},{4}}}", "[[[1],[2]],[[3],[4]]]"),
        ("{{NULL,2},{3,NULL}}", "[[null,2],[3,null]]"),
    ] {
        assert_eq!(text_json(oid::INT4_ARRAY, text), expected);
    }
    all_refused(
        oid::INT4_ARRAY,
        &[
            "{{1,2},{3}}",
            "{{1},{2,3}}",
            "{{1,2},{3,4},{5}}",
            "{{{1},{2}},{{3}}}",
            "{{{1,2}},{{3},{4}}}",
            "{{{1}},{{2,3}}}",
            "{{1},{{2}}}",
            "{{{1}},{2}}",
            "{{1},2}",
            "{{}}",
            "{{1},{}}",
        ],
    );
}

#[test]
fn bounds_say_how_many_there_are() {
    for (text, expected) in [
        ("[0:0]={7}", "[7]"),
        ("[-2147483648:-2147483647]={7,8}", "[7,8]"),
        ("[2147483646:2147483647]={7,8}", "[7,8]"),
        ("[1:2][0:2]={{1,2,3},{4,5,6}}", "[[1,2,3],[4,5,6]]"),
        (
            "[2:2][1:1][1:1][1:1][1:1][1:2]={{{{{{1,2}}}}}}",
            "[[[[[[1,2]]]]]]",
        ),
    ] {
        assert_eq!(text_json(oid::INT4_ARRAY, text), expected);
    }
    all_refused(
        oid::INT4_ARRAY,
        &[
            // The wrong number of elements, or of dimensions.
            "[2:3]={1}",
            "[2:3]={1,2,3}",
            "[2:3][0:1]={1,2}",
            "[2:3]={{1},{2}}",
            "[2:3][0:1]={{1},{2}}",
            "[2:3][0:1]={{1,2}}",
            "[2:2][1:1][1:1][1:1][1:1][1:1][1:1]={{{{{{1}}}}}}",
            // The server writes no bounds if all lower ones are 1.
            "[1:2]={1,2}",
            "[1:1][1:2]={{1,2}}",
            // Not bounds.
            "[2:3]={}",
            "[0:0]={}",
            "[3:2]={1}",
            "[3:1]={}",
            "[2:3]{1,2}",
            "[2:3]==1,2}",
            "[2:3",
            "[2]={1}",
            "[:3]={1}",
            "[2:]={1}",
            "[]={1}",
            "[a:b]={1}",
            "[2,3]={1,2}",
            "[2:3] ={1,2}",
            "[02:3]={1,2}",
            "[+2:3]={1,2}",
            "[-0:1]={1,2}",
            "[-2147483649:-2147483648]={1,2}",
            "[2147483647:2147483648]={1,2}",
            "[-9223372036854775808:9223372036854775807]={1}",
            "[18446744073709551616:18446744073709551617]={1,2}",
        ],
    );
}

/// int2vector and int2[] do not look alike in text.
#[test]
fn vectors_are_no_arrays() {
    assert_eq!(text_json(oid::OIDVECTOR, "0 4294967295"), "[0,4294967295]");
    assert_eq!(text_json(oid::INT2_ARRAY, "{1,2}"), "[1,2]");
    for type_oid in [oid::INT2VECTOR, oid::OIDVECTOR] {
        all_refused(
            type_oid,
            &[
                "1  2",
                " 1",
                "1 ",
                "a",
                "{1,2}",
                "{}",
                "[0:1]={1,2}",
                "1,2",
                "1 NULL",
            ],
        );
    }
    all_refused(oid::INT2VECTOR, &["32768", "1 99999"]);
    all_refused(oid::OIDVECTOR, &["-1", "4294967296"]);
    all_refused(oid::INT2_ARRAY, &["1 2", "1", ""]);
    all_refused(oid::OID_ARRAY, &["1 2", "1", ""]);
}
