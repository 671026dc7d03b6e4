//! Any password and any bytes: the server side agrees with ours, and no other message is accepted.

use super::*;
use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use proptest::prelude::*;
use sha2::{Digest, Sha256};

/// HMAC-SHA-256, directly from the crate; the values of the other tests come from elsewhere.
fn sign(key: &[u8; 32], message: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(message);
    mac.finalize().into_bytes().into()
}

/// The server side, which knows only the verifier it stores: RFC 5802 section 3.
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

    /// The proof convinces a server that stores the verifier of the same password, and no other server.
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
        let client_final = String::from_utf8(scram.client_final_message(ChannelBinding::Unsupported, &salted).unwrap()).unwrap();
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
        // HMAC pads short keys with zeros, so these are the same password to it.
        let trimmed = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte != 0).map(|end| bytes[..=end].to_vec());
        if trimmed(&password) != trimmed(&other) {
            let (stored_key, server_key) = verifier(&other);
            prop_assert_eq!(serve(&stored_key, &server_key, &auth_message, proof), None);
        }
    }

    /// No server message causes a panic, and only the true signature is accepted.
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

    /// The same, with messages that are nearly right.
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
