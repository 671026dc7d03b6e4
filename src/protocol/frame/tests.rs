//! The receive buffer and how it is cut into messages: every split, limits, skipped messages, and the memory it keeps.

use super::*;
use alloc::vec;

fn feed(deframer: &mut Deframer, bytes: &[u8]) {
    deframer.input(bytes.len()).copy_from_slice(bytes);
    deframer.received(bytes.len());
}

#[test]
fn a_message_in_any_split_comes_out_whole() {
    let stream = [
        b'Z', 0, 0, 0, 5, b'I', b'1', 0, 0, 0, 4, b'C', 0, 0, 0, 6, b'A', 0,
    ];
    for size in 1..=stream.len() {
        let mut deframer = Deframer::default();
        let mut seen = vec![];
        for chunk in stream.chunks(size) {
            feed(&mut deframer, chunk);
            let mut frames = deframer.frames(100);
            while let Some(frame) = frames.next_frame().unwrap() {
                seen.push((frame.tag, frame.body.to_vec()));
            }
            let unread = frames.unread();
            deframer.leave(unread, 0);
        }
        assert_eq!(
            seen,
            [(b'Z', vec![b'I']), (b'1', vec![]), (b'C', vec![b'A', 0])],
            "chunks of {size}"
        );
        assert_eq!(deframer.unread(), 0);
    }
}

#[test]
fn a_length_below_four_is_an_error() {
    for length in [3_i32, 0, -1, i32::MIN] {
        let mut deframer = Deframer::default();
        feed(&mut deframer, b"D");
        feed(&mut deframer, &length.to_be_bytes());
        assert_eq!(
            deframer.frames(100).next_frame(),
            Err(FrameError::Length(length))
        );
        assert_eq!(deframer.frames(100).bodies(b'D').next(), None);
    }
}

#[test]
fn an_oversized_message_is_refused_from_its_header() {
    let mut deframer = Deframer::default();
    feed(&mut deframer, &[b'D', 0x70, 0, 0, 0]);
    assert_eq!(
        deframer.frames(1000).next_frame(),
        Err(FrameError::TooLarge {
            tag: b'D',
            length: 0x7000_0000 - 4
        })
    );
    assert!(deframer.buffer.capacity() < 1000);
}

#[test]
fn bodies_end_before_what_is_none() {
    let first = [b'D', 0, 0, 0, 5, 1, b'D', 0, 0, 0, 4];
    for (behind, limit) in [
        (&[][..], 9),
        (b"D\0\0\0", 9),
        (b"D\0\0\0\x05", 9),
        (b"D\0\0\0\x03", 9),
        (b"D\xff\xff\xff\xff", 9),
        (b"C\0\0\0\x04", 9),
        (b"D\0\0\0\x06ab", 1),
    ] {
        let mut deframer = Deframer::default();
        feed(&mut deframer, &[&first, behind].concat());
        let mut frames = deframer.frames(limit);
        let mut bodies = frames.bodies(b'D');
        let seen: Vec<&[u8]> = bodies.by_ref().collect();
        assert_eq!(seen, [&[1][..], &[]]);
        frames.resume(&bodies);
        assert_eq!(frames.unread(), behind.len());
    }
}

#[test]
fn a_message_that_is_skipped_is_not_kept() {
    let (length, behind) = (3 << 20, b"Z\0\0\0\x05I");
    let body = vec![7_u8; length - 4];
    let stream = [
        &b"1\0\0\0\x04D"[..],
        &(length as u32).to_be_bytes(),
        &body,
        behind,
    ]
    .concat();
    for size in [1 << 16, (1 << 16) + 1, stream.len()] {
        let mut deframer = Deframer::default();
        let mut seen = vec![];
        for chunk in stream.chunks(size) {
            feed(&mut deframer, chunk);
            let mut frames = deframer.frames(100);
            while let Some(part) = frames.part() {
                if part.tag == b'D' {
                    assert_eq!(part.length, body.len());
                    frames.skip();
                } else if let Some(frame) = frames.next_frame().unwrap() {
                    seen.push(frame.tag);
                } else {
                    break;
                }
            }
            let (unread, skip) = (frames.unread(), frames.skipping());
            deframer.leave(unread, skip);
        }
        assert_eq!(seen, [b'1', b'Z'], "chunks of {size}");
        assert!(deframer.buffer.capacity() <= 2 * size, "chunks of {size}");
    }
}

#[test]
fn the_buffer_grows_with_what_has_come_and_not_beyond_the_message() {
    let length = 5 << 20;
    let mut deframer = Deframer::default();
    feed(&mut deframer, b"D");
    feed(&mut deframer, &(length as u32 + 4).to_be_bytes());
    let chunk = vec![0; 1 << 16];
    for received in 1..=length / chunk.len() {
        feed(&mut deframer, &chunk);
        let capacity = deframer.buffer.capacity();
        assert!(
            capacity <= 2 * (received + 1) * chunk.len(),
            "{capacity} behind {received} chunks"
        );
        assert!(
            capacity <= length + 2 * chunk.len(),
            "{capacity} behind {received} chunks"
        );
    }
    assert!(deframer.frames(length).next_frame().unwrap().is_some());
}

/// Each chunk ends within a message, so that the buffer is never empty between two chunks.
#[test]
fn what_is_read_makes_room_for_what_comes() {
    let message = b"D\0\0\0\x07abc";
    let stream = message.repeat(10_000);
    let mut deframer = Deframer::default();
    let mut count = 0;
    for chunk in stream.chunks(1001) {
        feed(&mut deframer, chunk);
        let mut frames = deframer.frames(100);
        while let Some(frame) = frames.next_frame().unwrap() {
            assert_eq!(frame.body, b"abc");
            count += 1;
        }
        let unread = frames.unread();
        deframer.leave(unread, 0);
        assert_eq!(unread, deframer.unread());
        assert!(deframer.buffer.capacity() <= 4 * 1001);
    }
    assert_eq!((count, deframer.unread()), (10_000, 0));
}

/// A message that arrives in many pieces is not copied for each of them.
#[test]
fn the_buffer_grows_seldom() {
    let mut deframer = Deframer::default();
    feed(&mut deframer, b"D\0\x50\0\x04");
    let mut capacities = vec![];
    for _ in 0..80 {
        feed(&mut deframer, &[0; 1 << 16]);
        capacities.push(deframer.buffer.capacity());
    }
    capacities.dedup();
    assert!(capacities.len() <= 9, "{capacities:?}");
}

#[test]
fn another_limit_holds_for_the_next_message() {
    let stream = b"Z\0\0\0\x05ID\0\0\0\x07abcD\0\0\0\x07abc";
    let mut deframer = Deframer::default();
    feed(&mut deframer, stream);
    let mut frames = deframer.frames(1);
    assert!(frames.next_frame().unwrap().is_some());
    assert!(frames.next_frame().is_err());
    frames.set_limit(3);
    assert!(frames.next_frame().unwrap().is_some());
    frames.set_limit(2);
    assert!(frames.next_frame().is_err());
}

#[test]
fn no_more_is_received_than_there_was_room_for() {
    let mut deframer = Deframer::default();
    deframer.input(3).copy_from_slice(b"abc");
    deframer.received(100);
    assert_eq!(deframer.unread_bytes(), b"abc");
    assert_eq!(deframer.unread(), 3);
}

#[test]
fn nothing_is_left_of_what_is_cleared() {
    let mut deframer = Deframer::default();
    feed(&mut deframer, b"Z\0\0\0\x05ID\0\0");
    deframer.clear();
    assert_eq!((deframer.unread(), deframer.buffer.capacity()), (0, 0));
}

#[test]
fn room_that_is_not_to_be_had_is_none() {
    let mut deframer = Deframer::default();
    feed(&mut deframer, b"D\0\0");
    assert!(deframer.input(isize::MAX as usize).is_empty());
    assert_eq!(deframer.unread(), 0);
}

#[test]
fn a_huge_message_does_not_keep_its_memory() {
    let mut deframer = Deframer::default();
    let body = vec![0_u8; 4 << 20];
    feed(&mut deframer, b"D");
    feed(&mut deframer, &(body.len() as u32 + 4).to_be_bytes());
    feed(&mut deframer, &body);
    assert!(deframer.frames(8 << 20).next_frame().unwrap().is_some());
    deframer.leave(0, 0);
    assert!(deframer.buffer.capacity() <= KEEP);
}
#[test]
fn what_waits_behind_a_huge_message_stays() {
    let length = 2 * KEEP;
    let mut deframer = Deframer::default();
    feed(&mut deframer, b"D");
    feed(&mut deframer, &(length as u32 + 4).to_be_bytes());
    feed(&mut deframer, &vec![0; length]);
    feed(&mut deframer, b"Z\0\0\0\x05");
    let mut frames = deframer.frames(length);
    assert!(frames.next_frame().unwrap().is_some());
    let unread = frames.unread();
    deframer.leave(unread, 0);
    feed(&mut deframer, b"I");
    let mut frames = deframer.frames(100);
    let frame = frames.next_frame().unwrap();
    assert_eq!(
        frame,
        Some(Frame {
            tag: b'Z',
            body: b"I"
        })
    );
}
