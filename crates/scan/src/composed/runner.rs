//! A session that runs an automaton over texts by composing transition functions.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use pelton::device::{Caps, Device};
use pelton::ir::types::Type;
use pelton::kernel::{SlotBody, Telemetry};
use pelton::workspace::RegionView;
use pelton::{Geometry, Opcode, Placement, Producer, Region, Session, Spec, Task, Tenant};

use super::handler::{ComposedShape, MAPS, ROWS, SpanTaskArgs, TEXT, TURN_BYTES, compose_handler};
use super::transitions::TransitionTable;
use crate::device_text::write_text;
use crate::error::{ScanError, session_failed as failed};

/// How long the tasks of a text may take. It is far more than any text takes; a device that is stuck is an error.
const TASK_TIME: Duration = Duration::from_secs(300);
/// How much fuel a task has. It is enough for any piece: the loops of the handler end by themselves.
const FUEL: u32 = 1 << 30;
/// How many lanes a group has on a device with memory of its own.
const LARGE_GROUP: u32 = 256;
/// How many spans of a text there should be for each group.
const SPANS_PER_GROUP: u32 = 4;
/// The largest piece of a lane, in bytes.
const PIECE_MAX: u32 = 1 << 16;
/// How many slots the ring of tasks has.
const RING_SLOTS: u32 = 4096;
/// The name of the handler.
const COMPOSE: &str = "compose";
/// The only tenant.
const TENANT: u32 = 0;

/// The configuration of a [`ComposedRunner`]. The default suits most uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ComposedConfig {
    /// How many bytes of text are on the device at once, a power of two.
    pub chunk_bytes: u32,
    /// How many bytes a lane reads, a power of two of at least 256. By default as many as keep all groups busy.
    pub piece_bytes: Option<u32>,
    /// How many lanes a group has; by default as many as suit the device.
    pub lanes: Option<u32>,
    /// How many groups run tasks; by default as many as suit the device.
    pub groups: Option<u32>,
}

impl Default for ComposedConfig {
    fn default() -> Self {
        ComposedConfig { chunk_bytes: 16 << 20, piece_bytes: None, lanes: None, groups: None }
    }
}

/// A session that runs an automaton over texts on a device, with all lanes at once. The [module](super) says how.
///
/// ```
/// use pelton::device;
/// use pelton_scan::composed::{ComposedConfig, ComposedRunner, TransitionTable};
///
/// let mut classes = [0; 256];
/// classes[usize::from(b'"')] = 1;
/// let quotes = TransitionTable::new(2, &classes, &[0, 1, 1, 0])?;
/// let mut runner = ComposedRunner::launch(&device::open("cpu")?, quotes, ComposedConfig::default())?;
/// assert_eq!(runner.end_state(0, br#"say "hello" and "good"#)?, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ComposedRunner {
    /// The producer is dropped before the session.
    producer: Producer,
    session: Session,
    op: Opcode,
    table: TransitionTable,
    shape: ComposedShape,
    config: ComposedConfig,
    groups: u32,
    /// How many batches the tasks of a text are submitted in. Where groups have rings of their own, a batch goes to one of
    /// them.
    batches: u32,
    /// How many bytes of text are on the device.
    loaded: u32,
    /// Whether a run has failed half-way, so that some of its tasks may not have ended.
    unsettled: bool,
}

/// The states of an automaton at the borders between the pieces of a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BorderStates {
    /// How many bytes a piece has. The last one may have fewer.
    pub piece_bytes: usize,
    /// The state in which each piece is entered: `states[k]` is the state before byte `k * piece_bytes`. If the text is
    /// empty, there are no pieces.
    pub states: Vec<u32>,
    /// The state after the text.
    pub end: u32,
}

/// How a text on the device is divided.
#[derive(Clone, Copy)]
struct SpanPlan {
    piece: u32,
    span: u32,
    count: u32,
}

impl ComposedRunner {
    /// Launches a session for an automaton on a device.
    ///
    /// # Errors
    ///
    /// [`ScanError::Engine`] if the device cannot run the session or has too little memory.
    pub fn launch(
        device: &Arc<dyn Device>,
        table: TransitionTable,
        config: ComposedConfig,
    ) -> Result<ComposedRunner, ScanError> {
        let (shape, config) = checked_config(&table, device.caps(), config);
        let session = Session::launch(device, &kernel_spec(shape, config, device.caps())).map_err(failed)?;
        let op = session.opcode(COMPOSE).map_err(failed)?;
        let rows: RegionView<'_, u32> = session.view(TENANT, ROWS).map_err(failed)?;
        rows.write(0, &shape.packed_rows(&table)).map_err(failed)?;
        drop(rows);
        let producer = session.producer(TENANT).map_err(failed)?.patience(TASK_TIME);
        let groups = session.layout().workers;
        let batches = if device.caps().memory_bytes.is_some() { 1 } else { groups };
        Ok(ComposedRunner {
            producer,
            session,
            op,
            table,
            shape,
            config,
            groups,
            batches,
            loaded: 0,
            unsettled: false,
        })
    }

    /// Returns the description of the kernel that [`launch`](Self::launch) would launch, without launching it.
    pub fn spec(table: &TransitionTable, device: &Caps, config: ComposedConfig) -> Spec {
        let (shape, config) = checked_config(table, device, config);
        kernel_spec(shape, config, device)
    }

    /// Returns the automaton.
    pub fn automaton(&self) -> &TransitionTable {
        &self.table
    }

    /// Returns the largest number of bytes that [`load_text`](Self::load_text) takes.
    pub fn chunk_bytes(&self) -> usize {
        self.config.chunk_bytes as usize
    }

    /// Runs the automaton over a text of any length, and returns the state after it.
    ///
    /// # Errors
    ///
    /// [`ScanError::Transition`] if the automaton has no state `from`, and [`ScanError::Engine`] if the session fails.
    pub fn end_state(&mut self, from: u32, text: &[u8]) -> Result<u32, ScanError> {
        self.table.check_state(from)?;
        text.chunks(self.chunk_bytes()).try_fold(from, |state, chunk| {
            self.load_text(chunk)?;
            self.loaded_end_state(state)
        })
    }

    /// Runs the automaton over a text of any length, and returns the states at the borders of all pieces.
    ///
    /// # Errors
    ///
    /// As for [`end_state`](Self::end_state).
    pub fn border_states(&mut self, from: u32, text: &[u8]) -> Result<BorderStates, ScanError> {
        self.table.check_state(from)?;
        // The pieces of all chunks have the same length.
        let piece = self.piece_bytes(text.len().min(self.chunk_bytes()) as u32);
        let mut borders = BorderStates { piece_bytes: piece as usize, states: Vec::new(), end: from };
        for chunk in text.chunks(self.chunk_bytes()) {
            self.load_text(chunk)?;
            self.add_loaded_borders(piece, &mut borders)?;
        }
        Ok(borders)
    }

    /// Copies a text to the device, for [`loaded_end_state`](Self::loaded_end_state).
    ///
    /// # Errors
    ///
    /// [`ScanError::Engine`] if the text is longer than a [chunk](Self::chunk_bytes), or the copy fails.
    pub fn load_text(&mut self, text: &[u8]) -> Result<(), ScanError> {
        let most = self.chunk_bytes();
        if text.len() > most {
            let len = text.len();
            return Err(failed(format!("a text of {len} bytes is longer than a chunk, which has {most}")));
        }
        self.settle()?;
        let view: RegionView<'_, u32> = self.session.view(TENANT, TEXT).map_err(failed)?;
        write_text(&view, 0, text).map_err(failed)?;
        self.loaded = text.len() as u32;
        Ok(())
    }

    /// Runs the automaton over the text that was loaded last, and returns the state after it.
    ///
    /// # Errors
    ///
    /// As for [`end_state`](Self::end_state).
    pub fn loaded_end_state(&mut self, from: u32) -> Result<u32, ScanError> {
        self.table.check_state(from)?;
        let plan = self.plan_spans(self.piece_bytes(self.loaded));
        match *self.run_spans(plan, from)? {
            [] => Ok(from),
            // The result of a single task needs no copy.
            [end] => Ok(end),
            _ => {
                let first = self.span_map_word(plan, 0);
                let maps = self.read_maps(first..first + plan.count * self.shape.map_words())?;
                Ok(maps.chunks(self.map_len()).fold(from, leaving_state))
            }
        }
    }

    /// Adds the states at the borders of the text that was loaded last.
    fn add_loaded_borders(&mut self, piece: u32, borders: &mut BorderStates) -> Result<(), ScanError> {
        let plan = self.plan_spans(piece);
        self.run_spans(plan, borders.end)?;
        let pieces = self.loaded.div_ceil(piece);
        let maps = self.read_maps(0..pieces * self.shape.map_words())?;
        let mut maps = maps.chunks(self.map_len());
        for left in (0..pieces).step_by(self.shape.lanes as usize) {
            // The maps of a span lead from its beginning to the end of each of its pieces.
            let entered = borders.end;
            for map in maps.by_ref().take(self.shape.lanes.min(pieces - left) as usize) {
                borders.states.push(borders.end);
                borders.end = leaving_state(entered, map);
            }
        }
        Ok(())
    }

    /// How many bytes the pieces of a text have: as the configuration says, or so many that there are several spans for
    /// each group.
    fn piece_bytes(&self, len: u32) -> u32 {
        let lanes = u64::from(self.groups) * u64::from(self.shape.lanes) * u64::from(SPANS_PER_GROUP);
        let even = (u64::from(len) / lanes).min(PIECE_MAX.into()) as u32;
        self.config.piece_bytes.unwrap_or_else(|| rounded_piece(even)).min(self.config.chunk_bytes)
    }

    fn plan_spans(&self, piece: u32) -> SpanPlan {
        // A span that is longer than the chunk has pieces without text.
        let span = piece.saturating_mul(self.shape.lanes);
        SpanPlan { piece, span, count: self.loaded.div_ceil(span) }
    }

    /// Runs the tasks of all spans, and returns their results, which are the states after each span if it is entered in
    /// the state `from`.
    fn run_spans(&mut self, plan: SpanPlan, from: u32) -> Result<Vec<u32>, ScanError> {
        self.settle()?;
        self.unsettled = true;
        let mut results = Vec::with_capacity(plan.count as usize);
        let most = self.producer.largest_batch().min(u64::from(RING_SLOTS)) as u32 / self.batches;
        let batch = plan.count.div_ceil(self.batches).clamp(1, most.max(1));
        let mut first = 0;
        while first < plan.count {
            let mut submitted = Vec::new();
            for _ in 0..self.batches {
                let spans = first.min(plan.count)..plan.count.min(first + batch);
                first = spans.end;
                let tasks: Vec<Task> = spans.map(|span| self.task(plan, span, from)).collect();
                if !tasks.is_empty() {
                    submitted.push(self.producer.submit_all(tasks).map_err(failed)?);
                }
            }
            // Tasks hold their slots until their results are read.
            for mut span in submitted {
                span.wait(TASK_TIME).map_err(failed)?;
                for result in span.results() {
                    results.push(result.map_err(failed)?);
                }
            }
        }
        self.unsettled = false;
        Ok(results)
    }

    /// If the run before has failed, waits until none of its tasks can read the text or write maps any more.
    fn settle(&mut self) -> Result<(), ScanError> {
        if self.unsettled {
            self.session.quiesce(TASK_TIME).map_err(failed)?;
            self.unsettled = false;
        }
        Ok(())
    }

    fn task(&self, plan: SpanPlan, span: u32, from: u32) -> Task {
        let start = span * plan.span;
        let args = SpanTaskArgs {
            text: start / 4,
            len: plan.span.min(self.loaded - start),
            turns: plan.piece / TURN_BYTES,
            from,
            lane_maps: span * self.shape.lanes * self.shape.map_words(),
            span_map: self.span_map_word(plan, span),
        };
        Task::new(self.op).args(args.words())
    }

    /// The word of the region of maps at which the map of a span begins. It lies after those of all lanes.
    fn span_map_word(&self, plan: SpanPlan, span: u32) -> u32 {
        (plan.count * self.shape.lanes + span) * self.shape.map_words()
    }

    fn map_len(&self) -> usize {
        self.shape.map_words() as usize
    }

    fn read_maps(&self, words: Range<u32>) -> Result<Vec<u32>, ScanError> {
        let view: RegionView<'_, u32> = self.session.view(TENANT, MAPS).map_err(failed)?;
        view.read(words.start as usize, words.len()).map_err(failed)
    }
}

/// The state in which a piece is left whose map is given as words, four states to a word.
fn leaving_state(state: u32, map: &[u32]) -> u32 {
    map[state as usize / 4] >> (state % 4 * 8) & 0xff
}

/// The smallest piece that a lane can read with at least so many bytes.
fn rounded_piece(bytes: u32) -> u32 {
    bytes.clamp(TURN_BYTES, PIECE_MAX).next_power_of_two()
}

/// What the handler is written for, and the configuration rounded to what the regions need.
fn checked_config(
    table: &TransitionTable,
    device: &Caps,
    config: ComposedConfig,
) -> (ComposedShape, ComposedConfig) {
    let is_remote = device.memory_bytes.is_some();
    let suits = if is_remote { LARGE_GROUP.min(device.max_lanes) } else { device.lanes };
    let lanes = config.lanes.unwrap_or(suits).max(1);
    // The largest chunk has 2^31 bytes.
    let chunk_bytes = config.chunk_bytes.clamp(1 << 12, 1 << 31).next_power_of_two();
    let piece_bytes = config.piece_bytes.map(|piece| rounded_piece(piece).min(chunk_bytes));
    let shape = ComposedShape::new(table, lanes, chunk_bytes / 4);
    (shape, ComposedConfig { chunk_bytes, piece_bytes, ..config })
}

/// The kernel.
fn kernel_spec(shape: ComposedShape, config: ComposedConfig, device: &Caps) -> Spec {
    let mut geometry = Geometry::new(RING_SLOTS).window(1).lanes(shape.lanes);
    geometry.groups = config.groups;
    let spec = Spec::new(geometry).telemetry(Telemetry::Off).body(SlotBody::Fused).fuel(FUEL);
    // Tasks take long, so rings that answer sooner gain nothing, and they would need groups that poll them.
    let spec = if device.memory_bytes.is_some() { spec.placement(Placement::Far) } else { spec };
    // The smallest pieces need the most maps. The last span may have lanes without text, and each span has a map too.
    let maps = (config.chunk_bytes / TURN_BYTES + shape.lanes) * 2 * shape.map_words();
    let tenant = Tenant::new(TENANT).producers(1).size(TEXT, shape.text_words).size(MAPS, maps);
    spec.region(Region::shared(ROWS, Type::U32, shape.table_words()))
        .region(Region::new(TEXT, Type::U32, 0).read_only())
        .region(Region::new(MAPS, Type::U32, 0))
        .tenant(tenant)
        .handler(COMPOSE, compose_handler(shape))
}
