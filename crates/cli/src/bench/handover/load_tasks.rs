//! The tasks that keep a session busy while its handlers change, and the handlers that run them.

use std::sync::Arc;
use std::thread;

use pelton::kernel::HandlerBody;
use pelton::kernel::handler_trees::Child;
use pelton::{Geometry, Handler, Region, Spec};
use pelton_device::Device;
use pelton_ir::types::{Order, Scope, Type};

/// The number of tasks that each producer has under way.
pub(super) const UNDER_WAY: usize = 24;
/// The number of tasks that never end.
pub(super) const ENDLESS: usize = 8;
/// The number of elements in which the tasks of one producer count themselves, one after the other.
pub(super) const PLACES: u32 = 64;
/// The region of these elements.
pub(super) const RAN: &str = "ran";
/// The handler that has versions.
pub(super) const YIELDS: &str = "yields";
/// Results are the numbers of tasks, multiplied by this.
pub(super) const FACTOR: u32 = 0x9e37_79b1;

/// How many threads submit tasks, and how many groups run them.
#[derive(Clone, Copy)]
pub(super) struct LoadShape {
    pub producers: u32,
    pub groups: Option<u32>,
}

impl LoadShape {
    /// Eight producers, but no more than there are cores if the device runs on these too. It then gets half of them.
    pub(super) fn of(device: &Arc<dyn Device>) -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from) as u32;
        match device.caps().memory_bytes {
            Some(_) => LoadShape { producers: 8, groups: None },
            None => LoadShape { producers: cores.min(8), groups: Some((cores / 2).max(1)) },
        }
    }

    /// The same shape with at least two groups, so that a session can have half of them.
    pub(super) fn with_two_groups(self) -> Self {
        LoadShape { groups: self.groups.map(|groups| groups.max(2)), ..self }
    }

    /// The spec of the sessions, with this version of the handler that has versions. It has a producer for
    /// each thread, one for tasks that never end, and one more.
    pub(super) fn spec(&self, version: u32) -> Spec {
        let mut geometry = Geometry::new(256);
        geometry.groups = self.groups;
        Spec::new(geometry)
            .producers(self.producers + 2)
            .cells(UNDER_WAY.next_power_of_two() as u32)
            .spawn_cells(256)
            .region(Region::new(RAN, Type::U32, self.producers * PLACES))
            .handler("plain", plain_handler())
            .handler(YIELDS, yields_handler(version))
            .handler("family", family_handler())
    }
}

/// Counts a task in the element that its first argument names.
fn count_task(task: &HandlerBody<'_>) {
    let place = task.region::<u32>(RAN).at(task.arg(0));
    task.body().atomic_add(Order::Relaxed, Scope::Device, place, 1u32);
}

/// Gives its second argument, multiplied.
fn plain_handler() -> Handler {
    Handler::lane_wide(|task| {
        count_task(&task);
        task.finish(task.arg(1) * FACTOR);
    })
}

/// Yields as often as its third argument says, and then does the same, and adds its version to the result.
pub(super) fn yields_handler(version: u32) -> Handler {
    let handler = Handler::lane_wide(move |task| {
        let (f, yields) = (task.body(), task.frame_word());
        let so_far = yields.load();
        f.when(so_far.lt(task.arg(2)), || {
            yields.store(so_far + 1);
            task.yield_now();
        });
        count_task(&task);
        task.finish(task.arg(1) * FACTOR + version);
    });
    handler.takes_over(true)
}

/// Spawns two tasks with its own arguments and the opcode in its fourth one, and gives the sum of their results.
fn family_handler() -> Handler {
    Handler::lane_wide(|task| {
        let (f, results) = (task.body(), [task.frame_word(), task.frame_word()]);
        task.step(|| {
            // There is room for all, so there is some unless a search for it has overlooked it.
            f.when(!task.reserve_children(2), || task.yield_now());
            for result in results {
                let child = Child::with_opcode(&task, task.arg(3));
                task.spawn(child.args([0, 1, 2].map(|at| task.arg(at))).result_into(result));
            }
            task.wait_children();
        });
        count_task(&task);
        task.finish(results[0].load() + results[1].load());
    })
}

/// What a task does.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum LoadKind {
    Plain,
    Yields,
    Family,
}

impl LoadKind {
    /// The kind of the task that counts itself in this element.
    pub(super) fn of(place: u32) -> Self {
        match place % 8 {
            0 => LoadKind::Family,
            1..=4 => LoadKind::Plain,
            _ => LoadKind::Yields,
        }
    }

    /// How often it is counted, with the tasks that it spawns.
    pub(super) fn counts(self) -> u64 {
        if self == LoadKind::Family { 3 } else { 1 }
    }

    /// How many versions of the handler its result is the sum of.
    pub(super) fn versions(self) -> u32 {
        match self {
            LoadKind::Plain => 0,
            LoadKind::Yields => 1,
            LoadKind::Family => 2,
        }
    }
}
