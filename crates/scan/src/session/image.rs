//! The image of a catalog: its tables as the words that the handler reads.
//!
//! An image is made for the place in the table region at which it will lie, so all places in it are numbers of words of
//! that region. It begins with a header for tasks that step windows. Then come the windows, and the automata with their
//! outputs and one header each.
//!
//! **Automata.** A row has one word per byte class and a last one for the outputs. The word of a class is the number of
//! words before the next state's row, so a step is an addition and a load. States that are often visited come first (see
//! [`order`](super::order)), and accepting ones last. The last word of an accepting row says where the outputs of the
//! state begin, and the same word of the next row says where they end; after the last state there is a row that has
//! only this word.
//!
//! **Runs of a class.** The runs of one class are searched together, by the smallest length, and the host finds out which
//! of them are long enough. There are two ways. A run of at least 19 bytes contains 16 bytes that begin at a multiple of
//! four. So the columns of the first automaton also say, in their upper bits, to which classes a byte belongs, and a lane
//! only has to look whether four quarters of blocks have a bit in common. There are 24 such bits. Shorter runs, and those of further
//! classes, become automata of their own: state k says that the last k bytes belong to the class, and the state in which
//! a run becomes long enough accepts.

use super::layout::{BLOCK_BYTES, HEADER_WORDS, HeaderWord, STEP_HEADER_WORDS, StepHeaderWord};
use super::order::StateOrder;
use super::step::NO_VERSION;
use crate::catalog::{Catalog, ClassRun, FactorOutput, FactorTable, WindowTables};
use crate::error::ScanError;
use crate::factor::{ByteSet, LITERAL_MAX};

/// How many words an output has: branch, distance, two that have no meaning, and four each of value and mask.
pub(super) const OUTPUT_WORDS: u32 = 12;
/// The bit of a candidate's branch that says that the rest of it is the number of a class of runs.
pub(super) const RUN_BIT: u32 = 1 << 31;
/// The longest run that is counted.
const RUN_MAX: u32 = 16_384;
/// The smallest length of runs that always cover four quarters of blocks, wherever they begin.
const BLOCK_RUN: u32 = BLOCK_BYTES + 3;
/// How many classes the upper bits of a column have room for.
const CLASS_BITS: usize = 24;
/// The bit of a column that stands for the first class.
pub(super) const FIRST_CLASS_BIT: u32 = 8;

/// The words of a catalog, and where its automata are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct TableImage {
    pub words: Vec<u32>,
    pub automata: Vec<ImageAutomaton>,
    pub run_classes: Vec<RunClass>,
    /// How many states the window of each branch has; 0 if there is none.
    pub state_counts: Vec<u32>,
}

/// The runs of one class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct RunClass {
    pub class: ByteSet,
    /// The runs, the shortest first.
    pub runs: Vec<ClassRun>,
}

impl RunClass {
    /// The smallest length of a run.
    pub(super) fn least(&self) -> u32 {
        self.runs[0].length
    }

    /// The largest length of a run.
    pub(super) fn most(&self) -> u32 {
        self.runs[self.runs.len() - 1].length
    }
}

/// An automaton of an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ImageAutomaton {
    /// The word of the table region at which its header begins.
    pub header: u32,
    /// How many blocks of text its state depends on.
    pub lead_blocks: u32,
}

impl TableImage {
    /// Makes the image of a catalog that will lie at a word of the table region, which is a multiple of four.
    pub(super) fn new(catalog: &Catalog, base: u32) -> Result<TableImage, ScanError> {
        if let Some(run) = catalog.class_runs().iter().find(|run| run.length > RUN_MAX) {
            let what = format!(
                "a rule needs a run of {} bytes of one class, but this device counts to {RUN_MAX}; use `--device cpu`",
                run.length
            );
            return Err(ScanError::Engine(what));
        }
        let run_classes = run_classes(catalog.class_runs());
        let mut in_columns: Vec<(usize, &RunClass)> = run_classes.iter().enumerate().collect();
        in_columns.retain(|(_, class)| class.least() >= BLOCK_RUN);
        in_columns.truncate(CLASS_BITS);
        let mut others = run_classes.iter().enumerate();
        let others: Vec<(u32, FactorTable)> = others
            .by_ref()
            .filter(|(number, _)| in_columns.iter().all(|(other, _)| other != number))
            .map(|(number, class)| (class.least().div_ceil(BLOCK_BYTES), run_table(number, class)))
            .collect();
        let literal = (LITERAL_MAX as u32 - 1).div_ceil(BLOCK_BYTES);
        let none =
            FactorTable { classes: vec![0; 256], class_count: 1, state_count: 1, ..FactorTable::default() };
        let none = FactorTable { first_accepting: 1, next: vec![0], output_rows: vec![0], ..none };
        // Without literals there is an automaton that does nothing, so that its columns can have classes.
        let empty = catalog.factors().is_empty() && !in_columns.is_empty();
        let factors = catalog.factors().iter().chain(empty.then_some(&none)).map(|table| (literal, table));
        let mut writer = ImageWriter { base, words: vec![0; STEP_HEADER_WORDS as usize] };
        let windows = writer.windows(catalog.windows());
        let state_counts = catalog.windows().state_counts();
        writer.step_header(windows, &state_counts);
        let mut automata = Vec::new();
        for (at, (lead_blocks, table)) in
            factors.chain(others.iter().map(|(k, table)| (*k, table))).enumerate()
        {
            let in_columns = if at == 0 { &in_columns[..] } else { &[] };
            automata
                .push(ImageAutomaton { header: writer.automaton(table, windows, in_columns), lead_blocks });
        }
        match u32::try_from(writer.words.len()) {
            Ok(len) if len.checked_add(base).is_some() => {
                Ok(TableImage { words: writer.words, automata, run_classes, state_counts })
            }
            _ => Err(ScanError::Engine(
                "the tables of the rules are too large for this device; use `--device cpu`".into(),
            )),
        }
    }
}

/// Words that are being written.
struct ImageWriter {
    base: u32,
    words: Vec<u32>,
}

impl ImageWriter {
    /// The place of the next word, which becomes a multiple of four.
    fn aligned(&mut self) -> u32 {
        self.words.resize(self.words.len().next_multiple_of(4), 0);
        self.place()
    }

    /// The place of the next word. An image that is too large is refused in the end, so places may wrap until then.
    fn place(&self) -> u32 {
        self.base.wrapping_add(self.words.len() as u32)
    }

    /// Writes bytes, four to a word, the first in the lowest bits.
    fn bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<4>();
        self.words.extend(words.iter().map(|word| u32::from_le_bytes(*word)));
        for (k, byte) in rest.iter().enumerate() {
            let word = u32::from(*byte) << (8 * k);
            if k == 0 {
                self.words.push(word)
            } else {
                *self.words.last_mut().expect("it was pushed") |= word
            }
        }
    }

    /// Writes the windows of all branches. Returns where their infos begin.
    fn windows(&mut self, tables: &WindowTables) -> u32 {
        let maps = self.aligned();
        self.bytes(&tables.classes);
        let next = self.aligned();
        let pairs = tables.next.chunks(2);
        self.words.extend(pairs.map(|pair| u32::from(pair[0]) | u32::from(*pair.get(1).unwrap_or(&0)) << 16));
        let infos = self.aligned();
        for info in &tables.windows {
            let none = info.class_count == 0;
            let limit =
                if none { 1 << 31 } else { info.limit.min(0x7fff_ffff) | u32::from(info.at_limit) << 31 };
            let first = next.wrapping_mul(2).wrapping_add(info.base);
            self.words.extend([first, info.class_count, maps.wrapping_add(info.class_map * 64), limit]);
        }
        infos
    }

    /// Writes how many states the windows have, and the header by which tasks that step them find all of this. The image
    /// belongs to no version yet.
    fn step_header(&mut self, windows: u32, state_counts: &[u32]) {
        let place = self.place();
        self.words.extend(state_counts);
        self.words[StepHeaderWord::Stamp as usize] = NO_VERSION;
        self.words[StepHeaderWord::Branches as usize] = state_counts.len() as u32;
        self.words[StepHeaderWord::Windows as usize] = windows;
        self.words[StepHeaderWord::StateCounts as usize] = place;
    }

    /// Writes an automaton. Returns where its header begins.
    fn automaton(&mut self, table: &FactorTable, windows: u32, run_classes: &[(usize, &RunClass)]) -> u32 {
        let outputs = self.aligned();
        for output in &table.outputs {
            self.words.extend([output.branch, output.back, 0, 0]);
            self.bytes(&output.value);
            self.bytes(&output.mask);
        }
        let (rows, classes) = (self.aligned(), table.class_count);
        let row_words = classes + 1;
        let order = StateOrder::new(table);
        for state in &order.states {
            let first = (state * classes) as usize;
            let next = &table.next[first..first + classes as usize];
            self.words.extend(next.iter().map(|next| order.place(*next) * row_words));
            self.output_row(table, *state, outputs);
        }
        self.words.extend(std::iter::repeat_n(0, classes as usize));
        self.output_row(table, table.state_count, outputs);
        let columns = self.aligned();
        self.words.extend((0..=255).zip(&table.classes).map(|(byte, class)| {
            let runs = run_classes.iter().zip(FIRST_CLASS_BIT..);
            let bits = runs.map(|((_, run), bit)| u32::from(run.class.contains(byte)) << bit);
            bits.fold(u32::from(*class), |all, bit| all | bit)
        }));
        let infos = self.aligned();
        self.words
            .extend(run_classes.iter().flat_map(|(number, run)| [run.least(), *number as u32 | RUN_BIT]));
        let header = self.aligned();
        let mut words = [0; HEADER_WORDS as usize];
        words[HeaderWord::Columns as usize] = columns;
        words[HeaderWord::Rows as usize] = rows;
        words[HeaderWord::FirstAccepting as usize] = table.first_accepting * row_words;
        words[HeaderWord::Outputs as usize] = rows.wrapping_add(classes);
        words[HeaderWord::RowWords as usize] = row_words;
        words[HeaderWord::Windows as usize] = windows;
        words[HeaderWord::RunClasses as usize] = infos;
        self.words.extend(words);
        header
    }

    /// Writes the last word of a row: where the outputs of the state begin.
    fn output_row(&mut self, table: &FactorTable, state: u32, outputs: u32) {
        let row = state.checked_sub(table.first_accepting).map_or(0, |at| table.output_rows[at as usize]);
        self.words.push(outputs.wrapping_add(row * OUTPUT_WORDS));
    }
}

/// Collects the runs of each class.
fn run_classes(runs: &[ClassRun]) -> Vec<RunClass> {
    let mut classes: Vec<RunClass> = Vec::new();
    for run in runs {
        match classes.iter_mut().find(|known| known.class == run.class) {
            Some(known) => known.runs.push(*run),
            None => classes.push(RunClass { class: run.class, runs: vec![*run] }),
        }
    }
    classes.iter_mut().for_each(|class| class.runs.sort_by_key(|run| run.length));
    classes
}

/// Makes an automaton that counts the bytes of a run of one class up to the smallest length. The state after the
/// accepting one waits for the end of the run.
fn run_table(number: usize, class: &RunClass) -> FactorTable {
    let least = class.least();
    // Counts below the length come first, then the one that waits, then the one that accepts.
    let (waiting, accepting) = (least as u16, least as u16 + 1);
    let after = |count: u32| if count + 1 < least { count as u16 + 1 } else { accepting };
    let next = (0..least).flat_map(|count| [0, after(count)]).chain([0, waiting, 0, waiting]).collect();
    let output = FactorOutput {
        branch: number as u32 | RUN_BIT,
        back: least,
        value: [0; LITERAL_MAX],
        mask: [0; LITERAL_MAX],
    };
    FactorTable {
        classes: (0..=255).map(|byte| u8::from(class.class.contains(byte))).collect(),
        class_count: 2,
        state_count: least + 2,
        first_accepting: least + 1,
        next,
        output_rows: vec![0, 1],
        outputs: vec![output],
    }
}
