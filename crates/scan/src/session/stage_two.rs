//! Stage two in the handler: the hits of the group's list are compared with their literals and run through windows.
//!
//! This is done in two steps, so that the lanes have alike work in each. First each lane takes hits and compares the
//! bytes around them with every literal that ends in the hit's state; what agrees goes to a second list. Then each lane
//! takes entries of that list and runs the window of the branch. What is left goes to the list of candidates in the
//! device's memory.
//!
//! An entry that the second list has no room for becomes a candidate without having been run through its window. The
//! contract allows that: a window can only take candidates away.

use pelton::ir::builder::{At, FunctionBuilder, Val};
use pelton::ir::types::{Order, Scope};

use super::image::{FIRST_CLASS_BIT, OUTPUT_WORDS, RUN_BIT};
use super::kernel::{BLOCK_BYTES, FOUND_HEADER, FOUND_WORDS, ScanBody, U32, count};
use crate::catalog::{WINDOW_START, WINDOW_YES};

/// How many bytes a window reads in one turn of its loop.
const WINDOW_TURN: u32 = 16;

/// Adds to a counter of the group, and returns what it was before.
pub(super) fn push<'b>(f: &'b FunctionBuilder<'b>, counter: At<'b, u32>, by: U32<'b>) -> U32<'b> {
    f.atomic_add(Order::Relaxed, Scope::Group, counter, by)
}

/// Runs stage two over the list of hits, and empties it. All lanes of the group call it, with the same number.
pub(super) fn drain_hits<'b>(body: &ScanBody<'b>, found: U32<'b>) {
    let f = body.f;
    let kept = f.min(found, body.shape.hit_room);
    f.range((f.lit(0), kept, f.lanes()), (), |_, first, ()| {
        let at = first + f.lane();
        f.when(at.lt(kept), || compare_hit(body, at));
        f.barrier();
        let asked = f.group_broadcast(f.load(body.counts.at(count::WINDOWS)), 0);
        let done = (first + f.lanes()).ge(kept);
        f.when(done & asked.ne(0) | asked.gt(body.shape.window_room / 2), || drain_windows(body, asked));
    });
    f.when(f.lane().eq(0), || {
        let all = f.load(body.counts.at(count::ALL_HITS));
        f.store(body.counts.at(count::ALL_HITS), all + kept);
        f.when(found.gt(body.shape.hit_room), || f.store(body.counts.at(count::LOST), 1));
        f.store(body.counts.at(count::HITS), 0);
    });
    f.barrier();
}

/// Runs all windows of the list, and empties it. All lanes of the group call it, with the same number.
fn drain_windows<'b>(body: &ScanBody<'b>, asked: U32<'b>) {
    let f = body.f;
    let kept = f.min(asked, body.shape.window_room);
    f.range((f.lit(0), kept, f.lanes()), (), |_, first, ()| {
        let at = first + f.lane();
        f.when(at.lt(kept), || run_window(body, at));
    });
    f.barrier();
    f.when(f.lane().eq(0), || f.store(body.counts.at(count::WINDOWS), 0));
    f.barrier();
}

/// The two halves of an entry of a list.
fn halves<'b>(f: &'b FunctionBuilder<'b>, entry: Val<'b, u64>) -> (U32<'b>, U32<'b>) {
    (f.cast::<u32>(entry), f.cast::<u32>(entry >> 32))
}

/// Compares a hit with the literals of its state, or looks how long the runs of its classes are.
fn compare_hit<'b>(body: &ScanBody<'b>, at: U32<'b>) {
    let f = body.f;
    let (what, position) = halves(f, f.load(body.hits.at(at)));
    let is_run = (what & RUN_BIT).ne(0);
    f.when(is_run, || measure_runs(body, what & !RUN_BIT, position));
    let own = position.ge(body.own_start) & position.lt(body.own_end);
    f.when(own & !is_run, || compare_state(body, what, position));
}

/// Compares a hit with the literals of its state.
fn compare_state<'b>(body: &ScanBody<'b>, state: U32<'b>, end: U32<'b>) {
    let f = body.f;
    let row = body.outputs + state;
    let (first, last) = (body.table(row), body.table(row + body.row_words));
    // Bytes before the text have no meaning, and masks leave them out.
    let text = bytes_from(body, end - 15);
    f.range((first, last, f.lit(OUTPUT_WORDS)), (), |_, output, ()| {
        let [branch, back, _, _] = body.table_wide(output);
        let value = body.table_wide(output + 4);
        let mask = body.table_wide(output + 8);
        let differs = (0..4).map(|k| (text[k] & mask[k]) ^ value[k]).reduce(|a, b| a | b);
        // A part that would begin before the text begins cannot match.
        let agrees = differs.expect("there are four").eq(0) & back.le(end + 1);
        f.when(agrees, || ask_window(body, branch, end + 1 - back));
    });
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
            let belongs = |position: U32<'b>| ((body.column_at(position) >> bit) & 1).ne(0);
            // The run begins less than a block before this one.
            let before = f.range((0, BLOCK_BYTES - 1, 1), f.lit(0), |_, k: U32<'b>, count| {
                let on = count.eq(k) & block.gt(k) & belongs(block - 1 - k);
                f.select(on, count + 1, count)
            });
            let start = block - before;
            let [least, class] = [0, 1].map(|word| body.table(body.run_infos + number * 2 + word));
            let length = f.repeat(
                before + 4,
                |length| length.lt(least),
                |run, length| {
                    f.when(!belongs(start + length), || run.leave(f.lit(0)));
                    length + 1
                },
            );
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

/// Adds an entry to the list of windows. A run has no window, and becomes a candidate at once, and so does what finds no
/// room.
fn ask_window<'b>(body: &ScanBody<'b>, branch: U32<'b>, start: U32<'b>) {
    let f = body.f;
    let is_run = (branch & RUN_BIT).ne(0);
    let at = f.choose(
        is_run,
        || f.lit(body.shape.window_room),
        || push(f, body.counts.at(count::WINDOWS), f.lit(1)),
    );
    f.choose(
        at.lt(body.shape.window_room),
        || {
            let entry = f.cast::<u64>(branch) | f.cast::<u64>(start) << 32;
            f.store(body.windows.at(at), entry);
        },
        || emit_candidate(body, branch, start),
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
    let undecided = |state: U32<'b>| state.gt(u32::from(WINDOW_YES));
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
