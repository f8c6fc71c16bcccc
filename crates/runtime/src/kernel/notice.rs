//! Changes of control words: how every task that is submitted after a change runs under the new word.
//!
//! Where groups read the host's control words themselves, they read a tenant's words after they have acquired its task.
//! So a task that was submitted after a change runs under the new word.
//!
//! Elsewhere one group, the *keeper*, keeps a copy of the words in device memory for the others. The host changes one
//! word at a time, names it in CHANGED, and waits for the answer: the keeper repeats the value of CHANGED in `acks`.
//!
//! 1. The keeper acquires CHANGED, copies the word that CHANGED names, and only then releases its answer.
//! 2. A group of far rings acquires the tail of a ring before it reads the copy. The host stores the tail of a later
//!    task after it has seen the answer, so the group reads the new word.
//!
//! A *poller* is the watch of a near group, or a subgroup of the router, on a device with memory of its own. It reads
//! the copy together with a line and not after it, because a second access to memory would add to the latency of every
//! task. So the keeper has to tell it about changes. Each poller has a word with two bits for that.
//!
//! 3. The keeper sets the bit CHANGED in the words of all pollers, after it has copied. It answers the host only when
//!    every poller has cleared the bit again or is *away*.
//! 4. A poller looks at its word in every round. In a round that finds the bit set, a watch runs nothing. The poller
//!    clears the bit at the end of the round, and reads the copy again in the next one. So what it has read of the copy
//!    before it cleared the bit is never used for a line that was published after the answer.
//! 5. A near group says that it is away when it has copied the lines of a window, and takes that back before its next
//!    look at the rings. So the keeper need not wait for the window to end, however long that takes. The lines of that
//!    window were published before the answer. The next look at the rings finds the bit, because all changes of one
//!    word have an order.

use pelton_ir::builder::{FunctionBuilder, Val};
use pelton_ir::types::{Order, Scope};

use super::context::{KernelContext, STRIDE, U32};
use super::mode::KeptControl;
use crate::protocol::control;

/// The bit that says that a control word has changed since the poller has read the copy.
const CHANGED: u32 = 1;
/// The bit that says that the group of the poller runs a window and looks at no rings.
const AWAY: u32 = 2;

/// The bits of the host's word CHANGED that say which control word has changed.
const WORD_BITS: u32 = 0xff;

/// The lanes of the keeper: the number of this lane among them, and how many there are.
pub(super) type KeeperLanes<'b> = (U32<'b>, u32);

/// Copies a changed control word, if CHANGED differs from `last`, and tells the pollers and the host. Gives the value
/// of CHANGED. Every lane of the keeper calls it.
pub(super) fn take_change_over<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    copy: &KeptControl,
    (lane, lanes): KeeperLanes<'b>,
    last: U32<'b>,
) -> U32<'b> {
    // Pairs with the host's release: the new value of the word that CHANGED names is seen.
    let asked = f.atomic_load(Order::Acquire, Scope::System, kernel.global.host.at(control::CHANGED));
    f.when(asked.ne(last), || {
        let word = asked & WORD_BITS;
        let value = f.atomic_load(Order::Relaxed, Scope::System, kernel.global.host.at(word));
        // All lanes of the keeper write the same value, because each lane then tells pollers of its own.
        f.atomic_store(Order::Relaxed, Scope::Device, copy.buffers.words.at(word), value);
        if let Some(notices) = copy.notices {
            let all = f.lit(kernel.layout.pollers);
            f.range((lane, all, f.lit(lanes)), (), |_, poller, ()| {
                // Pairs with the poller's acquire: it sees the copy.
                f.atomic_or(Order::Release, Scope::Device, notices.at(poller * STRIDE), CHANGED);
            });
            f.range((lane, all, f.lit(lanes)), (), |_, poller, ()| {
                f.forever::<(), ()>((), |wait, ()| {
                    // Pairs with the poller's release: the poller no longer uses what it had read.
                    let word = f.atomic_load(Order::Acquire, Scope::Device, notices.at(poller * STRIDE));
                    f.when((word & (CHANGED | AWAY)).ne(CHANGED), || wait.leave(()));
                });
            });
        }
        // Pairs with the host's acquire: tasks that are submitted after the host has seen the answer find the new copy.
        f.atomic_store(Order::Release, Scope::System, copy.buffers.acks.at(lane), asked);
    });
    asked
}

/// Loads the word of a poller, if pollers are told of changes.
pub(super) fn notice_word<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    poller: U32<'b>,
) -> Option<U32<'b>> {
    let notices = kernel.notices()?;
    Some(f.atomic_load(Order::Relaxed, Scope::Device, notices.at(poller * STRIDE)))
}

/// Whether a control word has changed, so that nothing may run with what this round has read of the copy. All lanes of
/// the poller's subgroup call it together.
pub(super) fn was_told<'b>(f: &'b FunctionBuilder<'b>, word: U32<'b>) -> Val<'b, bool> {
    f.any((word & CHANGED).ne(0))
}

/// Tells the keeper at the end of a round that the poller knows of a change, if there was one.
pub(super) fn acknowledge_change<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    poller: U32<'b>,
    word: Option<U32<'b>>,
) {
    let notices = kernel.notices();
    let Some((notices, word)) = notices.zip(word) else { return };
    f.when(was_told(f, word), || {
        // Pairs with the keeper's release: the next round reads the new copy.
        f.fence(Order::Acquire, Scope::Device);
        f.when(f.sublane().eq(0), || {
            // Pairs with the keeper's acquire: nothing that was read before is used from here on.
            f.atomic_and(Order::Release, Scope::Device, notices.at(poller * STRIDE), !CHANGED);
        });
    });
}

/// Says that the group of a poller has copied the lines of a window and runs them. The lane that has issued the fence
/// after the lines calls it.
pub(super) fn say_away<'b>(f: &'b FunctionBuilder<'b>, kernel: &KernelContext<'_>, poller: U32<'b>) {
    if let Some(notices) = kernel.notices() {
        // The fence after the lines pairs with the keeper's acquire: the lines were read before.
        f.atomic_or(Order::Relaxed, Scope::Device, notices.at(poller * STRIDE), AWAY);
    }
}

/// Says that the group of a poller is about to look at its rings again. One lane calls it, before it looks at the
/// poller's word.
pub(super) fn say_back<'b>(f: &'b FunctionBuilder<'b>, kernel: &KernelContext<'_>, poller: U32<'b>) {
    if let Some(notices) = kernel.notices() {
        f.atomic_and(Order::Relaxed, Scope::Device, notices.at(poller * STRIDE), !AWAY);
    }
}
