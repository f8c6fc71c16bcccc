//! The handler that scans a piece of text: stage one, the automaton over every byte.
//!
//! All lanes of a group run it together. The piece is cut into as many strips as the group has lanes, and lane k reads
//! strip k. A lane reads blocks of 16 bytes and steps through them without a branch: it keeps the greatest state that it
//! has been in, since accepting states are the greatest. Only if that one accepts, it adds the block to a list in the
//! group's own memory, with the state before the block. So a hit costs next to nothing here, no lane waits for another
//! while it reads, and nothing is written to the device's memory but candidates. After each turn the lanes meet. Once
//! the list has a block for each lane, or the piece is done, the lanes divide the blocks among them, read them again and
//! run stage two (see [`stage_two`](super::stage_two)). The list has room for all blocks of a turn, so it cannot overflow.

use pelton::Handler;
use pelton::ir::builder::{Buf, FunctionBuilder, Val};
use pelton::ir::types::{Order, Scope};
use pelton::kernel::GroupHandlerBody;

use super::image::FIRST_CLASS_BIT;
use super::layout::{BLOCK_BYTES, FOUND, HeaderWord, KernelShape, RegionSizes, TABLES, TEXT};
use super::stage_two::{drain_blocks, drain_last_windows, push};

/// A value of a kernel.
pub(super) type U32<'b> = Val<'b, u32>;

/// What the code of the handler is written with: its arguments, its regions and the group's lists.
#[derive(Clone, Copy)]
pub(super) struct ScanBody<'b> {
    pub f: &'b FunctionBuilder<'b>,
    tables: Buf<u32>,
    text: Buf<u32>,
    pub found: Buf<u32>,
    sizes: RegionSizes,
    pub shape: KernelShape,
    pub lanes: u32,
    /// The list of blocks: the state before the block in the low half, the position in the high half.
    pub blocks: Buf<u64>,
    /// The list of windows: a branch in the low half, where the part begins in the high half.
    pub windows: Buf<u64>,
    /// The counters of the group.
    pub counts: Buf<u32>,
    columns: Buf<u32>,
    hot: Buf<u32>,
    rows: U32<'b>,
    text_start: U32<'b>,
    pub len: U32<'b>,
    pub own_start: U32<'b>,
    pub own_end: U32<'b>,
    pub found_word: U32<'b>,
    pub found_base: U32<'b>,
    pub found_room: U32<'b>,
    pub first_accepting: U32<'b>,
    pub outputs: U32<'b>,
    pub row_words: U32<'b>,
    pub window_infos: U32<'b>,
    pub run_infos: U32<'b>,
}

/// What a lane knows of the text before the block that it reads: the state of the automaton, as the number of words
/// before its row, and which classes the last bytes belong to.
type LaneState<'b> = (U32<'b>, ClassesBefore<'b>);

/// The columns that the last 4, 8, 12 and 16 bytes before a block have in common, with the bits of their classes.
pub(super) type ClassesBefore<'b> = [U32<'b>; 4];

/// What the last bytes of a block have in common.
fn classes_of<'b>([a, b, c, d]: [U32<'b>; 4]) -> ClassesBefore<'b> {
    [d, c & d, b & c & d, a & b & c & d]
}

/// What the columns of each four bytes of a block have in common.
fn quarters_of<'b>(columns: [U32<'b>; 16]) -> [U32<'b>; 4] {
    std::array::from_fn(|k| {
        let [a, b, c, d] = [0, 1, 2, 3].map(|byte| columns[4 * k + byte]);
        a & b & c & d
    })
}

/// A block that a lane has read.
pub(super) struct ReadBlock<'b> {
    /// The states after each of its bytes.
    pub states: [U32<'b>; 16],
    /// What the columns of each four bytes have in common.
    quarters: [U32<'b>; 4],
}

impl<'b> ReadBlock<'b> {
    /// What is known after the block, for the next one.
    fn after(&self) -> LaneState<'b> {
        (self.states[15], classes_of(self.quarters))
    }

    /// The classes of which a run becomes 16 bytes long in this block, as far as whole quarters of blocks show it.
    pub(super) fn new_classes(&self, before: ClassesBefore<'b>) -> U32<'b> {
        let [a, b, c, d] = self.quarters;
        let [last4, last8, last12, last16] = before;
        let long = (a & last12) | (a & b & last8) | (a & b & c & last4) | (a & b & c & d);
        (long & !last16) >> FIRST_CLASS_BIT
    }
}

/// The words of the group's counters.
pub(super) mod count {
    /// How many blocks the list has.
    pub(crate) const BLOCKS: u32 = 0;
    /// How many windows the list has.
    pub(crate) const WINDOWS: u32 = 1;
    /// How many hits there were.
    pub(crate) const HITS: u32 = 2;
    /// How many rounds lanes have asked for.
    pub(crate) const ROUNDS: u32 = 3;
}

/// Makes the handler.
pub(super) fn scan_handler(sizes: RegionSizes, shape: KernelShape, lanes: u32) -> Handler {
    assert!(sizes.tables.is_power_of_two() && sizes.text.is_power_of_two());
    Handler::group_wide(|group| write_scan(&group, sizes, (shape, lanes)))
}

fn write_scan(group: &GroupHandlerBody<'_>, sizes: RegionSizes, (shape, lanes): (KernelShape, u32)) {
    let f = group.body();
    let arg = |k: u32| group.arg(k);
    let tables = group.region::<u32>(TABLES);
    let header = |word: HeaderWord| f.load(tables.at((arg(7) + word as u32) & (sizes.tables - 1)));
    let body = ScanBody {
        f,
        tables,
        text: group.region(TEXT),
        found: group.region(FOUND),
        sizes,
        shape,
        lanes,
        // The list is emptied when it has a block for each lane, and the lanes may add all blocks of a turn before.
        blocks: group.shared("blocks", lanes * (shape.turn_blocks + 1)),
        windows: group.shared("windows", shape.window_room),
        counts: group.shared("counts", 4),
        columns: group.shared("columns", 256),
        hot: group.shared("hot", shape.hot_words),
        rows: header(HeaderWord::Rows),
        text_start: arg(0),
        len: arg(1),
        own_start: arg(4),
        own_end: arg(5),
        found_word: arg(8),
        found_base: arg(9),
        found_room: arg(10),
        first_accepting: header(HeaderWord::FirstAccepting),
        outputs: header(HeaderWord::Outputs),
        row_words: header(HeaderWord::RowWords),
        window_infos: header(HeaderWord::Windows),
        run_infos: header(HeaderWord::RunClasses),
    };
    let columns_word = header(HeaderWord::Columns);
    f.range((f.lane(), f.lit(256), f.lanes()), (), |_, byte, ()| {
        f.store(body.columns.at(byte), body.table(columns_word + byte));
    });
    f.range((f.lane(), f.lit(shape.hot_words), f.lanes()), (), |_, word, ()| {
        f.store(body.hot.at(word), body.table(body.rows + word));
    });
    f.barrier();
    let (strip, lead_blocks) = (arg(3), arg(6));
    let first = arg(2) + f.lane() * strip;
    let before = body.lead(first, lead_blocks);
    body.read_strip(first, strip, before);
    drain_last_windows(&body);
    group.finish(f.load(body.counts.at(count::HITS)));
}

impl<'b> ScanBody<'b> {
    /// A word of the table region.
    pub(super) fn table(&self, at: U32<'b>) -> U32<'b> {
        self.f.load(self.tables.at(at & (self.sizes.tables - 1)))
    }

    /// The four words of the table region that begin at a multiple of four.
    pub(super) fn table_wide(&self, at: U32<'b>) -> [U32<'b>; 4] {
        self.f.load_wide(Order::Relaxed, Scope::Group, self.tables.at(at & (self.sizes.tables - 1)))
    }

    /// A byte of the table region, counted in bytes from a word on.
    pub(super) fn table_byte(&self, word: U32<'b>, byte: U32<'b>) -> U32<'b> {
        let at = (word + (byte >> 2)) & (self.sizes.tables - 1);
        self.f.load_byte(self.tables.at(at), byte & 3)
    }

    /// A word of the text, counted from where the text begins. Words outside the text are some words of the region.
    pub(super) fn text_word(&self, word: U32<'b>) -> U32<'b> {
        self.f.load(self.text.at((self.text_start + word) & (self.sizes.text - 1)))
    }

    /// The 16 bytes of the text from a position on, which is a multiple of 16.
    pub(super) fn text_block(&self, position: U32<'b>) -> [U32<'b>; 4] {
        let at = (self.text_start + (position >> 2)) & (self.sizes.text - 1);
        self.f.load_wide(Order::Relaxed, Scope::Group, self.text.at(at))
    }

    /// Steps through the 16 bytes of a block.
    pub(super) fn read_block(&self, words: [U32<'b>; 4], from: U32<'b>) -> ReadBlock<'b> {
        let columns = self.columns_of(words);
        let mut state = from;
        let states = columns.map(|column| {
            state = self.next_state(state + (column & 0xff));
            state
        });
        ReadBlock { states, quarters: quarters_of(columns) }
    }

    /// The classes that the bytes of the block before a position belong to. Before the text begins there are none.
    pub(super) fn classes_before(&self, position: U32<'b>) -> ClassesBefore<'b> {
        let columns = self.columns_of(self.text_block(position - BLOCK_BYTES));
        classes_of(quarters_of(columns)).map(|common| self.f.select(position.ge(BLOCK_BYTES), common, 0))
    }

    /// The columns of 16 bytes.
    fn columns_of(&self, words: [U32<'b>; 4]) -> [U32<'b>; 16] {
        std::array::from_fn(|k| {
            let byte = (words[k / 4] >> (8 * (k as u32 % 4))) & 0xff;
            self.f.load(self.columns.at(byte))
        })
    }

    /// Which bytes of a block belong to the class of a bit of the columns: one bit for each byte.
    pub(super) fn class_members(&self, position: U32<'b>, class_bit: U32<'b>) -> U32<'b> {
        let columns = self.columns_of(self.text_block(position));
        let bits = (0..).zip(columns).map(|(k, column)| ((column >> class_bit) & 1) << k);
        bits.reduce(|a, b| a | b).expect("there are 16")
    }

    /// A word of the automaton's rows. The first rows are those of the most frequent states, and a copy of them lies in
    /// the group's memory. Both memories are read, which takes no longer than the slower of them; a lane that needs only
    /// the copy reads the same word as all others like it, which costs the cache next to nothing.
    fn next_state(&self, at: U32<'b>) -> U32<'b> {
        let f = self.f;
        let is_hot = at.lt(self.shape.hot_words);
        let hot = f.load(self.hot.at(f.min(at, self.shape.hot_words - 1)));
        let cold = self.table(self.rows + f.select(is_hot, 0, at));
        f.select(is_hot, hot, cold)
    }

    /// Reads the blocks before a strip, after which the state is the one that the whole text before would give.
    fn lead(&self, first: U32<'b>, blocks: U32<'b>) -> LaneState<'b> {
        let f = self.f;
        let nothing = [f.lit(0); 5];
        let [state, rest @ ..] = f.range((f.lit(0), blocks, f.lit(1)), nothing, |_, k, [state, ..]| {
            let back = (blocks - k) * BLOCK_BYTES;
            let (state, classes) = self.read_block(self.text_block(first - back), state).after();
            let [a, b, c, d] = classes;
            // Before the text begins there is nothing to read.
            [state, a, b, c, d].map(|value| f.select(first.ge(back), value, 0))
        });
        (state, rest)
    }

    /// Reads a strip. All lanes take the same number of turns.
    fn read_strip(&self, first: U32<'b>, strip: U32<'b>, (state, classes): LaneState<'b>) {
        let f = self.f;
        let turn_bytes = self.shape.turn_blocks * BLOCK_BYTES;
        let turns = strip / turn_bytes;
        let [a, b, c, d] = classes;
        f.range((f.lit(0), turns, f.lit(1)), [state, a, b, c, d], |_, turn, [state, classes @ ..]| {
            let places = (0..self.shape.turn_blocks).map(|k| first + turn * turn_bytes + k * BLOCK_BYTES);
            let blocks: Vec<_> = places.map(|place| (place, self.text_block(place))).collect();
            let mut before = (state, classes);
            for (place, words) in blocks {
                let block = self.read_block(words, before.0);
                self.record_block(place, &block, before);
                before = block.after();
            }
            f.barrier();
            let found = f.group_broadcast(f.load(self.counts.at(count::BLOCKS)), 0);
            let done = (turn + 1).eq(turns);
            f.when(done & found.ne(0) | found.ge(self.lanes), || drain_blocks(self, found));
            let (state, [a, b, c, d]) = before;
            [state, a, b, c, d]
        });
    }

    /// Adds a block to the list if a state accepts in it or a run becomes long in it.
    fn record_block(&self, position: U32<'b>, block: &ReadBlock<'b>, (state, classes): LaneState<'b>) {
        let f = self.f;
        let greatest = block.states.into_iter().reduce(|a, b| f.max(a, b)).expect("there are 16");
        let hit = greatest.ge(self.first_accepting) | block.new_classes(classes).ne(0);
        // What lies outside the range that the task owns is not this task's; exact positions are compared later.
        let own = position.lt(self.own_end) & (position + (BLOCK_BYTES - 1)).ge(self.own_start);
        f.when(hit & own, || {
            let at = push(f, self.counts.at(count::BLOCKS), f.lit(1));
            f.store(self.blocks.at(at), f.cast::<u64>(state) | f.cast::<u64>(position) << 32);
        });
    }
}
