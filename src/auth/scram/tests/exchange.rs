//! Whole exchanges: the example of RFC 7677, values from Python, a server that does not prove itself, steps out of
//! order.

use super::*;
use base64::{Engine, engine::general_purpose::STANDARD};

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
    let message = scram
        .client_final_message(ChannelBinding::Unsupported, &salted)
        .unwrap();
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
        scram.client_first_message(ChannelBinding::Unsupported),
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
        scram.client_first_message(ChannelBinding::Unsupported),
        b"n,,n=,r=rOprNGfwEbeRWgbNEkqO"
    );
    conversation(
        scram,
        SERVER_FIRST,
        "qvT2SWdEH5Q06albL+hjSYuUhCG7VndFyzIb7CK4n9k=",
        &SERVER_FINAL[2..],
    );
}

/// Expected values: Python's hashlib and hmac.
#[test]
fn channel_binding_is_under_the_proof() {
    let hash: Vec<u8> = (0..32).collect();
    let cases = [
        (
            ChannelBinding::of(&[], true),
            "n,,",
            "biws",
            "qvT2SWdEH5Q06albL+hjSYuUhCG7VndFyzIb7CK4n9k=",
            "3HO6Qt1M4MKJrmlKaoOqLAI0/0TV0HZe7J9H3MBtSOg=",
        ),
        (
            ChannelBinding::of(&hash, false),
            "y,,",
            "eSws",
            "VpuC5DGQa5ro9tXE9MnKs69NH1nxnuregZZcclqIGfM=",
            "FOmOj9BpTGwvnzwBtWQjBaPmVxT9I8IeHBOhcIPu3us=",
        ),
        (
            ChannelBinding::of(&hash, true),
            "p=tls-server-end-point,,",
            "cD10bHMtc2VydmVyLWVuZC1wb2ludCwsAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
            "Q8h71kjaoMzNI7dPksDrhRE/5mTUObF0fUHVIgBOWQg=",
            "ykwoqH8mLqO5AQCeuwwf6lsj9f8zyJZT/CcvAbN4Ssc=",
        ),
    ];
    for (binding, header, repeated, proof, signature) in cases {
        let mut scram = Scram::new(NONCE);
        let first = format!("{header}n=,r={NONCE}");
        assert_eq!(scram.client_first_message(binding), first.as_bytes());
        scram
            .server_first_message(SERVER_FIRST.as_bytes(), MAX)
            .unwrap();
        let last = scram.client_final_message(binding, &SALTED).unwrap();
        let expected =
            format!("c={repeated},r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p={proof}");
        assert_eq!(last, expected.as_bytes());
        let signature = format!("v={signature}");
        assert_eq!(scram.server_final_message(signature.as_bytes()), Ok(()));
    }
}

/// Expected values: Python's hashlib and hmac. The signed text is the server's message with its extensions.
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
        "v:3HO6Qt1M4MKJrmlKaoOqLAI0/0TV0HZe7J9H3MBtSOg=",
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

/// Each step in each state: the right one moves on, all others end the exchange.
#[test]
fn steps_out_of_order_end_the_exchange() {
    type Step = fn(&mut Scram) -> Result<(), ScramError>;
    let steps: [Step; 3] = [
        |scram| {
            scram
                .server_first_message(SERVER_FIRST.as_bytes(), MAX)
                .map(|_| ())
        },
        |scram| {
            scram
                .client_final_message(ChannelBinding::Unsupported, &SALTED)
                .map(|_| ())
        },
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
