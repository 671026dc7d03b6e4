//! SCRAM against any server: only a server that knows the password's verifier is accepted, whatever it sends and
//! however often it is asked.

use crate::cases;
use pgz_edge::auth::scram::{ChannelBinding, Scram, salted_password};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
/// A small number, so that many exchanges fit into the time.
const ITERATIONS: u32 = 2;

/// A message of an honest server, corrupted at random or made of pieces of such messages.
fn message(honest: &'static str) -> impl Strategy<Value = Vec<u8>> {
    let pieces = "r= s= i= v= e= m= , = QSXCR+Q6sek8bQ== 2 4096 -1 99999999999 x=y \0 other-error";
    let piece = select(pieces.split(' ').chain([NONCE]).collect::<Vec<_>>());
    let spoilt =
        (vec((any::<prop::sample::Index>(), any::<u8>(), 0..3), 0..3)).prop_map(move |edits| {
            let mut bytes = honest.as_bytes().to_vec();
            for (at, byte, how) in edits {
                let at = at.index(bytes.len().max(1));
                match how {
                    0 if at < bytes.len() => bytes[at] = byte,
                    1 => bytes.truncate(at),
                    _ => bytes.insert(at.min(bytes.len()), byte),
                }
            }
            bytes
        });
    prop_oneof![
        3 => spoilt,
        2 => vec(piece, 0..9).prop_map(|pieces| pieces.concat().into_bytes()),
        1 => vec(any::<u8>(), 0..60),
        1 => (0..3000_usize).prop_map(|length| [b"r=rOprNGfwEbeRWgbNEkqO".to_vec(), vec![b'A'; length]].concat()),
    ]
}

const FIRST: &str = "r=rOprNGfwEbeRWgbNEkqOtheirs,s=QSXCR+Q6sek8bQ==,i=2";
const FINAL: &str = "v=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

proptest! {
    #![proptest_config(cases(20_000))]

    /// A server that does not know the verifier is never accepted; its iterations are within the limits; and after an
    /// error none of its messages counts.
    #[test]
    fn no_server_is_believed_that_does_not_know_the_password(
        first in message(FIRST), lasts in vec(message(FINAL), 1..4),
    ) {
        let mut scram = Scram::new(NONCE);
        match scram.server_first_message(&first, ITERATIONS) {
            Ok(challenge) => {
                prop_assert!((1..=ITERATIONS).contains(&challenge.iterations));
                prop_assert!(!challenge.salt.is_empty() && challenge.salt.len() <= first.len());
                let salted = salted_password(b"a password that the server lacks", &challenge.salt, challenge.iterations);
                let answer = scram.client_final_message(ChannelBinding::Unsupported, &salted).unwrap();
                // The response contains a part of the server's message, and no more bytes than arrived.
                prop_assert!(answer.len() <= first.len() + 100);
                prop_assert!(answer.starts_with(b"c=biws,r=rOprNGfwEbeRWgbNEkqO"));
            }
            Err(_) => prop_assert!(scram.client_final_message(ChannelBinding::Unsupported, &[0; 32]).is_err()),
        }
        for last in lasts {
            prop_assert!(scram.server_final_message(&last).is_err());
            prop_assert!(scram.server_first_message(FIRST.as_bytes(), ITERATIONS).is_err());
        }
    }
}
