//! The handlers of the nodes of random graphs.

use pelton::ir::builder::Val;
use pelton::kernel::HandlerBody;
use pelton::kernel::handler_trees::Child;
use pelton::{Handler, Opcode, Spec};

use super::{NodeKind, node_arg, row_word};

/// What a hash begins with.
const START: u32 = 0x811c_9dc5;
/// What a hash is multiplied with for each word.
const FACTOR: u32 = 0x0100_0193;
/// What a word is multiplied with when it is mixed.
const MIX_FACTOR: u32 = 0x2c1b_3c6d;
/// The name of the handler of spawned tasks.
const LEAF: &str = "leaf";

/// Adds the handlers of nodes to a `Spec`.
pub(crate) fn with_node_handlers(spec: Spec) -> Spec {
    let leaf = Handler::lane_wide(|task| task.finish(mix_in_kernel(task.arg(0))));
    let spec = spec.handler(LEAF, leaf);
    NodeKind::ALL.into_iter().fold(spec, |spec, kind| {
        let handler = match kind {
            NodeKind::Quick => Handler::lane_wide(|task| {
                begin_node(&task);
                end_node(&task, hash_in_kernel(&task));
            }),
            NodeKind::Slow => slow_node(),
            NodeKind::Fork => fork_node(spec.opcode(LEAF).expect("the handler was added above")),
            NodeKind::Wide => wide_node(),
        };
        spec.handler(kind.op_name(), handler)
    })
}

/// A node that yields a few times.
fn slow_node() -> Handler {
    Handler::lane_wide(|task| {
        let (f, left) = (task.body(), task.frame_word());
        task.step(|| {
            begin_node(&task);
            left.store(task.arg(node_arg::NODE) & 3);
        });
        task.step(|| {
            let now = left.load();
            f.when(now.ne(0), || {
                left.store(now - 1);
                task.yield_now();
            });
        });
        end_node(&task, hash_in_kernel(&task));
    })
}

/// A node that spawns two tasks. If there is no room for them, it does what they would do.
fn fork_node(leaf: Opcode) -> Handler {
    Handler::lane_wide(move |task| {
        let (f, words) = (task.body(), [task.frame_word(), task.frame_word()]);
        task.step(|| {
            begin_node(&task);
            let seeds = [hash_in_kernel(&task), task.arg(node_arg::FIRST)];
            f.when(!task.reserve_children(2), || {
                words.iter().zip(seeds).for_each(|(word, seed)| word.store(mix_in_kernel(seed)));
                task.yield_to_step(1);
            });
            for (word, seed) in words.into_iter().zip(seeds) {
                task.spawn(Child::new(&task, leaf).result_into(word).args([seed]));
            }
            task.wait_children();
        });
        end_node(&task, hash_in_kernel(&task) + words[0].load() + words[1].load());
    })
}

/// A node that all lanes of a group run. Lane 0 leaves the row.
fn wide_node() -> Handler {
    Handler::group_wide(|group| {
        let f = group.body();
        let hash = f.choose(
            f.lane().eq(0),
            || {
                begin_node(&group);
                let hash = hash_in_kernel(&group);
                leave_row(&group, hash);
                hash
            },
            || f.lit(0),
        );
        group.finish(hash);
    })
}

/// An element of the row of a node.
fn row_at<'b>(task: &HandlerBody<'b>, node: Val<'b, u32>, word: u32) -> Val<'b, u32> {
    task.arg(node_arg::BLOCK) + node * row_word::WORDS + (1 + word)
}

/// Takes a number from the clock of the block.
fn take_stamp<'b>(task: &HandlerBody<'b>) -> Val<'b, u32> {
    task.atomic_add(task.arg(node_arg::BLOCK), 1) + 1
}

/// Notes that the node has begun.
fn begin_node(task: &HandlerBody<'_>) {
    let node = task.arg(node_arg::NODE);
    task.atomic_add(row_at(task, node, row_word::RUNS), 1);
    task.store(row_at(task, node, row_word::BEGIN), take_stamp(task));
}

/// Notes the result of the node, and that it has ended.
fn leave_row<'b>(task: &HandlerBody<'b>, result: Val<'b, u32>) {
    let node = task.arg(node_arg::NODE);
    task.store(row_at(task, node, row_word::RESULT), result);
    task.store(row_at(task, node, row_word::END), take_stamp(task));
}

/// Ends a node that one lane runs.
fn end_node<'b>(task: &HandlerBody<'b>, result: Val<'b, u32>) {
    leave_row(task, result);
    task.finish(result);
}

/// The hash of the arguments of a node, and of the result in the row that it reads.
fn hash_in_kernel<'b>(task: &HandlerBody<'b>) -> Val<'b, u32> {
    let f = task.body();
    let witness = task.arg(node_arg::WITNESS);
    let load = || task.load(row_at(task, witness - 1, row_word::RESULT));
    let seen = f.choose(witness.ne(0), load, || f.lit(0));
    let words = (node_arg::NODE..node_arg::COUNT).map(|at| task.arg(at)).chain([seen]);
    words.fold(f.lit(START), |hash, word| f.rotl((hash ^ word) * FACTOR, 13))
}

/// The hash of words, as the kernel computes it.
pub(super) fn hash_words(words: impl Iterator<Item = u32>) -> u32 {
    words.fold(START, |hash, word| (hash ^ word).wrapping_mul(FACTOR).rotate_left(13))
}

/// Mixes a word, as spawned tasks do.
pub(crate) fn mix_in_kernel<'b>(seed: Val<'b, u32>) -> Val<'b, u32> {
    (seed ^ (seed >> 15)) * MIX_FACTOR
}

/// Mixes a word, as the kernel does.
pub(crate) fn mix_word(seed: u32) -> u32 {
    (seed ^ seed >> 15).wrapping_mul(MIX_FACTOR)
}
