//! A single message of a server: the grammar of RFC 5802, limits, and the text of a refusal.

use super::*;

#[test]
fn nonce_must_continue_ours() {
    for nonce in [
        "",
        "x",
        "rOprNGfwEbeRWgbNEkq",
        NONCE,
        "ROprNGfwEbeRWgbNEkqOxyz",
        "xrOprNGfwEbeRWgbNEkqO",
        "%hvYDpWUa2RaTCAfuxFI",
    ] {
        assert_eq!(
            first(format!("r={nonce},s=c2FsdA==,i=1")),
            Err(ScramError::NonceMismatch),
            "{nonce}"
        );
    }
    for nonce in [
        "rOprNGfwEbeRWgbNEkqO\n",
        "rOprNGfwEbeRWgbNEkqO\u{e9}",
        "rOprNGfwEbeRWgbNEkqO x",
        "rOprNGfwEbeRWgbNEkqO\0",
    ] {
        assert_eq!(
            first(format!("r={nonce},s=c2FsdA==,i=1"))
                .unwrap_err()
                .reason()
                .code,
            "SCRAM_MALFORMED",
            "{nonce}"
        );
    }
    assert!(first(format!("r={NONCE}x,s=c2FsdA==,i=1")).is_ok());
}

#[test]
fn short_client_nonce_never_gets_a_challenge() {
    for nonce in ["", "short", "123456789012345"] {
        let message = format!("r={nonce}abc,s=c2FsdA==,i=1");
        let result = Scram::new(nonce).server_first_message(message.as_bytes(), MAX);
        assert_eq!(result, Err(ScramError::ClientNonceTooShort));
    }
}

#[test]
fn client_nonce_with_a_comma_fails() {
    let nonce = "1234567890123456,i=1";
    let message = format!("r={nonce}abc,s=c2FsdA==,i=1");
    let result = Scram::new(nonce).server_first_message(message.as_bytes(), MAX);
    assert_eq!(result.unwrap_err().reason().code, "SCRAM_MALFORMED");
}

#[test]
fn server_first_message_must_follow_the_grammar() {
    let (r, s, i) = (format!("r={NONCE}xyz"), "s=c2FsdA==", "i=4096");
    let refused = [
        String::new(),
        ",".into(),
        "=".into(),
        "r".into(),
        "r=".into(),
        r.clone(),
        format!("{r},{s}"),
        format!("{r},{i}"),
        format!("{s},{i}"),
        format!("{s},{r},{i}"),
        format!("{r},{i},{s}"),
        format!("{r},{r},{s},{i}"),
        format!("{r},{s},{s},{i}"),
        format!("{r},{s},{i},{i}"),
        format!("{r},{s},{i},{r}"),
        format!("{r},{s},{i},v=AAAA"),
        format!("{r},{s},{i},"),
        format!("{r},{s},{i},x"),
        format!("{r},{s},{i},x="),
        format!("{r},{s},{i},xy=1"),
        format!("{r},{s},{i},1=1"),
        format!("{r},,{s},{i}"),
        format!("{r},x=1,{s},{i}"),
        format!(",{r},{s},{i}"),
        format!(" {r},{s},{i}"),
        format!("R={NONCE}xyz,{s},{i}"),
        format!("r:{NONCE}xyz,{s},{i}"),
        format!("{r},s:c2FsdA==,{i}"),
        format!("{r},{s},i:4096"),
        format!("{r},{s},{i}\0"),
        format!("{r},{s},{i}\n"),
    ];
    for message in refused {
        let code = first(&message).map_err(|error| error.reason().code);
        assert!(
            matches!(code, Err("SCRAM_MALFORMED" | "SCRAM_NONCE_MISMATCH")),
            "{message}: {code:?}"
        );
    }
    assert!(first(format!("{r},{s},{i}")).is_ok());
}

#[test]
fn mandatory_extension_is_refused_wherever_it_stands() {
    for message in [
        format!("m=x,{SERVER_FIRST}"),
        format!("{SERVER_FIRST},m=x"),
        format!("{SERVER_FIRST},x=1,m="),
    ] {
        assert_eq!(first(message), Err(ScramError::MandatoryExtension));
    }
    assert_eq!(
        last(format!("m=x,{SERVER_FINAL}")),
        Err(ScramError::MandatoryExtension)
    );
    assert_eq!(
        last(format!("{SERVER_FINAL},m=x")),
        Err(ScramError::MandatoryExtension)
    );
}

#[test]
fn salt_must_be_base64_and_not_empty() {
    for salt in [
        "",
        "=",
        "====",
        "A",
        "AA",
        "AAA",
        "c2FsdA",
        "c2FsdA=",
        "c2FsdA===",
        "c2Fs-A==",
        "c2Fs dA==",
        "c2FsdB==",
        "\u{e9}",
        "c2FsdA==\0",
    ] {
        let result = first(format!("r={NONCE}xyz,s={salt},i=1"));
        assert_eq!(
            result.unwrap_err().reason().code,
            "SCRAM_MALFORMED",
            "{salt}"
        );
    }
}

#[test]
fn iterations_are_bounded() {
    let iterations = |text: &str| first(format!("r={NONCE}xyz,s=c2FsdA==,i={text}"));
    let out_of_range = |requested| {
        Err(ScramError::IterationsOutOfRange {
            requested,
            max_iterations: MAX,
        })
    };
    assert_eq!(iterations("1"), Ok(1));
    assert_eq!(iterations("100000"), Ok(MAX));
    assert_eq!(iterations("0"), out_of_range(0));
    assert_eq!(iterations("100001"), out_of_range(100_001));
    assert_eq!(iterations("2000000000"), out_of_range(2_000_000_000));
    assert_eq!(iterations("4294967297"), out_of_range(u32::MAX));
    assert_eq!(iterations("18446744073709551617"), out_of_range(u32::MAX));
    assert_eq!(iterations(&"9".repeat(1000)), out_of_range(u32::MAX));
    for text in [
        "", "-1", "+1", " 1", "1 ", "1e3", "0x10", "4096;", "1.5", "\u{661}",
    ] {
        assert_eq!(
            iterations(text).unwrap_err().reason().code,
            "SCRAM_MALFORMED",
            "{text}"
        );
    }
    let nothing_allowed = Scram::new(NONCE).server_first_message(SERVER_FIRST.as_bytes(), 0);
    assert_eq!(
        nothing_allowed,
        Err(ScramError::IterationsOutOfRange {
            requested: 4096,
            max_iterations: 0
        })
    );
}

#[test]
fn long_messages_are_refused() {
    let with_nonce_of =
        |length: usize| first(format!("r={NONCE}{},s=c2FsdA==,i=1", "x".repeat(length)));
    let frame = format!("r={NONCE},s=c2FsdA==,i=1").len();
    assert!(with_nonce_of(MAX_SERVER_MESSAGE - frame).is_ok());
    for length in [MAX_SERVER_MESSAGE - frame + 1, 1 << 24] {
        assert_eq!(
            with_nonce_of(length).unwrap_err().reason().code,
            "SCRAM_MALFORMED"
        );
    }
    assert_eq!(
        last(format!("e={}", "x".repeat(5000)))
            .unwrap_err()
            .reason()
            .code,
        "SCRAM_MALFORMED"
    );
}

#[test]
fn server_errors_are_told_and_made_printable() {
    let error = |value: &str| ScramError::ServerError {
        value: value.into(),
    };
    assert_eq!(last("e=invalid-proof"), Err(error("invalid-proof")));
    assert_eq!(
        last(format!("e=other-error,{SERVER_FINAL}")),
        Err(error("other-error"))
    );
    assert_eq!(first("e=unknown-user"), Err(error("unknown-user")));
    assert_eq!(last("e="), Err(error("")));
    assert_eq!(last(b"e=\x1b[31m\xff\0\n"), Err(error("?[31m???")));
    assert_eq!(last(b"e=a b~\x7f"), Err(error("a b~?")));
    assert_eq!(
        last(format!("e={}", "x".repeat(101))),
        Err(error(&"x".repeat(100)))
    );
}

#[test]
fn messages_name_what_matters() {
    let detail = |result: Result<u32, ScramError>| result.unwrap_err().detail();
    assert_eq!(
        detail(first(format!("r={NONCE}x,s=c2FsdA==,i=2000000000"))),
        "2000000000 iterations"
    );
    assert_eq!(detail(first("e=invalid-proof")), "invalid-proof");
    assert!(detail(first("")).contains("begin with a nonce (r=)"));
    assert_eq!(ScramError::OutOfOrder.detail(), "");
}
