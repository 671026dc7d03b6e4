//! Exact lengths, padding, bytes that are dropped again, and bytes that find no memory.

use super::*;
use alloc::vec::Vec;

#[test]
fn every_length_is_written_exactly() {
    let bytes: Vec<u8> = (0..3000_u32).map(|i| i as u8 | 1).collect();
    for length in (0..300).chain([1000, 2999]) {
        for (before, behind) in [(0, 0), (1, 7), (5, 16), (250, 100)] {
            let readable = &bytes[..(length + behind).min(bytes.len())];
            let mut out = Output::default();
            out.write(|out| {
                out.put_slice(&bytes[..before]);
                out.put_slice(&bytes[..length]);
                out.put_within(readable, length);
                out.put(b"!");
            });
            assert_eq!(
                out.as_slice(),
                [&bytes[..before], &bytes[..length], &bytes[..length], b"!"].concat()
            );
        }
    }
}

#[test]
fn padding_is_zeros() {
    for length in 0..BLOCK {
        let block = padded(&[7; BLOCK][..length]);
        assert!(
            block
                .iter()
                .enumerate()
                .all(|(i, &byte)| byte == if i < length { 7 } else { 0 })
        );
    }
}

#[test]
fn a_vec_and_an_output_hold_the_same() {
    let mut vec = Vec::from(*b"before");
    let mut output = Output::default();
    output.write(|out| out.put(b"before"));
    for length in 0..600 {
        let bytes = alloc::vec![b'x'; length];
        vec.write(|out| out.put_slice(&bytes));
        output.write(|out| out.put_slice(&bytes));
    }
    assert_eq!(vec, output.as_slice());
}

#[test]
fn what_finds_no_memory_is_lost_and_told() {
    let mut out = Output::default();
    out.write(|out| out.put_slice(b"before"));
    assert!(out.has_room(0) && out.has_room(10_000));
    let length = out.len();
    out.length = usize::MAX - 1_000;
    assert!(!out.has_room(0));
    out.write(|out| {
        out.put_slice(&[b'x'; 300]);
        put_short!(out, |out| out.put(b"y"));
        out.put(b"z");
        assert!(out.written_since(7).is_empty());
    });
    out.truncate(length);
    out.write(|out| out.put(b"behind"));
    assert!(!out.has_room(0) && out.as_slice().is_empty());
    out.clear(0);
    out.write(|out| out.put(b"again"));
    assert!(out.has_room(0));
    assert_eq!(out.as_slice(), b"again");
}

#[test]
fn truncate_and_clear() {
    let mut out = Output::default();
    out.write(|out| out.put_slice(&[b'x'; 10_000]));
    out.truncate(20_000);
    assert_eq!(out.len(), 10_000);
    out.truncate(3);
    out.write(|out| out.put(b"y"));
    assert_eq!(out.as_slice(), b"xxxy");
    out.clear(100);
    assert!(out.is_empty() && out.bytes.len() <= 100);
}
