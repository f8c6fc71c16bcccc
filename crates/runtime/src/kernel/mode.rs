//! What a kernel serves: the rings of a session, near or far or both, or drained batches.
//!
//! A mode has exactly the buffers that its kernels need, so a combination that cannot work cannot be written down.

use pelton_ir::builder::Buf;

use super::buffers::{
    BatchSlots, ControlCopy, FarSlots, FrontierBuffers, NearSlots, NoticeBuffers, PassBuffers, RouterBuffers,
};
use super::declare::Declarer;
use super::layout::{SlotBank, SlotBanks};
use super::slots::BankSlots;
use super::spec::Lifetime;

/// What a kernel serves.
pub(super) enum Mode {
    /// It runs passes over batches that the host has filled.
    Drain(DrainMode),
    /// It stays and serves rings.
    Live(LiveRings),
}

/// What only drained batches have.
pub(super) struct DrainMode {
    pub slots: BankSlots,
    pub frontier: FrontierBuffers,
    pub pass: PassBuffers,
}

/// The rings of a session.
pub(super) enum LiveRings {
    /// Near rings alone. There is a copy of the control words where host memory is far from the device.
    Near { near: BankSlots, copy: Option<KeptControl> },
    /// Far rings alone.
    Far(FarRings),
    /// Near and far rings; the router of the far ones keeps the control words for all.
    Both { near: BankSlots, far: FarRings },
}

/// What far rings have.
pub(super) struct FarRings {
    pub slots: BankSlots,
    pub router: RouterBuffers,
    pub frontier: FrontierBuffers,
    pub copy: KeptControl,
}

/// The copy of the host's control words that one group keeps for the others.
#[derive(Clone, Copy)]
pub(super) struct KeptControl {
    pub buffers: ControlCopy,
    /// One word per poller that has to be told of a change, where there are any.
    pub notices: Option<Buf<u32>>,
}

impl KeptControl {
    fn declare(d: &mut Declarer<'_>) -> Self {
        let buffers = ControlCopy::declare(d);
        let notices = (d.plan.layout.pollers > 0).then(|| NoticeBuffers::declare(d).notices);
        KeptControl { buffers, notices }
    }
}

impl FarRings {
    fn declare(d: &mut Declarer<'_>, bank: SlotBank, prefix: &'static str) -> Self {
        let FarSlots { words, done } = FarSlots::declare(d);
        let slots = BankSlots { bank, words, done, prefix };
        let (router, copy) = (RouterBuffers::declare(d), KeptControl::declare(d));
        FarRings { slots, router, copy, frontier: FrontierBuffers::declare(d) }
    }
}

/// Declares the slots of near rings.
fn near_slots(d: &mut Declarer<'_>, bank: SlotBank, prefix: &'static str) -> BankSlots {
    let NearSlots { words, done } = NearSlots::declare(d);
    BankSlots { bank, words, done, prefix }
}

impl Mode {
    /// Declares the buffers of the mode that a plan asks for.
    pub fn declare(d: &mut Declarer<'_>) -> Self {
        let layout = d.plan.layout;
        match layout.banks {
            SlotBanks::Near(bank) | SlotBanks::Far(bank) if d.plan.spec.lifetime == Lifetime::Drain => {
                let BatchSlots { words, done } = BatchSlots::declare(d);
                let slots = BankSlots { bank, words, done, prefix: "" };
                let (frontier, pass) = (FrontierBuffers::declare(d), PassBuffers::declare(d));
                Mode::Drain(DrainMode { slots, frontier, pass })
            }
            SlotBanks::Near(bank) => {
                let near = near_slots(d, bank, "");
                let copy = (layout.keepers > 0).then(|| KeptControl::declare(d));
                Mode::Live(LiveRings::Near { near, copy })
            }
            SlotBanks::Far(bank) => Mode::Live(LiveRings::Far(FarRings::declare(d, bank, ""))),
            // Functions that are written for each placement have names that say which.
            SlotBanks::Both { near, far } => {
                let near = near_slots(d, near, "near.");
                Mode::Live(LiveRings::Both { near, far: FarRings::declare(d, far, "far.") })
            }
        }
    }

    /// Whether batches are drained.
    pub fn drains(&self) -> bool {
        matches!(self, Mode::Drain(_))
    }

    /// The slots of near rings, if there are any.
    pub fn near(&self) -> Option<&BankSlots> {
        match self {
            Mode::Live(LiveRings::Near { near, .. } | LiveRings::Both { near, .. }) => Some(near),
            _ => None,
        }
    }

    /// The copy of the host's control words, where groups do not read the host's own.
    pub fn control_copy(&self) -> Option<&KeptControl> {
        match self {
            Mode::Drain(_) => None,
            Mode::Live(LiveRings::Near { copy, .. }) => copy.as_ref(),
            Mode::Live(LiveRings::Far(far) | LiveRings::Both { far, .. }) => Some(&far.copy),
        }
    }

    /// The slots whose words a group may read in place, if it has one lane: those of its only ring, which is not far from it, or of a
    /// drained batch. With it comes whether the host may still write them.
    pub fn in_place(&self) -> Option<(&BankSlots, bool)> {
        match self {
            Mode::Drain(drain) => Some((&drain.slots, false)),
            Mode::Live(LiveRings::Near { near, .. }) => Some((near, true)),
            Mode::Live(_) => None,
        }
    }
}
