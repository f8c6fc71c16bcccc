//! Stage two in the handler: blocks with hits are read again, literals are compared, and windows are run.
//!
//! Each lane takes a block of the list and steps through it again, now with an eye on every state. Then the lanes go
//! through the outputs of their hits side by side, and compare the bytes before each hit with the literal. What agrees
//! goes to a list of windows. Once that list is nearly full, or the piece is done, each lane takes windows of the list
//! and runs them. What is left goes to the list of candidates in the device's memory.
//!
//! Lanes meet after every few outputs, and the list of windows has room for all that they can add in between. So nothing
//! overflows but the list of candidates, whose counter says so.

use pelton::ir::builder::{At, FunctionBuilder, Val};
use pelton::ir::types::{Order, Scope};

use super::image::{FIRST_CLASS_BIT, OUTPUT_WORDS, RUN_BIT};
use super::kernel::{ScanBody, U32, count};
use super::layout::{BLOCK_BYTES, FOUND_HEADER, FOUND_WORDS};
use crate::catalog::{WINDOW_MAYBE, WINDOW_START};

/// How many outputs lanes compare between two looks at the list of windows.
const OUTPUTS_PER_ROUND: u32 = 2;
/// How many bytes a window reads in one turn of its loop.
const WINDOW_TURN: u32 = 8;

/// Adds to a counter of the group, and returns what it was before.
pub(super) fn push<'b>(f: &'b FunctionBuilder<'b>, counter: At<'b, u32>, by: U32<'b>) -> U32<'b> {
    f.atomic_add(Order::Relaxed, Scope::Group, counter, by)
}

/// Runs stage two over the list of blocks, and empties it. All lanes of the group call it, with the same number.
pub(super) fn drain_blocks<'b>(body: &ScanBody<'b>, found: U32<'b>) {
    let f = body.f;
    f.range((f.lit(0), found, f.lanes()), (), |_, first, ()| {
        let at = first + f.lane();
        let is_there = at.lt(found);
        let (state, position) = halves(f, f.load(body.blocks.at(f.select(is_there, at, 0))));
        let block = body.read_block(body.text_block(position), state);
        let classes = f.select(is_there, block.new_classes(body.classes_before(position)), 0);
        f.when(classes.ne(0), || measure_runs(body, classes, position));
        let hits = (0..BLOCK_BYTES).zip(block.states).map(|(k, state)| {
            let (accepts, end) = (state.ge(body.first_accepting), position + k);
            let own = end.ge(body.own_start) & end.lt(body.own_end);
            f.select(accepts & own & is_there, 1 << k, 0)
        });
        let hits = hits.reduce(|a, b| a | b).expect("there are 16");
        compare_hits(body, BlockHits { states: block.states, position }, hits);
    });
    f.when(f.lane().eq(0), || f.store(body.counts.at(count::BLOCKS), 0));
    f.barrier();
}

/// A lane's block with hits.
#[derive(Clone, Copy)]
struct BlockHits<'b> {
    states: [U32<'b>; 16],
    position: U32<'b>,
}

impl<'b> BlockHits<'b> {
    /// The state after a byte of the block.
    fn state(&self, f: &'b FunctionBuilder<'b>, byte: U32<'b>) -> U32<'b> {
        let mut left = self.states.to_vec();
        for bit in 0..4 {
            let odd = ((byte >> bit) & 1).ne(0);
            left = left.chunks(2).map(|pair| f.select(odd, pair[1], pair[0])).collect();
        }
        left[0]
    }

    /// Where the outputs of a hit begin and end in the tables.
    fn outputs(&self, body: &ScanBody<'b>, byte: U32<'b>) -> (U32<'b>, U32<'b>) {
        let row = body.outputs + self.state(body.f, byte);
        (body.table(row), body.table(row + body.row_words))
    }
}

/// Goes through the outputs of the lanes' hits. `hits` has a bit for each byte of a lane's block that is a hit.
fn compare_hits<'b>(body: &ScanBody<'b>, block: BlockHits<'b>, hits: U32<'b>) {
    let f = body.f;
    push(f, body.counts.at(count::HITS), f.popcount(hits));
    let nothing = f.lit(0);
    let begin = [nothing, hits, nothing, nothing, nothing];
    f.forever::<_, ()>(begin, |rounds, [round, left, end, first, last]| {
        let cursor = [left, end, first, last];
        let cursor = (0..OUTPUTS_PER_ROUND).fold(cursor, |cursor, _| compare_next(body, block, cursor));
        let [left, end, first, last] = cursor;
        let round = round + 1;
        // Lanes that have outputs left ask for another round.
        f.when(left.ne(0) | first.lt(last), || {
            f.atomic_max(Order::Relaxed, Scope::Group, body.counts.at(count::ROUNDS), round);
        });
        f.barrier();
        let asked = f.group_broadcast(f.load(body.counts.at(count::WINDOWS)), 0);
        f.when(asked.gt(windows_kept(body)), || drain_windows(body, asked));
        let rounds_asked = f.group_broadcast(f.load(body.counts.at(count::ROUNDS)), 0);
        f.when(rounds_asked.lt(round), || rounds.leave(()));
        [round, left, end, first, last]
    });
    f.when(f.lane().eq(0), || f.store(body.counts.at(count::ROUNDS), 0));
    f.barrier();
}

/// How many windows may stay in the list while lanes add others.
fn windows_kept(body: &ScanBody<'_>) -> u32 {
    body.shape.window_room - OUTPUTS_PER_ROUND * body.lanes
}

/// Runs the windows that are left when a piece is done. All lanes of the group call it.
pub(super) fn drain_last_windows(body: &ScanBody<'_>) {
    let f = body.f;
    let asked = f.group_broadcast(f.load(body.counts.at(count::WINDOWS)), 0);
    f.when(asked.ne(0), || drain_windows(body, asked));
}

/// Compares a hit of the lane's block with its next output, if there is one. The cursor has the hits that are left, where
/// the last hit is, and the outputs that are left of it.
fn compare_next<'b>(body: &ScanBody<'b>, block: BlockHits<'b>, cursor: [U32<'b>; 4]) -> [U32<'b>; 4] {
    let f = body.f;
    let [left, _, first, last] = cursor;
    let [left, end, first, last] = f.choose(
        first.ge(last) & left.ne(0),
        || {
            let byte = f.ctz(left);
            let (first, last) = block.outputs(body, byte);
            [left & (left - 1), block.position + byte, first, last]
        },
        || cursor,
    );
    f.when(first.lt(last), || {
        // Bytes before the text have no meaning, and masks leave them out.
        let text = bytes_from(body, end - 15);
        let [branch, back, _, _] = body.table_wide(first);
        let value = body.table_wide(first + 4);
        let mask = body.table_wide(first + 8);
        let differs = (0..4).map(|k| (text[k] & mask[k]) ^ value[k]).reduce(|a, b| a | b);
        // A part that would begin before the text begins cannot match.
        let agrees = differs.expect("there are four").eq(0) & back.le(end + 1);
        f.when(agrees, || ask_window(body, branch, end + 1 - back));
    });
    [left, end, f.min(first + OUTPUT_WORDS, last), last]
}

/// Runs all windows of the list, and empties it. All lanes of the group call it, with the same number.
fn drain_windows<'b>(body: &ScanBody<'b>, asked: U32<'b>) {
    let f = body.f;
    f.range((f.lit(0), asked, f.lanes()), (), |_, first, ()| {
        let at = first + f.lane();
        f.when(at.lt(asked), || run_window(body, at));
    });
    f.barrier();
    f.when(f.lane().eq(0), || f.store(body.counts.at(count::WINDOWS), 0));
    f.barrier();
}

/// The two halves of an entry of a list.
fn halves<'b>(f: &'b FunctionBuilder<'b>, entry: Val<'b, u64>) -> (U32<'b>, U32<'b>) {
    (f.cast::<u32>(entry), f.cast::<u32>(entry >> 32))
}

/// Looks how long the runs are that became 16 bytes long in a block, and reports those that are long enough. The first four
/// bytes of the block always belong to such a run, and not all bytes of the block before it.
fn measure_runs<'b>(body: &ScanBody<'b>, classes: U32<'b>, block: U32<'b>) {
    let f = body.f;
    f.repeat(
        classes,
        |left| left.ne(0),
        |_, left| {
            let number = f.ctz(left);
            let bit = number + FIRST_CLASS_BIT;
            let before = f.clz(!(body.class_members(block - BLOCK_BYTES, bit) << BLOCK_BYTES));
            let before = f.select(block.ge(BLOCK_BYTES), before, 0);
            let [least, class] = [0, 1].map(|word| body.table(body.run_infos + number * 2 + word));
            let (length, _) = f.repeat(
                (before, block),
                |(length, _)| length.lt(least),
                |run, (length, at)| {
                    let more = f.ctz(!body.class_members(at, bit));
                    f.when(more.lt(BLOCK_BYTES), || run.leave((length + more, at)));
                    (length + more, at + BLOCK_BYTES)
                },
            );
            let start = block - before;
            // What follows the text looks like a part of it here.
            let inside = (body.len - start).ge(least);
            f.when(length.ge(least) & inside, || emit_candidate(body, class, start));
            left & (left - 1)
        },
    );
}

/// The 16 bytes from a position on. The position may be below zero; bytes before the text are some bytes of the region.
fn bytes_from<'b>(body: &ScanBody<'b>, start: U32<'b>) -> [U32<'b>; 4] {
    let f = body.f;
    let word = f.cast::<u32>(f.bitcast::<i32>(start) >> 2);
    let words: [U32<'b>; 5] = std::array::from_fn(|k| body.text_word(word + k as u32));
    let by = (start & 3) << 3;
    std::array::from_fn(|k| {
        let joined = f.cast::<u64>(words[k]) | f.cast::<u64>(words[k + 1]) << 32;
        f.cast::<u32>(joined >> by)
    })
}

/// Adds an entry to the list of windows. A run has no window, and becomes a candidate at once.
fn ask_window<'b>(body: &ScanBody<'b>, branch: U32<'b>, start: U32<'b>) {
    let f = body.f;
    f.choose(
        (branch & RUN_BIT).ne(0),
        || emit_candidate(body, branch, start),
        || {
            let at = push(f, body.counts.at(count::WINDOWS), f.lit(1));
            f.store(body.windows.at(at), f.cast::<u64>(branch) | f.cast::<u64>(start) << 32);
        },
    );
}

/// Adds a candidate to the list in the device's memory. The counter counts those that find no room too.
fn emit_candidate<'b>(body: &ScanBody<'b>, branch: U32<'b>, start: U32<'b>) {
    let f = body.f;
    let counter = body.found.at(body.found_word);
    let at = f.atomic_add(Order::Relaxed, Scope::Device, counter, 1) - body.found_base;
    f.when(at.lt(body.found_room), || {
        let word = body.found_word + FOUND_HEADER + at * FOUND_WORDS;
        f.store(body.found.at(word), branch);
        f.store(body.found.at(word + 1), start);
    });
}

/// Runs the window of an entry of the list.
fn run_window<'b>(body: &ScanBody<'b>, at: U32<'b>) {
    let f = body.f;
    let (branch, start) = halves(f, f.load(body.windows.at(at)));
    let [next, classes, map, limit_word] = body.table_wide(body.window_infos + branch * 4);
    let (limit, at_limit) = (limit_word & 0x7fff_ffff, limit_word >> 31);
    let left = body.len - start;
    // A branch without an automaton has a limit of zero, and its answer there is *maybe*.
    let steps = f.min(limit, left);
    let begin = (f.lit(u32::from(WINDOW_START)), f.lit(0));
    let undecided = |state: U32<'b>| state.gt(u32::from(WINDOW_MAYBE));
    let (state, _) = f.repeat(
        begin,
        |(state, read)| undecided(state) & read.lt(steps),
        |_, (state, read)| {
            let mut state = state;
            let text = bytes_from(body, start + read);
            for k in 0..WINDOW_TURN {
                let on = read + k;
                let class = body.table_byte(map, (text[k as usize / 4] >> (8 * (k % 4))) & 0xff);
                let entry = next + state * classes + class;
                let pair = body.table(entry >> 1);
                let stepped = (pair >> ((entry & 1) << 4)) & 0xffff;
                state = f.select(undecided(state) & on.lt(steps), stepped, state);
            }
            (state, read + WINDOW_TURN)
        },
    );
    let at_end = f.select(limit.le(left), at_limit, 1);
    let maybe = f.select(undecided(state), at_end, state);
    f.when(maybe.ne(0), || emit_candidate(body, branch, start));
}
