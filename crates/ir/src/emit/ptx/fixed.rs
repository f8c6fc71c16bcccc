//! Values that are computed at the start of a kernel: the numbers of a lane, the addresses of buffers, and the time
//! limit.
//!
//! The body asks for it and is given a register; [`PtxLowering::start`], which is written last, sets what was asked
//! for.

use crate::arena::{Buffer, Handle};

use super::abi::launch;
use super::lower::{PtxLowering, WARP};
use super::memory::plus;
use super::write::{PtxReg, RegKind};

/// The number of looks at the stop word between two readings of the clock.
pub(super) const LOOKS: u32 = 16;

/// The offset of a word of the launch record in bytes.
pub(super) fn given(word: usize) -> usize {
    8 * word
}

/// The place of a word of the end record.
pub(super) fn noted(record: PtxReg, word: usize) -> String {
    plus(record, 4 * word as u64)
}

/// A value that is computed at the start. The values that it depends on are listed before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Fixed {
    /// A lane's number in its group.
    Lane,
    /// A lane's number in its warp.
    Sublane,
    /// A warp's number in its group.
    Subgroup,
    /// The group's number.
    Group,
    /// How many groups there are.
    Groups,
    /// The lanes of the warp, as bits.
    Mask,
    /// How many lanes the warp has.
    Present,
    /// The address of a buffer that is bound.
    Base(Buffer),
    /// The length of a buffer that is bound.
    Len(Buffer),
    /// The address of the end record.
    Record,
    /// The number of looks at the stop word until the clock is read.
    Looks,
    /// The time until which the kernel may run.
    Limit,
    /// Where shared memory begins.
    Shared,
    /// Where the next broadcast of the group goes through.
    Slot,
}

impl Fixed {
    fn kind(self) -> RegKind {
        match self {
            Fixed::Base(_) | Fixed::Record | Fixed::Limit => RegKind::Long,
            _ => RegKind::Word,
        }
    }

    /// Returns the values that must be computed before.
    fn needs(self) -> Option<Fixed> {
        match self {
            Fixed::Sublane | Fixed::Subgroup | Fixed::Mask | Fixed::Present => Some(Fixed::Lane),
            _ => None,
        }
    }
}

impl PtxLowering<'_> {
    /// The register of something that is set at the start.
    pub(crate) fn fixed(&mut self, what: Fixed) -> PtxReg {
        if let Some(needs) = what.needs() {
            self.fixed(needs);
        }
        *self.start.entry(what).or_insert_with(|| self.out.new_reg(what.kind()))
    }

    /// Whether every warp of the group is whole.
    pub(crate) fn whole(&self) -> bool {
        self.config.lanes.is_multiple_of(WARP)
    }

    /// Whether a group is one warp.
    pub(crate) fn single(&self) -> bool {
        self.config.lanes <= WARP
    }

    /// The lanes of this warp, as bits.
    pub(crate) fn mask(&mut self) -> String {
        match self.config.lanes {
            lanes if lanes.is_multiple_of(WARP) => "0xffffffff".into(),
            lanes if lanes < WARP => format!("{:#x}", (1 << lanes) - 1),
            _ => self.fixed(Fixed::Mask).to_string(),
        }
    }

    /// How many lanes this warp has.
    pub(crate) fn present(&mut self) -> String {
        match self.config.lanes {
            lanes if lanes.is_multiple_of(WARP) => WARP.to_string(),
            lanes if lanes < WARP => lanes.to_string(),
            _ => self.fixed(Fixed::Present).to_string(),
        }
    }

    /// Writes the code that computes all values that were asked for.
    pub(crate) fn start(&mut self) {
        for (what, to) in self.start.clone() {
            self.set(what, to);
        }
    }

    fn set(&mut self, what: Fixed, to: PtxReg) {
        let lanes = self.config.lanes;
        let (last, some) = (lanes & !(WARP - 1), lanes % WARP);
        match what {
            Fixed::Lane => self.out.push_line(format_args!("mov.u32 {to}, %tid.x")),
            Fixed::Sublane => {
                let lane = self.fixed(Fixed::Lane);
                self.out.push_line(format_args!("and.b32 {to}, {lane}, {}", WARP - 1));
            }
            Fixed::Subgroup => {
                let lane = self.fixed(Fixed::Lane);
                self.out.push_line(format_args!("shr.u32 {to}, {lane}, {}", WARP.ilog2()));
            }
            Fixed::Group => self.out.push_line(format_args!("mov.u32 {to}, %ctaid.x")),
            Fixed::Groups => self.out.push_line(format_args!("mov.u32 {to}, %nctaid.x")),
            Fixed::Mask | Fixed::Present => {
                let (lane, p) = (self.fixed(Fixed::Lane), self.truth());
                let (whole, part) =
                    if what == Fixed::Mask { (u32::MAX, (1 << some) - 1) } else { (WARP, some) };
                self.out.push_line(format_args!("setp.lt.u32 {p}, {lane}, {last}"));
                self.out.push_line(format_args!("selp.b32 {to}, {whole:#x}, {part:#x}, {p}"));
            }
            Fixed::Base(buffer) => {
                self.out
                    .push_line(format_args!("ld.param.u64 {to}, [launch+{}]", self.words[buffer.index()]));
                self.out.push_line(format_args!("cvta.to.global.u64 {to}, {to}"));
            }
            Fixed::Len(buffer) => {
                self.out.push_line(format_args!(
                    "ld.param.u32 {to}, [launch+{}]",
                    self.words[buffer.index()] + 8
                ));
            }
            Fixed::Record => {
                self.out.push_line(format_args!("ld.param.u64 {to}, [launch+{}]", given(launch::RECORD)));
                self.out.push_line(format_args!("cvta.to.global.u64 {to}, {to}"));
            }
            Fixed::Looks => self.out.push_line(format_args!("mov.b32 {to}, {LOOKS}")),
            Fixed::Limit => {
                self.out.push_line(format_args!("ld.param.u64 {to}, [launch+{}]", given(launch::LIMIT)))
            }
            Fixed::Shared | Fixed::Slot => self.out.push_line(format_args!("mov.u32 {to}, memory")),
        }
    }
}
