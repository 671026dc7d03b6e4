//! SCRAM against the exchange of RFC 7677, values from Python, a server's half, and servers that break the rules.

use super::*;
use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use proptest::prelude::*;
use sha2::{Digest, Sha256};
use std::format;

const MAX: u32 = 100_000;
const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
const SERVER_FIRST: &str =
    "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
/// "pencil" under `SERVER_FIRST`.
const SALTED: [u8; 32] = *b"\xc4\xa4\x95\x10\x32\x3a\xb4\xf9\x52\xca\xc1\xfa\x99\x44\x19\x39\
    \xe7\x8e\xa7\x4d\x6b\xe8\x1d\xdf\x70\x96\xe8\x75\x13\xdc\x61\x5d";
const SERVER_FINAL: &str = "v=3HO6Qt1M4MKJrmlKaoOqLAI0/0TV0HZe7J9H3MBtSOg=";

fn first(message: impl AsRef<[u8]>) -> Result<u32, ScramError> {
    let challenge = Scram::new(NONCE).server_first_message(message.as_ref(), MAX);
    challenge.map(|challenge| {
        assert!(!challenge.salt.is_empty());
        challenge.iterations
    })
}

/// The server's signature over this exchange is `SERVER_FINAL`.
fn awaiting_final() -> Scram {
    let mut scram = Scram::new(NONCE);
    scram
        .server_first_message(SERVER_FIRST.as_bytes(), MAX)
        .unwrap();
    scram.client_final_message(&SALTED).unwrap();
    scram
}

fn last(message: impl AsRef<[u8]>) -> Result<(), ScramError> {
    awaiting_final().server_final_message(message.as_ref())
}

fn conversation(mut scram: Scram, server_first: &str, proof: &str, verifier: &str) {
    let challenge = scram
        .server_first_message(server_first.as_bytes(), MAX)
        .unwrap();
    assert_eq!(challenge.salt_base64, b"W22ZaJ0SNY7soEsUEjb6gQ==");
    assert_eq!(
        challenge.salt,
        *b"\x5b\x6d\x99\x68\x9d\x12\x35\x8e\xec\xa0\x4b\x14\x12\x36\xfa\x81"
    );
    assert_eq!(challenge.iterations, 4096);
    let salted = salted_password(b"pencil", &challenge.salt, challenge.iterations);
    assert_eq!(salted, SALTED);
    let message = scram.client_final_message(&salted).unwrap();
    let expected = format!("c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p={proof}");
    assert_eq!(message, expected.as_bytes());
    assert_eq!(
        scram.server_final_message(format!("v={verifier}").as_bytes()),
        Ok(())
    );
    assert_eq!(
        scram.server_final_message(format!("v={verifier}").as_bytes()),
        Err(ScramError::OutOfOrder)
    );
}

#[test]
fn rfc_7677_example() {
    let scram = Scram::with_user_name(b"user", NONCE.as_bytes());
    assert_eq!(
        scram.client_first_message(),
        b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    );
    let proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    conversation(
        scram,
        SERVER_FIRST,
        proof,
        "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    );
}

/// Expected values: Python's hashlib and hmac.
#[test]
fn empty_user_name() {
    let scram = Scram::new(NONCE);
    assert_eq!(
        scram.client_first_message(),
        b"n,,n=,r=rOprNGfwEbeRWgbNEkqO"
    );
    conversation(
        scram,
        SERVER_FIRST,
        "qvT2SWdEH5Q06albL+hjSYuUhCG7VndFyzIb7CK4n9k=",
        &SERVER_FINAL[2..],
    );
}

/// Expected values: Python's hashlib and hmac. The signed text is the server's message with its
/// extensions.
#[test]
fn trailing_extensions_are_ignored_but_signed() {
    let server_first = format!("{SERVER_FIRST},x=later,y=a=b");
    let proof = "Dfma6syHdviYtPxJSGOklplpyIafYrcEMcXVyX++8qc=";
    conversation(
        Scram::new(NONCE),
        &server_first,
        proof,
        "B4gFb+Xt8sDqqHbsWj6lsQKu8qmmMVFb/H7cQ+6Uq5c=",
    );
    assert_eq!(last(format!("{SERVER_FINAL},x=later")), Ok(()));
}

/// RFC 5802 section 5.1: an attribute of the protocol at the end is misplaced, or repeated.
#[test]
fn names_of_the_protocol_are_no_extensions() {
    for name in b'!'..=b'~' {
        let name = char::from(name);
        let result = last(format!("{SERVER_FINAL},{name}=1"));
        if "ancrsipve".contains(name) || !name.is_ascii_alphabetic() {
            assert_eq!(
                result.unwrap_err().reason().code,
                "SCRAM_MALFORMED",
                "{name}"
            );
        } else if name == 'm' {
            assert_eq!(result, Err(ScramError::MandatoryExtension));
        } else {
            assert_eq!(result, Ok(()), "{name}");
        }
    }
}

/// Expected values: Python's hashlib.
#[test]
fn salted_passwords() {
    let hex = |bytes: [u8; 32]| {
        bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    let cases: [(&[u8], u32, &str); 4] = [
        (
            b"password",
            1,
            "120fb6cffcf8b32c43e7225256c4f837a86548c92ccc35480805987cb70be17b",
        ),
        (
            b"password",
            4096,
            "c5e478d59288c841aa530db6845c4c8d962893a001ce4e11a4963873aa98134a",
        ),
        (
            b"",
            1,
            "f135c27993baf98773c5cdb40a5706ce6a345cde61b000a67858650cd6a324d7",
        ),
        (
            &[b'a'; 65],
            2,
            "9f3e73a7a18ef815e92cfde43cccc37df2e505e2e62cad65b1ccd33521fc680d",
        ),
    ];
    for (password, iterations, expected) in cases {
        assert_eq!(
            hex(salted_password(password, b"salt", iterations)),
            expected
        );
    }
}

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
    assert_eq!(
        last(format!("e={}", "x".repeat(101))),
        Err(error(&"x".repeat(100)))
    );
}

#[test]
fn server_signature_is_verified() {
    let mut wrong_bits = STANDARD.decode(&SERVER_FINAL[2..]).unwrap();
    for bit in 0..256 {
        wrong_bits[bit / 8] ^= 1 << (bit % 8);
        let mut scram = awaiting_final();
        assert_eq!(
            scram.server_final_message(format!("v={}", STANDARD.encode(&wrong_bits)).as_bytes()),
            Err(ScramError::ServerSignatureMismatch)
        );
        wrong_bits[bit / 8] ^= 1 << (bit % 8);
    }
    assert_eq!(
        last(format!("v={}", STANDARD.encode([0; 32]))),
        Err(ScramError::ServerSignatureMismatch)
    );
    // The RFC's signature is for the user name "user".
    assert_eq!(
        last("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="),
        Err(ScramError::ServerSignatureMismatch)
    );
    for message in [
        "",
        "v",
        "v=",
        "v=AAAA",
        "v=3HO6Qt1M4MKJrmlKaoOqLAI0/0TV0HZe7J9H3MBtSOg",
        "V=3HO6Qt1M4MKJrmlKaoOqLAI0/0TV0HZe7J9H3MBtSOg=",
        SERVER_FIRST,
    ] {
        assert_eq!(
            last(message).unwrap_err().reason().code,
            "SCRAM_MALFORMED",
            "{message}"
        );
    }
    for tail in [",", ",v=AAAA", ",e=other-error", "\0", "\n"] {
        assert_eq!(
            last(format!("{SERVER_FINAL}{tail}"))
                .unwrap_err()
                .reason()
                .code,
            "SCRAM_MALFORMED",
            "{tail}"
        );
    }
}

/// Each step in each state: the one that fits moves on, all others end the exchange.
#[test]
fn steps_out_of_order_end_the_exchange() {
    type Step = fn(&mut Scram) -> Result<(), ScramError>;
    let steps: [Step; 3] = [
        |scram| {
            scram
                .server_first_message(SERVER_FIRST.as_bytes(), MAX)
                .map(|_| ())
        },
        |scram| scram.client_final_message(&SALTED).map(|_| ()),
        |scram| scram.server_final_message(SERVER_FINAL.as_bytes()),
    ];
    for done in 0..=steps.len() {
        for next in 0..steps.len() {
            let mut scram = Scram::new(NONCE);
            assert!(steps[..done].iter().all(|step| step(&mut scram).is_ok()));
            let result = steps[next](&mut scram);
            if next == done {
                assert_eq!(result, Ok(()));
                continue;
            }
            assert_eq!(result, Err(ScramError::OutOfOrder), "{next} after {done}");
            for step in steps {
                assert_eq!(step(&mut scram), Err(ScramError::OutOfOrder));
            }
        }
    }
}

#[test]
fn after_an_error_the_right_message_comes_too_late() {
    let mut scram = Scram::new(NONCE);
    assert!(scram.server_first_message(b"", MAX).is_err());
    let late = scram.server_first_message(SERVER_FIRST.as_bytes(), MAX);
    assert_eq!(late, Err(ScramError::OutOfOrder));
    let mut scram = awaiting_final();
    assert!(scram.server_final_message(b"v=AAAA").is_err());
    let late = scram.server_final_message(SERVER_FINAL.as_bytes());
    assert_eq!(late, Err(ScramError::OutOfOrder));
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

/// HMAC-SHA-256, straight from the crate; the examples above have their values from elsewhere.
fn sign(key: &[u8; 32], message: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(message);
    mac.finalize().into_bytes().into()
}

/// The server's half, with nothing but the verifier it stores: RFC 5802 section 3.
fn serve(
    stored_key: &[u8; 32],
    server_key: &[u8; 32],
    auth_message: &str,
    proof: &str,
) -> Option<String> {
    let mut client_key: [u8; 32] = STANDARD.decode(proof).unwrap().try_into().unwrap();
    let client_signature = sign(stored_key, auth_message.as_bytes());
    client_key
        .iter_mut()
        .zip(client_signature)
        .for_each(|(byte, mask)| *byte ^= mask);
    let verified = <[u8; 32]>::from(Sha256::digest(client_key)) == *stored_key;
    verified.then(|| {
        format!(
            "v={}",
            STANDARD.encode(sign(server_key, auth_message.as_bytes()))
        )
    })
}

proptest! {
    #[test]
    fn base64_is_padded_and_canonical(bytes: Vec<u8>, text in "[A-Da-d+/=]{0,12}") {
        prop_assert_eq!(decode(STANDARD.encode(&bytes).as_bytes()), Some(bytes));
        prop_assert_eq!(decode(text.as_bytes()), STANDARD.decode(&text).ok());
    }

    /// The proof convinces a server that stores the verifier of the same password, and of no
    /// other.
    #[test]
    fn both_sides_agree(
        password: Vec<u8>,
        other: Vec<u8>,
        salt in prop::collection::vec(any::<u8>(), 1..40),
        client_nonce in "[!-+\\--~]{16,30}",
        server_nonce in "[!-+\\--~]{1,30}",
        iterations in 1u32..4,
    ) {
        let nonce = format!("{client_nonce}{server_nonce}");
        let server_first = format!("r={nonce},s={},i={iterations}", STANDARD.encode(&salt));
        let mut scram = Scram::new(&client_nonce);
        let challenge = scram.server_first_message(server_first.as_bytes(), MAX).unwrap();
        prop_assert_eq!(&challenge.salt, &salt);
        let salted = salted_password(&password, &challenge.salt, challenge.iterations);
        let client_final = String::from_utf8(scram.client_final_message(&salted).unwrap()).unwrap();
        let (without_proof, proof) = client_final.split_once(",p=").unwrap();
        let auth_message = format!("n=,r={client_nonce},{server_first},{without_proof}");

        let verifier = |password: &[u8]| {
            let salted = salted_password(password, &salt, iterations);
            let stored_key = Sha256::digest(sign(&salted, b"Client Key"));
            (stored_key.into(), sign(&salted, b"Server Key"))
        };
        let (stored_key, server_key) = verifier(&password);
        let server_final = serve(&stored_key, &server_key, &auth_message, proof).unwrap();
        prop_assert_eq!(scram.server_final_message(server_final.as_bytes()), Ok(()));
        // HMAC pads short keys with zeros, so that these are one password to it.
        let trimmed = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte != 0).map(|end| bytes[..=end].to_vec());
        if trimmed(&password) != trimmed(&other) {
            let (stored_key, server_key) = verifier(&other);
            prop_assert_eq!(serve(&stored_key, &server_key, &auth_message, proof), None);
        }
    }

    /// No server message panics, and none but the true signature is believed.
    #[test]
    fn arbitrary_bytes(server_first: Vec<u8>, server_final: Vec<u8>) {
        if let Ok(iterations) = first(server_first) {
            prop_assert!((1..=MAX).contains(&iterations));
        }
        if let Err(error) = last(server_final) {
            prop_assert!(!error.reason().message.is_empty());
        } else {
            prop_assert!(false, "believed");
        }
    }

    /// As above, with messages that are nearly right.
    #[test]
    fn nearly_right_messages(
        server_first in "([rsime]=(rOprNGfwEbeRWgbNEkqO)?[a-zA-Z0-9+/=]{0,9},?){0,5}",
        cut in 0..SERVER_FIRST.len(),
        put in prop::collection::vec(any::<u8>(), 0..4),
        server_final in "([vem]=[a-zA-Z0-9+/=]{0,44},?){0,3}",
    ) {
        if let Ok(iterations) = first(server_first) {
            prop_assert!((1..=MAX).contains(&iterations));
        }
        let spliced = [&SERVER_FIRST.as_bytes()[..cut], &put, &SERVER_FIRST.as_bytes()[cut..]].concat();
        if let Ok(iterations) = first(spliced) {
            prop_assert!((1..=MAX).contains(&iterations));
        }
        prop_assert!(last(server_final).is_err());
    }
}
