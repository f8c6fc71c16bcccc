//! The configuration of a session engine: how much memory it uses, and how it divides its work.

use pelton::device::Caps;
use pelton::kernel::{SlotBody, Telemetry};
use pelton::{Geometry, Opcode, Placement, Region, Spec, Tenant, TenantId, ir::types::Type};

use super::kernel::scan_handler;
use super::layout::{FOUND, FOUND_HEADER, FOUND_WORDS, KernelShape, RegionSizes, STRIP_STEP, TABLES, TEXT};
use super::step::{STEP, step_handler};

/// The configuration of a [`SessionEngine`](super::SessionEngine): how many calls it serves at once, and how it divides a
/// text. The default suits most uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionConfig {
    /// How many calls run at once. Others wait until one of these has ended.
    pub callers: u32,
    /// How many bytes of text are copied and scanned at once, a power of two. For each of `callers`, twice as much memory
    /// is used on the device.
    pub chunk_bytes: u32,
    /// How many bytes of text a task scans at least. A long text is cut into larger pieces, as long as there are several
    /// pieces for each group.
    pub piece_bytes: u32,
    /// How many candidates of a chunk there is room for. A chunk that has more is scanned again in halves. The value is
    /// raised to the number of literals of the catalog if it is less.
    pub candidate_room: u32,
    /// How many words of memory there are for tables at least. By default there is room for two versions of the catalog;
    /// more is needed only to [`replace`](super::SessionEngine::replace) the catalog with a larger one.
    pub table_words: u32,
    /// How many lanes a group has; by default as many as suit the device.
    pub lanes: Option<u32>,
    /// How many groups run tasks; by default as many as suit the device.
    pub groups: Option<u32>,
    /// How the kernel uses the memory of a group; by default as suits the device.
    pub shape: Option<KernelShape>,
}

impl Default for SessionConfig {
    fn default() -> Self {
        SessionConfig {
            callers: 4,
            chunk_bytes: 16 << 20,
            piece_bytes: 128 << 10,
            candidate_room: 1 << 16,
            table_words: 0,
            lanes: None,
            groups: None,
            shape: None,
        }
    }
}

/// The name of the handler.
pub(super) const SCAN: &str = "scan";

/// How much fuel a task has. It is enough for any piece: the loops of the handler end by themselves.
const FUEL: u32 = 1 << 30;

/// How many lanes a group has on a device with memory of its own.
const LARGE_GROUP: u32 = 512;

/// A checked configuration, in words of the regions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RegionPlan {
    pub config: SessionConfig,
    /// How many words a place for a text has.
    pub text_words: u32,
    /// How many words a list of candidates has.
    pub found_words: u32,
    pub sizes: RegionSizes,
    pub shape: KernelShape,
    /// How many lanes a group has.
    pub lanes: u32,
    /// Whether the device has memory of its own.
    remote: bool,
    /// The tenant that scans.
    pub tenant: TenantId,
}

impl RegionPlan {
    /// Rounds a configuration to what the regions need. `image_words` is the size of the catalog's image, `margin` is how
    /// many bytes around a chunk are copied with it, and `outputs` is how many candidates a single position can have.
    pub(super) fn new(
        mut config: SessionConfig,
        device: &Caps,
        image_words: u32,
        (margin, outputs): (usize, usize),
    ) -> RegionPlan {
        config.callers = config.callers.clamp(1, 64).next_power_of_two();
        let least = (margin as u64 * 4).max(4096).next_power_of_two();
        let places = u64::from(config.callers) * 2;
        // The text region has fewer than 2^32 words.
        let most = ((1u64 << 31) * 4 / places).min(1 << 31);
        let chunk = u64::from(config.chunk_bytes).next_power_of_two().max(least).min(most);
        config.chunk_bytes = chunk as u32;
        config.piece_bytes = config.piece_bytes.clamp(STRIP_STEP, 1 << 24);
        config.candidate_room = config.candidate_room.max(outputs as u32).clamp(1, 1 << 24);
        let remote = device.memory_bytes.is_some();
        // A large group shares one copy of the automaton's first rows.
        let suits = if remote { LARGE_GROUP.min(device.max_lanes) } else { device.lanes };
        let lanes = config.lanes.unwrap_or(suits).max(1);
        // As many lanes as usual are resident, in fewer groups. One group does not run tasks.
        let groups = u64::from(device.groups) * u64::from(device.lanes) / u64::from(lanes);
        let groups = groups.min(device.groups.into()) as u32;
        config.groups = config.groups.or_else(|| remote.then(|| groups.saturating_sub(1).max(1)));
        let half = image_words.max(config.table_words / 2).max(1024).next_power_of_two();
        RegionPlan {
            config,
            text_words: config.chunk_bytes / 4,
            found_words: (FOUND_HEADER + FOUND_WORDS * config.candidate_room).next_multiple_of(4),
            sizes: RegionSizes {
                tables: half * 2,
                text: (u64::from(config.chunk_bytes) / 4 * places) as u32,
            },
            shape: config.shape.unwrap_or_else(|| KernelShape::suiting(device)).checked(lanes),
            lanes,
            remote,
            tenant: 0,
        }
    }

    /// How many rings a caller has. Groups take tasks from a ring one after the other, so several rings give out more
    /// tasks in the same time.
    pub(super) fn rings_per_caller(&self) -> u32 {
        if self.remote { (16 / self.config.callers).clamp(1, 8) } else { 1 }
    }

    /// How many places for texts there are.
    pub(super) fn places(&self) -> u32 {
        self.config.callers * 2
    }

    /// The kernel that scans for one tenant.
    pub(super) fn spec(&self) -> Spec {
        let config = &self.config;
        let pieces = (config.chunk_bytes / config.piece_bytes).max(1);
        // A batch takes a quarter of a ring at most, and a chunk may have several automata.
        let slots = (pieces * 8 / self.rings_per_caller()).next_power_of_two().clamp(256, 1 << 17);
        let mut geometry = Geometry::new(slots).window(1);
        geometry.groups = config.groups;
        let spec = Spec::new(geometry).telemetry(Telemetry::Off).body(SlotBody::Fused);
        // Tasks take long, so rings that answer sooner gain nothing, and they would need groups that poll them.
        let spec = if self.remote { spec.placement(Placement::Far) } else { spec };
        self.add_to(spec)
    }

    /// Adds the handlers and their regions to a kernel, for one of its tenants. A fused kernel has only one handler, which
    /// scans; all others can also step automata, for every tenant. The handler that scans is written for groups of a
    /// certain number of lanes, which the kernel then has.
    pub(super) fn add_to(&self, mut spec: Spec) -> Spec {
        spec.geometry.lanes = Some(self.lanes);
        let found = self.found_words * self.places();
        let known = spec.tenants.iter().find(|known| known.id == self.tenant).cloned();
        let user = known.unwrap_or_else(|| Tenant::new(self.tenant));
        let user = user
            .producers(self.config.callers * self.rings_per_caller())
            .size(TEXT, self.sizes.text)
            .size(FOUND, found);
        let fuel = spec.fuel.max(FUEL);
        let spec = match spec.body {
            SlotBody::Dispatch => spec.handler_at(Opcode::DFA_STEP, STEP, step_handler(self.sizes)),
            SlotBody::Fused => spec,
        };
        spec.fuel(fuel)
            .region(Region::shared(TABLES, Type::U32, self.sizes.tables))
            .region(Region::new(TEXT, Type::U32, 0).read_only())
            .region(Region::new(FOUND, Type::U32, 0))
            .tenant(user)
            .handler(SCAN, scan_handler(self.sizes, self.shape, self.lanes))
    }
}
