//! Changes of control words: how a change that the host makes comes to hold for every task that is submitted after it.
//!
//! Where groups read the host's control words themselves, they read a tenant's words after they have acquired its task, so a task that
//! was submitted after a change meets it. Elsewhere one group, the *keeper*, keeps a copy of the words in device memory for the others.
//! The host changes one word at a time, names it in CHANGED, and waits until the keeper has repeated that word in `acks`:
//!
//! 1. The keeper acquires CHANGED, copies the word that it names, and only then releases its answer.
//! 2. A group of far rings acquires the tail of a ring before it reads the copy. The tail was stored after the answer was seen.
//!
//! A *poller* (the watch of a near group, or a subgroup of the router) on a device with memory of its own reads the copy together with a
//! line, not after it, since a second trip to memory would show in the latency of every task. So the keeper tells it: each poller has
//! a word with two bits.
//!
//! 3. The keeper sets CHANGED in the words of all pollers, after it has copied. It answers the host only when every poller has cleared
//!    the bit again or is *away*.
//! 4. A poller looks at its word in every round. In a round that finds the bit a watch runs nothing; the poller clears the bit, and reads the
//!    copy anew in the next round. So what it read of the copy before it cleared the bit is never used for a line that was published after
//!    the answer.
//! 5. A near group says that it is away when it has copied the lines of a window, and takes that back before its next look at the rings.
//!    The keeper does not wait for a window to end, however long that takes: the lines of that window were there before the answer, and
//!    a look after it finds the bit, because all changes of one word have an order.

use pelton_ir::builder::{FunctionBuilder, Val};
use pelton_ir::types::{Order, Scope};

use super::context::{KernelContext, STRIDE, U32};
use super::mode::KeptControl;
use crate::protocol::control;

/// A control word has changed since the poller read the copy.
const CHANGED: u32 = 1;
/// The group of the poller runs a window, and looks at no rings.
const AWAY: u32 = 2;

/// The bits of CHANGED that name the word.
const WORD: u32 = 0xff;

/// Lanes that take changes over: the number of this lane among them, and how many there are.
pub(super) type KeeperLanes<'b> = (U32<'b>, u32);

/// Takes a change over, if there is one since `last`; what CHANGED says now. Every lane of the keeper calls it.
pub(super) fn take_change_over<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    copy: &KeptControl,
    (lane, lanes): KeeperLanes<'b>,
    last: U32<'b>,
) -> U32<'b> {
    // Pairs with the host's release: the word that it names is seen.
    let asked = f.atomic_load(Order::Acquire, Scope::System, kernel.global.host.at(control::CHANGED));
    f.when(asked.ne(last), || {
        let word = asked & WORD;
        let value = f.atomic_load(Order::Relaxed, Scope::System, kernel.global.host.at(word));
        // All lanes of the keeper write the same: each tells pollers of its own.
        f.atomic_store(Order::Relaxed, Scope::Device, copy.buffers.words.at(word), value);
        if let Some(notices) = copy.notices {
            let all = f.lit(kernel.layout.pollers);
            f.range((lane, all, f.lit(lanes)), (), |_, poller, ()| {
                // Pairs with the poller's acquire: it sees the copy.
                f.atomic_or(Order::Release, Scope::Device, notices.at(poller * STRIDE), CHANGED);
            });
            f.range((lane, all, f.lit(lanes)), (), |_, poller, ()| {
                f.forever::<(), ()>((), |wait, ()| {
                    // Pairs with the poller's release: it is done with what it had read.
                    let word = f.atomic_load(Order::Acquire, Scope::Device, notices.at(poller * STRIDE));
                    f.when((word & (CHANGED | AWAY)).ne(CHANGED), || wait.leave(()));
                });
            });
        }
        // Pairs with the host's acquire: whoever it lets submit a task from here on finds the copy.
        f.atomic_store(Order::Release, Scope::System, copy.buffers.acks.at(lane), asked);
    });
    asked
}

/// The word of a poller, if it is told of changes.
pub(super) fn notice_word<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    poller: U32<'b>,
) -> Option<U32<'b>> {
    let notices = kernel.notices()?;
    Some(f.atomic_load(Order::Relaxed, Scope::Device, notices.at(poller * STRIDE)))
}

/// Whether a control word has changed, so that nothing may be run with what this round has read; the poller's subgroup asks together.
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
        // Pairs with the keeper's release: the next round reads the copy as it is now.
        f.fence(Order::Acquire, Scope::Device);
        f.when(f.sublane().eq(0), || {
            // Pairs with the keeper's acquire: nothing that was read before is used any more.
            f.atomic_and(Order::Release, Scope::Device, notices.at(poller * STRIDE), !CHANGED);
        });
    });
}

/// The group of a poller has copied its lines and runs them. The lane that made the fence after them says so.
pub(super) fn say_away<'b>(f: &'b FunctionBuilder<'b>, kernel: &KernelContext<'_>, poller: U32<'b>) {
    if let Some(notices) = kernel.notices() {
        // The fence after the lines pairs with the keeper's acquire: they were read before.
        f.atomic_or(Order::Relaxed, Scope::Device, notices.at(poller * STRIDE), AWAY);
    }
}

/// The group of a poller is about to look at its rings again. One lane says so, before it looks at its word.
pub(super) fn say_back<'b>(f: &'b FunctionBuilder<'b>, kernel: &KernelContext<'_>, poller: U32<'b>) {
    if let Some(notices) = kernel.notices() {
        f.atomic_and(Order::Relaxed, Scope::Device, notices.at(poller * STRIDE), !AWAY);
    }
}
