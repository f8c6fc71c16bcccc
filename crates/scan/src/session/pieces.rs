//! How the range that a scan owns is divided among tasks.

use std::ops::Range;

use super::layout::{BLOCK_BYTES, STRIP_STEP};

/// The part of a range that one task scans.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    /// Where the task's first lane begins: the start of the piece, or a little before it.
    pub begin: u32,
    pub start: u32,
    pub end: u32,
}

/// Divides a range into pieces of about `bytes` bytes. All but the first begin at a multiple of 16 bytes.
pub(super) fn divide(own: Range<u32>, bytes: u32) -> impl Iterator<Item = Piece> {
    let step = bytes.max(BLOCK_BYTES) / BLOCK_BYTES * BLOCK_BYTES;
    let aligned = own.start / BLOCK_BYTES * BLOCK_BYTES;
    let count = if own.is_empty() { 0 } else { (own.end - aligned).div_ceil(step) };
    (0..count).map(move |k| {
        let begin = aligned + k * step;
        Piece { begin, start: begin.max(own.start), end: own.end.min(begin.saturating_add(step)) }
    })
}

impl Piece {
    /// The number of bytes that each of so many lanes reads: many turns, and many more than it reads before them.
    pub(super) fn strip(&self, lanes: u32, lead_bytes: u32) -> u32 {
        let even = (self.end - self.begin).div_ceil(lanes).max(lead_bytes);
        even.next_multiple_of(STRIP_STEP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_the_range_without_overlap() {
        for own in [0..0, 5..5, 0..1, 3..100, 16..64, 15..17, 100..100_000, u32::MAX - 40..u32::MAX] {
            for bytes in [1, 16, 17, 992, 65536] {
                let mut at = own.start;
                for piece in divide(own.clone(), bytes) {
                    assert_eq!(piece.start, at, "{own:?} by {bytes}");
                    assert!(piece.start < piece.end && piece.end - piece.begin <= bytes.max(16));
                    assert!(
                        piece.begin % 16 == 0 && piece.begin <= piece.start && piece.start - piece.begin < 16
                    );
                    at = piece.end;
                }
                assert_eq!(at, own.end, "{own:?} by {bytes}");
            }
        }
    }

    #[test]
    fn strips_of_all_lanes_cover_the_piece() {
        for lanes in [1, 32, 256] {
            for piece in divide(7..200_000, 50_000) {
                let strip = piece.strip(lanes, 16);
                assert!(strip % STRIP_STEP == 0 && piece.begin + strip * lanes >= piece.end);
            }
        }
    }
}
