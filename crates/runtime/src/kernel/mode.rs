//! What a kernel serves: the rings of a session (near, far or both) or drained batches.
//!
//! Each mode has exactly the buffers that its kernels need, so combinations that cannot work cannot be expressed.

use pelton_ir::builder::Buf;

use super::buffers::{
    BatchSlots, ControlCopy, FarSlots, FrontierBuffers, NearFrontierBuffers, NearSlots, NoticeBuffers,
    PassBuffers, RouterBuffers,
};
use super::declare::Declarer;
use super::layout::{SlotBank, SlotBanks};
use super::slots::BankSlots;
use super::spec::Lifetime;

/// What a kernel serves.
pub(super) enum Mode {
    /// The kernel runs one pass over a batch that the host has filled, and ends.
    Drain(DrainMode),
    /// The kernel stays and serves rings until it is stopped.
    Live(LiveRings),
}

/// The buffers that only drained batches have.
pub(super) struct DrainMode {
    pub slots: BankSlots,
    pub frontier: FrontierBuffers,
    pub pass: PassBuffers,
}

/// The rings that a kernel serves, with their buffers.
pub(super) enum LiveRings {
    /// Near rings alone. There is a copy of the control words on devices that are far from host memory.
    Near { near: NearRings, copy: Option<KeptControl> },
    /// Far rings alone.
    Far(FarRings),
    /// Near and far rings. The router of the far rings keeps the copy of the control words for all groups.
    Both { near: NearRings, far: FarRings },
}

/// The buffers of near rings.
pub(super) struct NearRings {
    pub slots: BankSlots,
    /// There is a frontier only if a fence may have to wait for a cell.
    pub frontier: Option<FrontierBuffers>,
    /// The frontier of each of the group's stripes as it last saw them, where there is one.
    pub seen: Option<Buf<u64>>,
}

/// The buffers of far rings.
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
    /// One word per poller, by which it is told that a control word has changed, if there are such pollers.
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

impl NearRings {
    fn declare(d: &mut Declarer<'_>, bank: SlotBank, prefix: &'static str) -> Self {
        let NearSlots { words, done } = NearSlots::declare(d);
        let slots = BankSlots { bank, words, done, prefix };
        let frontier = (d.plan.layout.cell_count() > 0).then(|| {
            let NearFrontierBuffers { marks, front, seen } = NearFrontierBuffers::declare(d);
            (FrontierBuffers { marks, front }, seen)
        });
        let (frontier, seen) = frontier.unzip();
        NearRings { slots, frontier, seen }
    }
}

impl Mode {
    /// Declares the buffers of the mode that a plan asks for.
    pub(super) fn declare(d: &mut Declarer<'_>) -> Self {
        let layout = d.plan.layout;
        match layout.banks {
            SlotBanks::Near(bank) | SlotBanks::Far(bank) if d.plan.spec.lifetime == Lifetime::Drain => {
                let BatchSlots { words, done } = BatchSlots::declare(d);
                let slots = BankSlots { bank, words, done, prefix: "" };
                let (frontier, pass) = (FrontierBuffers::declare(d), PassBuffers::declare(d));
                Mode::Drain(DrainMode { slots, frontier, pass })
            }
            SlotBanks::Near(bank) => {
                let near = NearRings::declare(d, bank, "");
                let copy = (layout.keepers > 0).then(|| KeptControl::declare(d));
                Mode::Live(LiveRings::Near { near, copy })
            }
            SlotBanks::Far(bank) => Mode::Live(LiveRings::Far(FarRings::declare(d, bank, ""))),
            // Some functions are written once per placement, and their names say for which.
            SlotBanks::Both { near, far } => {
                let near = NearRings::declare(d, near, "near.");
                Mode::Live(LiveRings::Both { near, far: FarRings::declare(d, far, "far.") })
            }
        }
    }

    /// Whether the kernel drains batches.
    pub(super) fn drains(&self) -> bool {
        matches!(self, Mode::Drain(_))
    }

    /// The near rings, if there are any.
    pub(super) fn near_rings(&self) -> Option<&NearRings> {
        match self {
            Mode::Live(LiveRings::Near { near, .. } | LiveRings::Both { near, .. }) => Some(near),
            _ => None,
        }
    }

    /// The slots of near rings, if there are any.
    pub(super) fn near(&self) -> Option<&BankSlots> {
        self.near_rings().map(|near| &near.slots)
    }

    /// The copy of the host's control words, if groups read that instead of the host's own words.
    pub(super) fn control_copy(&self) -> Option<&KeptControl> {
        match self {
            Mode::Drain(_) => None,
            Mode::Live(LiveRings::Near { copy, .. }) => copy.as_ref(),
            Mode::Live(LiveRings::Far(far) | LiveRings::Both { far, .. }) => Some(&far.copy),
        }
    }

    /// The slots that a group of one lane may read in place: those of near rings where there are no far rings, or those
    /// of a drained batch. The second value says whether the host may still write them.
    pub(super) fn in_place(&self) -> Option<(&BankSlots, bool)> {
        match self {
            Mode::Drain(drain) => Some((&drain.slots, false)),
            Mode::Live(LiveRings::Near { near, .. }) => Some((&near.slots, true)),
            Mode::Live(_) => None,
        }
    }
}
