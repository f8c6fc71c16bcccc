//! The declaring of a kernel's buffers, with a list of what the host binds.

use pelton_device::{Kind, Placement};
use pelton_ir::arena::Buffer;
use pelton_ir::builder::{Buf, Builder};
use pelton_ir::types::{Access, Len, Num, Space, Type};

use super::kit::LINE;
use super::layout::{Area, Bed, Bound, Layout, word};
use super::slots::Slots;
use super::spec::Report;

/// Declares buffers and keeps a list of what the host binds.
pub(super) struct Declare<'m> {
    pub m: &'m mut Builder,
    pub bound: Vec<Bound>,
}

impl Declare<'_> {
    pub fn buffer<T: Num>(&mut self, name: &str, len: u32, space: Space, access: Access) -> Buf<T> {
        let kind = if space == Space::Host { Kind::Host } else { Kind::Device };
        self.of(kind, name, len, space, access)
    }

    pub fn of<T: Num>(&mut self, kind: Kind, name: &str, len: u32, space: Space, access: Access) -> Buf<T> {
        let len = len.max(1);
        self.bound.push(Bound { name: name.into(), kind, width: word(T::TYPE), len: len as usize });
        // The length is known, so what is masked to it needs no check.
        self.m.buffer(name, Len::Fixed(len.into()), space, access)
    }

    /// Slots that the host writes while the kernel runs.
    pub fn slots(&mut self, layout: &Layout, placement: Placement) -> Option<Slots> {
        let bed = *layout.bed(placement)?;
        let (near, alone) = (placement == Placement::Near, layout.beds.len() == 1);
        // Near slots lie at a device that does not work in the host's memory.
        let kind = if near && layout.remote { Kind::Near } else { Kind::Host };
        let prefix = match (alone, near) {
            (true, _) => "",
            (false, true) => "near.",
            (false, false) => "far.",
        };
        let [slots, done] = ["slots", "done"].map(|name| layout.named(name, placement));
        let words = self.of(kind, &slots, bed.total() * LINE, Space::Host, Access::Read);
        let done = self.buffer(&done, bed.total(), Space::Host, Access::Write);
        Some(Slots { bed, words, done, prefix })
    }

    /// The slots of a drained batch. Records that nobody asks for stay at the device.
    pub fn batch(&mut self, bed: Bed, report: Report) -> Slots {
        let words = self.buffer("slots", bed.total() * LINE, Space::Host, Access::Read);
        let space = if report == Report::Full { Space::Host } else { Space::Global };
        let done = self.buffer("done", bed.total(), space, Access::Write);
        Slots { bed, words, done, prefix: "" }
    }

    /// Words that lanes write.
    pub fn global<T: Num>(&mut self, name: &str, len: u32) -> Buf<T> {
        self.buffer(name, len, Space::Global, Access::ReadWrite)
    }

    /// Words that are there when the kernel starts.
    pub fn table<T: Num>(&mut self, name: &str, len: u32) -> Buf<T> {
        self.buffer(name, len, Space::Global, Access::Read)
    }

    pub fn area(&mut self, area: &Area) -> Buffer {
        let (name, len) = (format!("region.{}", area.region.name), area.total);
        // The host may write a region while the kernel runs, even one that handlers only read. So the kernel never says that nobody
        // does: a GPU would read it through a cache that nothing renews.
        let access = Access::ReadWrite;
        match area.region.elem {
            Type::I32 => self.buffer::<i32>(&name, len, Space::Global, access).handle(),
            Type::U64 => self.buffer::<u64>(&name, len, Space::Global, access).handle(),
            Type::F32 => self.buffer::<f32>(&name, len, Space::Global, access).handle(),
            Type::U32 | Type::Bool => self.buffer::<u32>(&name, len, Space::Global, access).handle(),
        }
    }

    pub fn shared<T: Num>(&mut self, name: &str, len: u32) -> Buf<T> {
        self.m.buffer(name, Len::Fixed(len.max(1).into()), Space::Shared, Access::ReadWrite)
    }
}
