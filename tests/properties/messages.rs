//! Frames and messages: the result does not depend on how a stream is cut, and any bytes are a message or refused.

use crate::sessions::MESSAGES;
use crate::{cases, cut_at, cuts};
use pgz_edge::protocol::backend::BackendMessage;
use pgz_edge::protocol::frame::{Deframer, Frame, FrameError};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

type Framed = (Vec<(u8, Vec<u8>)>, Option<FrameError>);

/// Splits chunks into messages. With `bodies`, the bodies of `D` are taken as rows are.
fn deframe<'a>(chunks: impl Iterator<Item = &'a [u8]>, bodies: bool) -> Framed {
    let mut deframer = Deframer::default();
    let mut seen = vec![];
    for chunk in chunks {
        deframer.input(chunk.len()).copy_from_slice(chunk);
        deframer.received(chunk.len());
        let mut frames = deframer.frames(300);
        loop {
            match frames.next_frame() {
                Ok(Some(Frame { tag, body })) => seen.push((tag, body.to_vec())),
                Ok(None) => break,
                Err(error) => return (seen, Some(error)),
            }
            if bodies {
                let mut bodies = frames.bodies(b'D');
                seen.extend(bodies.by_ref().map(|body| (b'D', body.to_vec())));
                frames.resume(&bodies);
            }
        }
        let unread = frames.unread();
        deframer.leave(unread, 0);
    }
    (seen, None)
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    let message = (
        prop_oneof![any::<u8>(), Just(b'D')],
        vec(any::<u8>(), 0..350),
    )
        .prop_map(|(tag, body)| {
            let length = (body.len() as u32 + 4).to_be_bytes();
            [&[tag][..], &length, &body].concat()
        });
    prop_oneof![
        vec(message, 0..8).prop_map(|messages| messages.concat()),
        vec(any::<u8>(), 0..100)
    ]
}

proptest! {
    #![proptest_config(cases(10_000))]

    /// A byte stream gives the same messages and the same error however it is cut.
    #[test]
    fn framing_does_not_depend_on_the_chunks(stream in stream(), sizes in cuts()) {
        let cuts = cut_at(&sizes, stream.len());
        let ends: Vec<usize> = (1..=stream.len()).filter(|end| cuts[*end] || *end == stream.len()).collect();
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let pieces = starts.zip(&ends).map(|(start, end)| &stream[start..*end]);
        let whole = deframe(std::iter::once(&stream[..]), false);
        prop_assert_eq!(deframe(pieces.clone(), false), whole.clone());
        prop_assert_eq!(deframe(pieces, true), whole);
    }
}

/// Reads every part of a message.
fn look_at(tag: u8, body: &[u8]) -> bool {
    let Ok(message) = BackendMessage::parse(Frame { tag, body }) else {
        return false;
    };
    match message {
        BackendMessage::ErrorResponse { fields } | BackendMessage::NoticeResponse { fields } => {
            assert!(fields.iter().count() <= body.len());
            assert_eq!(
                fields.get(b'C').is_some(),
                fields.iter().any(|(name, _)| name == "code")
            );
        }
        BackendMessage::RowDescription { columns } => {
            assert_eq!(
                columns.iter().count(),
                usize::from(u16::from_be_bytes([body[0], body[1]]))
            );
        }
        BackendMessage::ParameterDescription { parameters } => {
            assert_eq!(
                parameters.iter().count(),
                usize::from(u16::from_be_bytes([body[0], body[1]]))
            );
        }
        BackendMessage::BackendKeyData { secret_key, .. } => assert!(secret_key.len() <= 256),
        _ => {}
    }
    true
}

proptest! {
    #![proptest_config(cases(30_000))]

    /// Every decoder is total: any body is a message whose parts can all be read, or a typed error.
    #[test]
    fn decoders_are_total(tag in select(b"123ACDEGHIKNRSTWZcdnstv".to_vec()), body in vec(any::<u8>(), 0..80)) {
        look_at(tag, &body);
    }

    /// A real server's message is decoded; with one byte changed, removed or inserted, it is decoded or refused.
    #[test]
    fn spoiled_messages_are_refused_or_decoded(
        at in any::<Index>(), place in any::<Index>(), byte in any::<u8>(), how in 0..4,
    ) {
        let mut message = MESSAGES[at.index(MESSAGES.len())].clone();
        if message.len() < 6 {
            return Ok(());
        }
        let place = 5 + place.index(message.len() - 5);
        match how {
            0 => message[place] = byte,
            1 => message.truncate(place),
            2 => message.insert(place, byte),
            _ => message.push(byte),
        }
        look_at(message[0], &message[5..]);
    }
}
