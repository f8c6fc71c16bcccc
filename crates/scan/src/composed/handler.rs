//! The handler that reads a span of text: a piece per lane, and then a scan over the lanes' maps.

use pelton::Handler;
use pelton::ir::builder::{Buf, FunctionBuilder, Val};
use pelton::ir::types::{Order, Scope};
use pelton::kernel::GroupHandlerBody;

use super::transitions::{SHIFT_BITS, SHIFT_STATE_MAX, STATE_MAX, TransitionTable, shift_word};

/// How many bytes a lane loads at once.
const BLOCK_BYTES: u32 = 16;
/// How many blocks a lane reads in a turn. The number is constant, so that only a turn takes fuel, and not a block.
const TURN_BLOCKS: u32 = 16;
/// How many bytes a lane reads in a turn. Pieces are multiples of it.
pub(super) const TURN_BYTES: u32 = TURN_BLOCKS * BLOCK_BYTES;

/// How many runs a lane makes in a turn if there are no more that are in different states.
const FEW_RUNS: usize = 4;

/// The name of the region with the automaton.
pub(super) const ROWS: &str = "composed_rows";
/// The name of the region with the text.
pub(super) const TEXT: &str = "composed_text";
/// The name of the region with the maps that tasks have found.
pub(super) const MAPS: &str = "composed_maps";

/// The number of the row that changes no state, after those of all bytes.
const SAME_STATE_ROW: u32 = 256;
/// How many rows there are.
const ROW_COUNT: u32 = 257;

/// How many states a handler is written for. An automaton with fewer states has some that lead to themselves.
const STATE_SHAPES: [usize; 7] = [4, 6, 8, SHIFT_STATE_MAX, 16, 24, STATE_MAX];

/// What the handler is written for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ComposedShape {
    /// How many states a map has, which is one of [`STATE_SHAPES`].
    states: usize,
    /// How many lanes a group has.
    pub lanes: u32,
    /// How many words the region with the text has, a power of two, so that a masked index needs no check.
    pub text_words: u32,
}

/// The arguments of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SpanTaskArgs {
    /// The word of the text region at which the span begins, a multiple of four.
    pub text: u32,
    /// How many bytes the span has.
    pub len: u32,
    /// How many turns a lane takes for its piece.
    pub turns: u32,
    /// The state in which the span is entered, for the result of the task. The maps do not depend on it.
    pub from: u32,
    /// The word of the region of maps at which the maps of the lanes begin.
    pub lane_maps: u32,
    /// The word there at which the map of the whole span begins.
    pub span_map: u32,
}

impl SpanTaskArgs {
    /// The arguments as words.
    pub(super) fn words(self) -> [u32; 6] {
        [self.text, self.len, self.turns, self.from, self.lane_maps, self.span_map]
    }
}

impl ComposedShape {
    /// The smallest shape that an automaton fits into.
    pub(super) fn new(table: &TransitionTable, lanes: u32, text_words: u32) -> ComposedShape {
        let states = STATE_SHAPES.into_iter().find(|states| *states >= table.state_count());
        ComposedShape { states: states.unwrap_or(STATE_MAX), lanes, text_words }
    }

    /// How many words a map has, with four states to a word.
    pub(super) fn map_words(self) -> u32 {
        self.states.div_ceil(4) as u32
    }

    /// Whether the steps of this shape are shifts.
    fn shifts(self) -> bool {
        self.states <= SHIFT_STATE_MAX
    }

    /// How many words of 32 bits a row has.
    fn row_words(self) -> u32 {
        if self.shifts() { 2 } else { self.map_words() }
    }

    /// How many words all rows have.
    pub(super) fn table_words(self) -> u32 {
        ROW_COUNT * self.row_words()
    }

    /// The rows of an automaton as the handler reads them, the one that changes no state last.
    pub(super) fn packed_rows(self, table: &TransitionTable) -> Vec<u32> {
        let row_of = |row: u32| {
            let next = move |state: u8| match u8::try_from(row) {
                Ok(byte) => table.next_states(byte).get(usize::from(state)).copied().unwrap_or(state),
                Err(_) => state,
            };
            (0..self.states as u8).map(next)
        };
        let words = |row: u32| match self.shifts() {
            true => {
                let word = shift_word(row_of(row));
                vec![word as u32, (word >> 32) as u32]
            }
            false => {
                let states: Vec<u8> = row_of(row).collect();
                states
                    .chunks(4)
                    .map(|four| four.iter().rev().fold(0, |word, s| word << 8 | u32::from(*s)))
                    .collect()
            }
        };
        (0..ROW_COUNT).flat_map(words).collect()
    }
}

/// Makes the handler.
pub(super) fn compose_handler(shape: ComposedShape) -> Handler {
    Handler::group_wide(|group| match shape.states {
        4 => write_compose::<4>(&group, shape),
        6 => write_compose::<6>(&group, shape),
        8 => write_compose::<8>(&group, shape),
        SHIFT_STATE_MAX => write_compose::<SHIFT_STATE_MAX>(&group, shape),
        16 => write_compose::<16>(&group, shape),
        24 => write_compose::<24>(&group, shape),
        _ => write_compose::<STATE_MAX>(&group, shape),
    })
}

/// A value of a kernel.
type U32<'b> = Val<'b, u32>;

/// The rows in a group's own memory.
#[derive(Clone, Copy)]
enum GroupRows {
    /// Steps are shifts, and a row is a word. States are the numbers of bits to shift by, in the low six bits.
    Shifts(Buf<u64>),
    /// Steps are loads, and a row has one byte per state.
    Loads(Buf<u32>),
}

/// What the code of the handler is written with.
#[derive(Clone, Copy)]
struct ComposeBody<'b> {
    f: &'b FunctionBuilder<'b>,
    shape: ComposedShape,
    rows: GroupRows,
    text: Buf<u32>,
    text_start: U32<'b>,
    len: U32<'b>,
    /// The maps of all lanes.
    maps: Buf<u32>,
}

fn write_compose<const N: usize>(group: &GroupHandlerBody<'_>, shape: ComposedShape) {
    let f = group.body();
    let [text_start, len, turns, from, lane_maps, span_map] = [0, 1, 2, 3, 4, 5].map(|at| group.arg(at));
    let words = shape.map_words();
    let body = ComposeBody {
        f,
        shape,
        rows: match shape.shifts() {
            true => GroupRows::Shifts(group.shared("rows", ROW_COUNT)),
            false => GroupRows::Loads(group.shared("rows", shape.table_words())),
        },
        text: group.region(TEXT),
        text_start,
        len,
        maps: group.shared("maps", shape.lanes * words),
    };
    body.copy_rows(group.region(ROWS));
    f.barrier();
    let states = body.read_piece::<N>(turns);
    let own = f.lane() * words;
    for (at, word) in (0..).zip(body.pack_states(states)) {
        f.store(body.maps.at(own + at), word);
    }
    f.barrier();
    body.compose_lanes();
    let (found, last) = (group.region::<u32>(MAPS), (shape.lanes - 1) * words);
    for at in 0..words {
        f.store(found.at(lane_maps + own + at), f.load(body.maps.at(own + at)));
        f.when(f.lane().eq(0), || f.store(found.at(span_map + at), f.load(body.maps.at(last + at))));
    }
    group.finish(f.load_byte(body.maps.at((from >> 2) + last), from & 3));
}

impl<'b> ComposeBody<'b> {
    /// Copies the rows to the group's memory. All lanes take part.
    fn copy_rows(&self, source: Buf<u32>) {
        let f = self.f;
        let count = match self.rows {
            GroupRows::Shifts(_) => ROW_COUNT,
            GroupRows::Loads(_) => self.shape.table_words(),
        };
        f.range((f.lane(), f.lit(count), f.lanes()), (), |_, at, ()| match self.rows {
            GroupRows::Shifts(rows) => {
                let [low, high] = [0, 1].map(|half| f.cast::<u64>(f.load(source.at(at * 2 + half))));
                f.store(rows.at(at), low | high << 32);
            }
            GroupRows::Loads(rows) => f.store(rows.at(at), f.load(source.at(at))),
        });
    }

    /// Runs the automaton over the lane's piece, from all states at once.
    fn read_piece<const N: usize>(&self, turns: U32<'b>) -> [U32<'b>; N] {
        let f = self.f;
        let unit = match self.rows {
            GroupRows::Shifts(_) => SHIFT_BITS,
            GroupRows::Loads(_) => 1,
        };
        let first = f.lane() * (turns * TURN_BYTES);
        let begin: [U32<'b>; N] = std::array::from_fn(|state| f.lit(state as u32 * unit));
        f.range((f.lit(0), turns, f.lit(1)), begin, |_, turn, states| {
            let first = first + turn * TURN_BYTES;
            if N <= FEW_RUNS {
                return self.read_turn(first, states);
            }
            // Runs that have met stay together, so only one of them has to go on.
            let states = states.map(|state| self.plain_state(state));
            let runs = DistinctRuns::new(f, states);
            f.choose(
                runs.are_all(f, states),
                || runs.states_after(f, states, self.read_turn(first, runs.states)),
                || self.read_turn(first, states),
            )
        })
    }

    /// Makes the steps of a turn.
    fn read_turn<const M: usize>(&self, first: U32<'b>, states: [U32<'b>; M]) -> [U32<'b>; M] {
        let f = self.f;
        f.range((f.lit(0), f.lit(TURN_BLOCKS), f.lit(1)), states, |_, block, states| {
            let at = first + block * BLOCK_BYTES;
            // A lane whose piece has ended changes nothing.
            f.choose(at.lt(self.len), || self.read_block(at, states), || states)
        })
    }

    /// The state of a run without the bits that do not count.
    fn plain_state(&self, state: U32<'b>) -> U32<'b> {
        match self.rows {
            GroupRows::Shifts(_) => state & 63,
            GroupRows::Loads(_) => state,
        }
    }

    /// Makes the steps of a block. Bytes after the end of the span change nothing.
    fn read_block<const M: usize>(&self, at: U32<'b>, states: [U32<'b>; M]) -> [U32<'b>; M] {
        let f = self.f;
        let place = (self.text_start + (at >> 2)) & (self.shape.text_words - 1);
        let words: [U32<'b>; 4] = f.load_wide(Order::Relaxed, Scope::Group, self.text.at(place));
        let left = self.len - at;
        (0..BLOCK_BYTES).fold(states, |states, k| {
            let byte = (words[k as usize / 4] >> (8 * (k % 4))) & 0xff;
            let row = f.select(left.gt(k), byte, SAME_STATE_ROW);
            match self.rows {
                GroupRows::Shifts(rows) => {
                    let word = f.load(rows.at(row));
                    states.map(|shift| f.cast::<u32>(word >> shift))
                }
                GroupRows::Loads(rows) => {
                    let first = row * self.shape.row_words();
                    states.map(|state| f.load_byte(rows.at(first + (state >> 2)), state & 3))
                }
            }
        })
    }

    /// Packs the states of a map, four to a word.
    fn pack_states<const N: usize>(&self, states: [U32<'b>; N]) -> Vec<U32<'b>> {
        let states = states.map(|state| match self.rows {
            GroupRows::Shifts(_) => self.plain_state(state) / SHIFT_BITS,
            GroupRows::Loads(_) => state,
        });
        states.chunks(4).map(|four| join_bytes(four)).collect()
    }

    /// Composes the map of each lane with those of all lanes before it, in a logarithmic number of steps. After each
    /// step, the map of a lane is that of twice as many pieces.
    fn compose_lanes(&self) {
        let (f, words, lane) = (self.f, self.shape.map_words(), self.f.lane());
        let steps = self.shape.lanes.next_power_of_two().trailing_zeros();
        f.range((f.lit(0), f.lit(steps), f.lit(1)), (), |_, step, ()| {
            let distance = f.lit(1) << step;
            let has_earlier = lane.ge(distance);
            let (earlier, own) = (f.select(has_earlier, lane - distance, lane) * words, lane * words);
            let composed: Vec<U32<'b>> = (0..words)
                .map(|word| {
                    let bytes = [0, 1, 2, 3].map(|byte| {
                        let between = f.load_byte(self.maps.at(earlier + word), f.lit(byte));
                        f.load_byte(self.maps.at(own + (between >> 2)), between & 3)
                    });
                    join_bytes(&bytes)
                })
                .collect();
            f.barrier();
            f.when(has_earlier, || {
                (0..).zip(composed).for_each(|(at, word)| f.store(self.maps.at(own + at), word));
            });
            f.barrier();
        });
    }
}

/// The states of the first few runs of a lane that are in different states.
struct DistinctRuns<'b> {
    /// The states. If there are fewer, some are the same.
    states: [U32<'b>; FEW_RUNS],
}

impl<'b> DistinctRuns<'b> {
    /// Looks for states that differ from all that were found before.
    fn new<const N: usize>(f: &'b FunctionBuilder<'b>, states: [U32<'b>; N]) -> DistinctRuns<'b> {
        let mut found = [states[0]; FEW_RUNS];
        for at in 1..FEW_RUNS {
            // The first new state is the last to be chosen.
            found[at] = states.iter().rev().fold(states[0], |chosen, state| {
                let differs = found[..at].iter().map(|known| state.ne(*known)).reduce(|a, b| a & b);
                f.select(differs.expect("there is one before it"), *state, chosen)
            });
        }
        DistinctRuns { states: found }
    }

    /// Whether there are no other states.
    fn are_all<const N: usize>(&self, f: &'b FunctionBuilder<'b>, states: [U32<'b>; N]) -> Val<'b, bool> {
        states.iter().fold(f.lit(true), |all, state| {
            let known = self.states.map(|known| state.eq(known)).into_iter().reduce(|a, b| a | b);
            all & known.expect("there are a few")
        })
    }

    /// The states of all runs after a turn, which is known for the first few.
    fn states_after<const N: usize>(
        &self,
        f: &'b FunctionBuilder<'b>,
        before: [U32<'b>; N],
        after: [U32<'b>; FEW_RUNS],
    ) -> [U32<'b>; N] {
        before.map(|state| {
            let pairs = self.states.into_iter().zip(after).skip(1);
            pairs.fold(after[0], |chosen, (known, after)| f.select(state.eq(known), after, chosen))
        })
    }
}

/// Joins at most four bytes to a word, the first in the lowest bits.
fn join_bytes<'b>(bytes: &[U32<'b>]) -> U32<'b> {
    let placed = (0..).zip(bytes).map(|(at, byte)| *byte << (8 * at));
    placed.reduce(|a, b| a | b).expect("there is at least one")
}
